/*
 * command/sessions/resolve.h - which addresses of this host an address of TCP stands for.
 */
#ifndef CK_COMMAND_SESSIONS_RESOLVE_H
#define CK_COMMAND_SESSIONS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "util/address.h"

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
