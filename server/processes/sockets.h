/*
 * server/processes/sockets.h - the sockets at which the server listens.
 */
#ifndef CK_SERVER_PROCESSES_SOCKETS_H
#define CK_SERVER_PROCESSES_SOCKETS_H

#include <stddef.h>
#include <sys/stat.h>

#define CK_LISTEN_MAX 16		 /* addresses of --listen */
#define CK_LISTENERS (CK_LISTEN_MAX + 1) /* and the unix socket */

struct cks_socket {
	int fd;
	char path[108];	  /* of a unix socket, for removal; else empty */
	struct stat file; /* remove only this file */
};

struct cks_listeners {
	struct cks_socket list[CK_LISTENERS];
	size_t count;
};

/* The path of a unix socket, with @ before an abstract one; else empty. */
void cks_socket_path(struct cks_socket *socket);

/* Unlink @path if it is still the file @own: another server may have replaced it. */
void cks_unlink_own(const char *path, const struct stat *own);

#endif
