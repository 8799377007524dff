/*
 * util/places.h - the servers that one address stands for.
 *
 *     srv:NAME      the targets of DNS's SRV records of _cricket._tcp.NAME
 *     file:/PATH    the first word of each line of this file, unless it begins with #
 *     all else      itself
 *
 * Each call asks, or reads, again.
 */
#ifndef CK_UTIL_PLACES_H
#define CK_UTIL_PLACES_H

#include <stdbool.h>

#include "util/servers.h"
#include "util/srv.h"

#define CK_PLACES_MAX CK_SRV_MAX
#define CK_PLACES_WHY (CK_ADDRESS_WHY + 64)

struct ck_place {
	char address[CK_SERVER_ADDRESS];
	unsigned int priority; /* the lowest is to be used first */
};

struct ck_places {
	struct ck_place list
		[CK_PLACES_MAX]; /* in the order in which a client tries them; more are left out */
	unsigned int count;
};

/* Find them: one at least. -errno: @why says why not. */
int ck_places_find(const char *address, struct ck_places *places, char why[CK_PLACES_WHY]);

/* Is @address one of them? */
bool ck_places_has(const struct ck_places *places, const char *address);

#endif
