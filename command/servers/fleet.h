/*
 * command/servers/fleet.h - the servers among which a program's GPUs are chosen.
 */
#ifndef CK_COMMAND_SERVERS_FLEET_H
#define CK_COMMAND_SERVERS_FLEET_H

#include <stdbool.h>
#include <stddef.h>

#include "command/config/server.h"
#include "command/servers/offer.h"
#include "util/address/servers.h"

#define CKX_FLEET 64

struct ckx_candidate {
	struct ckx_server server; /* the address of one server, with its token and TLS */
	unsigned int devices[CK_SERVER_DEVICES];
	unsigned int count;    /* of these; 0: all of the server's */
	unsigned int priority; /* the lowest first */
	unsigned int keys;     /* those with the same number have the same token and TLS */
	struct ckx_offer offer;
};

struct ckx_fleet {
	struct ckx_candidate
		*list[CKX_FLEET]; /* in the user's order; those of DNS by priority and name */
	size_t count;
};

/* Does @address stand for servers to choose from? */
bool ckx_fleet_is(const char *address);

/* Add the servers of @server's address: a list, srv:, file:, or one alone. A fleet begins with
 * zeros. -errno, printed. Free it in any case. */
int ckx_fleet_find(const struct ckx_server *server, struct ckx_fleet *fleet);
/* Add @server, as it is. */
int ckx_fleet_add(struct ckx_fleet *fleet, const struct ckx_server *server);
void ckx_fleet_free(struct ckx_fleet *fleet);

/* Ask all of them for their offers. */
void ckx_fleet_ask(struct ckx_fleet *fleet);

/* fleet_print.c: their offers, as a table and as JSON. */
void ckx_fleet_print(const struct ckx_fleet *fleet);
void ckx_fleet_print_json(const struct ckx_fleet *fleet);

#endif
