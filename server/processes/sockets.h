/*
 * server/processes/sockets.h - the sockets at which the server listens.
 */
#ifndef CK_SERVER_PROCESSES_SOCKETS_H
#define CK_SERVER_PROCESSES_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/*
 * Wait a moment before another attempt to get @what, an address or a file, which is in use: a
 * process that a server had just forked when it crashed holds that server's sockets and locks
 * until it executes its program. *@by is 0 before the first call for @what. False: it has been in
 * use for so long that another server must have it.
 */
bool cks_wait_in_use(const char *what, int64_t *by);

/* ck_unix_listen(), with that wait. */
int cks_socket_listen(const char *path, int type);

/* Unlink @path if it is still the file @own: another server may have replaced it. */
void cks_unlink_own(const char *path, const struct stat *own);

#endif
