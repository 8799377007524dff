/*
 * client/wire/striping.h - large copies over several connections at a time.
 */
#ifndef CK_CLIENT_WIRE_STRIPING_H
#define CK_CLIENT_WIRE_STRIPING_H

#include <stdbool.h>
#include <stddef.h>

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

/* Connections per copy: as configured, else up to four while processors remain idle. */
unsigned int ckc_striping_width(void);

/*
 * Call @fn in several threads at a time, if that helps, until all parts of [0, size) are copied,
 * and wait for them.
 * @even: each thread gets an equal part; otherwise parts become smaller towards the end, so that
 * all threads end at the same time. Returns the first error, if any; other parts may be done or
 * not.
 */
CUresult ckc_striping(struct ckc_client *c, ckc_share_fn fn, const void *copy, size_t size,
		      bool even);

#endif
