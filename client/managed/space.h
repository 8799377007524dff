/*
 * client/managed/space.h - handing out the pages of a range of addresses.
 *
 * What lies behind them comes in units of 2 MiB. A piece of more than half a unit has whole units
 * for itself, in the upper part of the range; small pieces of one context share units of its lower
 * part. The caller has a lock: it is held over every call.
 */
#ifndef CK_CLIENT_MANAGED_SPACE_H
#define CK_CLIENT_MANAGED_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_PAGE 4096ul
#define CK_UNIT ((size_t)2 << 20)

struct ck_space;

/* [lo, hi), whole units, of which nothing is taken. NULL: no memory. */
struct ck_space *ck_space_create(uint64_t lo, uint64_t hi);
void ck_space_destroy(struct ck_space *space);

/* Whole pages for @size bytes, for context @ctx; 0: there are none. Give back with that size. */
uint64_t ck_space_take(struct ck_space *space, uint64_t ctx, size_t size);
void ck_space_give(struct ck_space *space, uint64_t at, size_t size);

/* What lies behind a piece of that many bytes at @at: whole units, *@length of them in bytes. */
uint64_t ck_space_behind(uint64_t at, size_t size, size_t *length);

/* The caller's own count of the unit of a small piece, 0 at first; NULL: the piece is not small. */
uint16_t *ck_space_users(struct ck_space *space, uint64_t at, size_t size);

/* Reserve @size bytes, whole units, at @place in this process, or anywhere with 0. 0: not there. */
uint64_t ck_space_reserve(uint64_t place, size_t size);

/* The same at the first of @count @places that the server takes as well. 0: at none. */
uint64_t ck_space_agree(const uint64_t *places, size_t count, size_t size, bool (*server_takes)(uint64_t at, size_t size));

#endif
