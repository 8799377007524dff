/*
 * command/run/container.h - the mounts and variables by which a container's programs find the
 * client and the server: files of this host, and variables.
 *
 * The folder of the client is at CKX_CONTAINER_LIBRARY, this command in /usr/local/bin, and the
 * sockets of servers, the token and the files of TLS are in /run/cricket. The token is in a file,
 * because engines show a container's variables to whoever may inspect it.
 */
#ifndef CK_COMMAND_RUN_CONTAINER_H
#define CK_COMMAND_RUN_CONTAINER_H

#include "command/config/install_paths.h"
#include "command/run/settings.h"

#define CKX_MOUNTS 24

/* A file or folder of this host; the container reads it. */
struct ckx_mount {
	char host[CKX_PATH];
	char inside[64];
};

struct ckx_container {
	struct ckx_settings settings;
	struct ckx_mount mounts[CKX_MOUNTS];
	size_t mount_count;
	unsigned int servers; /* whose sockets or lists are mounted */
	bool rootless;	      /* it has at most the rights of this user, without further groups */
};

/* The settings for @wishes, and a file with the token, for this user only, in ~/.config/cricket.
 * @rootless: as in struct ckx_container. -errno, printed; free it in any case. */
int ckx_container_make(const struct ckx_wishes *wishes, bool rootless,
		       struct ckx_container *container);
/* Print what to do instead of -s emu. CKX_USAGE. */
int ckx_container_no_emulated(void);
void ckx_container_free(struct ckx_container *container);

#endif
