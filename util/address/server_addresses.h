/*
 * util/address/server_addresses.h - the servers that one address stands for.
 *
 *     srv:NAME      the targets of DNS's SRV records of _cricket._tcp.NAME
 *     file:/PATH    the first word of each line of this file, unless it begins with #
 *     all else      itself
 *
 * Each call asks, or reads, again.
 */
#ifndef CK_UTIL_ADDRESS_SERVER_ADDRESSES_H
#define CK_UTIL_ADDRESS_SERVER_ADDRESSES_H

#include <stdbool.h>

#include "util/address/servers.h"
#include "util/address/srv.h"

#define CK_SERVER_ADDRESSES_MAX CK_SRV_MAX
#define CK_SERVER_ADDRESSES_WHY (CK_ADDRESS_WHY + 64)

struct ck_place {
	char address[CK_SERVER_ADDRESS];
	unsigned int priority; /* the lowest is to be used first */
};

struct ck_server_addresses {
	struct ck_place list
		/* in the order in which a client tries them; more are left out */
		[CK_SERVER_ADDRESSES_MAX];
	unsigned int count;
};

/* Find them: one at least. -errno: @why says why not. */
int ck_server_addresses_find(const char *address, struct ck_server_addresses *places,
			     char why[CK_SERVER_ADDRESSES_WHY]);

/* Is @address one of them? */
bool ck_server_addresses_has(const struct ck_server_addresses *places, const char *address);

#endif
