/*
 * client/managed/page_allocator.h - allocate the pages of an address range.
 *
 * Memory behind the pages comes in units of 2 MiB. A piece of more than half a unit gets whole
 * units, in the upper part of the range. Small pieces of one context share units in the lower part.
 * The caller holds a lock over every call.
 */
#ifndef CK_CLIENT_MANAGED_PAGE_ALLOCATOR_H
#define CK_CLIENT_MANAGED_PAGE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/page.h"

#define CK_PAGE CK_PAGE_MOST
#define CK_UNIT ((size_t)2 << 20)

struct ckc_page_allocator;

/* Make a space of [lo, hi), whole units, all free. NULL: out of memory. */
struct ckc_page_allocator *ckc_page_allocator_create(uint64_t lo, uint64_t hi);
void ckc_page_allocator_destroy(struct ckc_page_allocator *space);

/* Allocate whole pages for @size bytes and context @ctx; 0: none left. Free with the same size. */
uint64_t ckc_page_allocator_take(struct ckc_page_allocator *space, uint64_t ctx, size_t size);
void ckc_page_allocator_give(struct ckc_page_allocator *space, uint64_t at, size_t size);

/* The memory behind a piece of @size bytes at @at: whole units, *@length bytes of them. */
uint64_t ckc_page_allocator_behind(uint64_t at, size_t size, size_t *length);

/* The caller's own counter for the unit of a small piece, 0 at first; NULL: the piece is not
 * small. */
uint16_t *ckc_page_allocator_users(struct ckc_page_allocator *space, uint64_t at, size_t size);

/* Reserve @size bytes, whole units, at @place in this process; 0: anywhere. Returns 0 on
 * failure. */
uint64_t ckc_page_allocator_reserve(uint64_t place, size_t size);

/* The same at the first of @count @places that the server accepts too. 0: none. */
uint64_t ckc_page_allocator_agree(const uint64_t *places, size_t count, size_t size,
				  bool (*server_takes)(uint64_t at, size_t size));

#endif
