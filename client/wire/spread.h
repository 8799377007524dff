/*
 * client/wire/spread.h - large copies over several connections at a time.
 */
#ifndef CK_CLIENT_WIRE_SPREAD_H
#define CK_CLIENT_WIRE_SPREAD_H

#include <stddef.h>

#include "cuda/types.h"

struct ckc_client;

#define CK_SPREAD_MIN ((size_t)4 << 20) /* below this, waking threads costs too much */

/* Copy bytes [at, at + size) of @copy; called from any thread. */
typedef CUresult (*ckc_part_fn)(const void *copy, size_t at, size_t size);

/* Connections per copy: as configured, else up to four while processors remain idle. */
unsigned int ckc_spread_width(void);

/*
 * Call @fn for parts of [0, size) that do not overlap, from several threads if that helps, and wait
 * for all of them. Returns the first error, if any; other parts may be done or not.
 */
CUresult ckc_spread(struct ckc_client *c, ckc_part_fn fn, const void *copy, size_t size);

#endif
