/*
 * client/wire/striping.h - large copies over several connections at a time.
 */
#ifndef CK_CLIENT_WIRE_STRIPING_H
#define CK_CLIENT_WIRE_STRIPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/connection_count.h"
#include "cuda/types.h"

struct ckc_client;

#define CK_STRIPING_MIN ((size_t)4 << 20) /* below this, waking threads costs too much */

/* Bytes of a copy that no thread has taken yet. */
struct ckc_share;

/*
 * The next bytes [*at, *at+*size) for the calling thread; false: there are no more. Parts of one
 * thread come one after the other; those of all threads do not overlap.
 */
bool ckc_share_next(struct ckc_share *share, size_t *at, size_t *size);

/* Copy all parts that @share has for this thread; called once in each thread. */
typedef CUresult (*ckc_share_fn)(const void *copy, struct ckc_share *share);

enum {
	CK_STRIPING_EVEN = 1, /* each thread gets an equal part; otherwise parts become smaller
				 towards the end, so that all threads end at the same time */
	CK_STRIPING_DOWN = 2, /* from the server */
	CK_STRIPING_PLAIN = 4 /* the time measures the network */
};

/* Connections per copy in the direction that @flags name: as configured, else up to four while
 * processors remain idle; on a long link as many as it needs (ckc_connection_count). */
unsigned int ckc_striping_width(struct ckc_client *c, unsigned int flags);

/* The user's number of connections; 0: there is none. */
unsigned int ckc_striping_choice(void);

/* The most connections for one use: CK_CONNECTIONS_MOST, and fewer if the program has few
 * descriptors left, or the session few places for its threads. */
unsigned int ckc_striping_most(const struct ckc_client *c);

/* As ckc_connection_count_note, on the link of @c. */
void ckc_striping_note(const struct ckc_client *c, struct ckc_connection_count *n, size_t size,
		       uint64_t ns);

/* Is the round trip so long that windows limit connections? */
bool ckc_striping_is_long(const struct ckc_client *c);

/* Bytes of the next step of a copy with @size bytes left: fewer, as long as the number of
 * connections is being found. */
size_t ckc_striping_step(struct ckc_client *c, unsigned int flags, size_t size);

/*
 * Call @fn in several threads at a time, if that helps, until all parts of [0, size) are copied,
 * and wait for them. Returns the first error, if any; other parts may be done or not.
 */
CUresult ckc_striping(struct ckc_client *c, ckc_share_fn fn, const void *copy, size_t size,
		      unsigned int flags);

#endif
