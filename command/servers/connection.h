/*
 * command/servers/connection.h - connect to a server, and time its answers to empty calls, which
 * need no session.
 */
#ifndef CK_COMMAND_SERVERS_CONNECTION_H
#define CK_COMMAND_SERVERS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "command/config/server.h"
#include "rpc/tls.h"

struct ck_chan;

struct ckx_connection {
	char at[CKX_TEXT + 8]; /* the address that was tried last */
	int error;	       /* -errno of connecting */
	bool connected;
	bool trusted; /* encrypted, or need not be */
	bool secure;  /* encrypted: see tls */
	char tls[64];
	bool speaks;	      /* it answered an empty call of the protocol */
	double connect_ms;    /* to the connection */
	double trip_us;	      /* the shortest of a few */
	char route[256];      /* from this host to it */
	bool near;	      /* it is on this host */
	char why[CK_TLS_WHY]; /* of the first step that failed, with advice */
};

/* -errno of a read or write on a connection, in words for the user. */
const char *ckx_connection_error(int ret);

void ckx_connection(const struct ckx_server *server, struct ckx_connection *reach);

/* Only connect, for calls of one's own; reach->speaks stays false. A connection that leaves this
 * host is encrypted, or there is none. -errno: reach->why says why. */
int ckx_connection_open(const struct ckx_server *server, struct ckx_connection *reach,
			struct ck_chan **chan);

/* The same for a connection that is as safe as that of a program. */
int ckx_connection_dial(const struct ckx_server *server, struct ckx_connection *reach,
			struct ck_chan **chan);

/* Which key does the server show? The pin, which nothing has verified; empty: it has no TLS, or is
 * reached through a socket of this host. -errno: reach->why says why it is unknown. */
int ckx_connection_pin(const struct ckx_server *server, struct ckx_connection *reach,
		       char pin[CK_TLS_PIN]);

/* --- the way of a connection from this host (route.c) */

/* Describe connected socket @fd in @out of @size bytes, as in "10.0.0.2 to 10.0.0.9 by eth0, MTU
 * 1500". Returns whether both ends are on this host. */
bool ckx_route(int fd, char *out, size_t size);

#endif
