/*
 * server/helpers/client_files.h - the client's files, for programs that install them (CK_FILES).
 */
#ifndef CK_SERVER_HELPERS_CLIENT_FILES_H
#define CK_SERVER_HELPERS_CLIENT_FILES_H

#include <stdint.h>

#include "cricket.h"

#define CK_CLIENT_FILES_ARGUMENT "--send-client"

/* An installed client: its entry in the reply, and its open files (-1: a link). */
struct cks_client_files {
	ck_files_res res; /* its texts are freed with the list */
	ck_file list[CK_FILES_MAX];
	int fds[CK_FILES_MAX];
	uint64_t bytes;
};

/*
 * List the client in @folder, PREFIX/lib/cricket of an installation or cpu/ of a build, for
 * @machine. The result always has a status that can be sent. -errno: of memory, or of a file that
 * cannot be read (logged).
 */
int cks_client_files_open(const char *folder, const char *machine, struct cks_client_files *files);
void cks_client_files_close(struct cks_client_files *files);

/* A process for one connection, descriptor 3, whose client the supervisor has admitted: read the
 * call, reply, and send the files of @folder; NULL: the folder of this program. Returns the exit
 * status. */
int cks_client_files_main(const char *folder);

#endif
