/*
 * client/wire/spread.h - large copies over several connections at a time.
 */
#ifndef CK_CLIENT_WIRE_SPREAD_H
#define CK_CLIENT_WIRE_SPREAD_H

#include <stddef.h>

#include "cuda/types.h"

struct ck_client;

#define CK_SPREAD_MIN ((size_t)4 << 20) /* below this, waking threads costs too much */

/* Copy bytes [at, at + size) of @copy; called from any thread. */
typedef CUresult (*ck_part_fn)(const void *copy, size_t at, size_t size);

/* Connections per copy: as configured, else up to four while processors remain idle. */
unsigned int ck_spread_width(void);

/*
 * Call @fn for parts of [0, size) that do not overlap, from several threads if that helps, and wait
 * for all of them. Returns the first error, if any; other parts may be done or not.
 */
CUresult ck_spread(struct ck_client *c, ck_part_fn fn, const void *copy, size_t size);

#endif
