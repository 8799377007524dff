/*
 * server/children/mps_folder.h - the folders of daemons of NVIDIA MPS (mps.h), in systemd's folder
 * of the unit, that of the user, /run or /tmp.
 */
#ifndef CK_SERVER_CHILDREN_MPS_FOLDER_H
#define CK_SERVER_CHILDREN_MPS_FOLDER_H

#include <stddef.h>
#include <stdint.h>

/* Make a new folder with the mode 0700 and a name that others cannot guess; its path is in @out.
 * *@number is the last number of this server's before, and its own then. The first one removes the
 * leftovers of killed servers: NVIDIA's server outlives its daemon. -errno. */
int cks_mps_folder_make(uint32_t *number, char *out, size_t size);
/* With its files. */
void cks_mps_folder_remove(const char *path);

#endif
