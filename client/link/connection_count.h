/*
 * client/link/connection_count.h - how many connections a use of the network takes.
 */
#ifndef CK_CLIENT_LINK_CONNECTION_COUNT_H
#define CK_CLIENT_LINK_CONNECTION_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

#define CK_CONNECTIONS_MOST 32u
/* The round trip from which more connections may be faster. */
#define CK_CONNECTIONS_LONG_NS (CK_CHAN_LONG_US * UINT64_C(1000))

/*
 * How many connections copies in one direction use. A connection carries at most one window per
 * round trip. With a long round trip, a few connections therefore do not fill the network. Their
 * number is doubled while that makes copies faster.
 */
struct ckc_connection_count {
	unsigned int now;  /* for the next copy */
	unsigned int most; /* a larger number is not tried */
	bool fixed;	   /* no other number is tried */
	/* The best number that has been measured, and a copy with it. */
	unsigned int best;
	size_t size;
	uint64_t rate;	    /* bytes per second; 0: nothing has been measured */
	unsigned int tries; /* copies with a larger number that were not faster */
};

/* Begin with @count connections, and try up to @most. */
void ckc_connection_count_init(struct ckc_connection_count *n, unsigned int count,
			       unsigned int most);

/* May a larger number be faster with a round trip of @trip_ns? Not on a short link: there,
 * processors are the limit. */
bool ckc_connection_count_grows(const struct ckc_connection_count *n, uint64_t trip_ns);

/* Bytes of a copy that suffice to measure the present number. */
size_t ckc_connection_count_sample(const struct ckc_connection_count *n);

/* A copy of @size bytes over the present number of connections took @ns: choose the next number. */
void ckc_connection_count_note(struct ckc_connection_count *n, size_t size, uint64_t ns,
			       uint64_t trip_ns);

/* Stay at the best number: more connections are not faster, or cannot be opened. */
void ckc_connection_count_stop(struct ckc_connection_count *n);

#endif
