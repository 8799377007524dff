/*
 * command/sessions/local.h - the servers of this host, found by their status sockets
 * (docs/status.md).
 */
#ifndef CK_COMMAND_SESSIONS_LOCAL_H
#define CK_COMMAND_SESSIONS_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "util/address/address.h"
#include "util/address/unixsock.h"

#define CKX_STATUS_SUFFIX ".status"

/* A connection to a status socket. */
struct ckx_local {
	int fd;
	char stem[CK_UNIX_PATH_MAX]; /* path of the socket without CKX_STATUS_SUFFIX */
};

/* Connect to that of the server whose own socket is @path. 0 or -errno. */
int ckx_local_dial(const char *path, struct ckx_local *local);

/* To the first of the usual ones that answers. The error is that of the one that says most: -EACCES
 * before others, -ENOENT last. */
int ckx_local_usual(struct ckx_local *local);

/*
 * To that of the one server that listens at @address, which is of TCP. -ENXIO: no host has the
 * name; -EREMOTE: it is another host's address; -EADDRNOTAVAIL: nothing listens at the port;
 * -ESRCH: no server says that it is the one that listens; -ENOTUNIQ: several say so; -errno.
 */
int ckx_local_listening(const struct ck_address *address, struct ckx_local *local);

/* Print the servers here, one to a line, as the option -s takes them; or that there are none. */
void ckx_local_print(void);

/* --- the addresses of this host that an address of TCP stands for (resolve.c) */

#define CKX_RESOLVED 16

struct ckx_resolved {
	struct sockaddr_storage list[CKX_RESOLVED];
	size_t count; /* 0: all are those of other hosts */
	unsigned int port;
};

/* Look up the host of @address. -ENXIO: no host has this name; -EAGAIN: no name server answers. */
int ckx_resolve(const struct ck_address *address, struct ckx_resolved *resolved);

/* Does a socket that listens at @text, a numeric address with its port, accept connections to one
 * of these? */
bool ckx_resolved_has(const struct ckx_resolved *resolved, const char *text);

#endif
