/*
 * client/managed/page_allocator.c - see client/managed/page_allocator.h: page bitmaps for shared
 * units, ranges for the rest.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "client/managed/page_allocator.h"
#include "util/range.h"
#include "util/util.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define UNIT_PAGES (CK_UNIT / CK_PAGE)
#define SMALL_MAX (CK_UNIT / 2)
#define SMALL_UNITS 8192ul /* the lower part: 16 GiB */

/* A unit shared by small pieces. */
struct unit {
	uint64_t ctx;				/* the owner while pages are in use */
	uint16_t pages, users;			/* in use; the owner's count */
	uint64_t taken[(UNIT_PAGES + 63) / 64]; /* a bit for each page */
};

struct ckc_page_allocator {
	uint64_t lo, hi;
	uint64_t next; /* address of the next large piece, while there is room */
	struct unit *units;
	struct ck_ranges *large;
};

uint64_t ckc_page_allocator_reserve(uint64_t place, size_t size)
{
	char *want = (char *)(uintptr_t)place;
	size_t extra = place ? 0 : CK_UNIT;
	char *got = mmap(want, size + extra, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 (place ? MAP_FIXED_NOREPLACE : 0),
			 -1, 0);
	uint64_t at = (uintptr_t)got;

	if (got == MAP_FAILED)
		return 0;
	if (place && got != want) {
		munmap(got, size);
		return 0;
	}
	return CK_ALIGN_UP(at, CK_UNIT); /* the rest stays reserved */
}

/* Keep a place that the server has in use until the others have been tried. Otherwise a search for
 * any free place could return the same one. */
uint64_t ckc_page_allocator_agree(const uint64_t *places, size_t count, size_t size,
				  bool (*server_takes)(uint64_t at, size_t size))
{
	uint64_t at = ckc_page_allocator_reserve(places[0], size), found;

	if (at && server_takes(at, size))
		return at;
	found = count > 1 ? ckc_page_allocator_agree(places + 1, count - 1, size, server_takes) : 0;
	if (at)
		munmap((void *)(uintptr_t)at, size);
	return found;
}

struct ckc_page_allocator *ckc_page_allocator_create(uint64_t lo, uint64_t hi)
{
	struct ckc_page_allocator *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->lo = lo;
	s->hi = hi;
	s->next = lo + SMALL_UNITS * CK_UNIT;
	s->units = calloc(SMALL_UNITS, sizeof(*s->units));
	s->large = ck_ranges_create();
	if (s->units && s->large)
		return s;
	ckc_page_allocator_destroy(s);
	return NULL;
}

void ckc_page_allocator_destroy(struct ckc_page_allocator *s)
{
	if (!s)
		return;
	free(s->units);
	if (s->large)
		ck_ranges_destroy(s->large);
	free(s);
}

static bool is_small(size_t size)
{
	return CK_ALIGN_UP(size, CK_PAGE) <= SMALL_MAX;
}

static struct unit *unit_of(const struct ckc_page_allocator *s, uint64_t at)
{
	return &s->units[(at - s->lo) / CK_UNIT];
}

static bool is_taken(const struct unit *u, size_t page)
{
	return u->taken[page / 64] >> page % 64 & 1;
}

static void mark_pages(struct unit *u, size_t page, size_t count, bool taken)
{
	for (size_t i = page; i < page + count; i++) {
		uint64_t bit = (uint64_t)1 << i % 64;

		u->taken[i / 64] = taken ? u->taken[i / 64] | bit : u->taken[i / 64] & ~bit;
	}
	u->pages = (uint16_t)(taken ? u->pages + count : u->pages - count);
}

/* First of @count adjacent free pages; UNIT_PAGES: there are none. */
static size_t gap_in(const struct unit *u, size_t count)
{
	size_t run = 0;

	for (size_t page = 0; page < UNIT_PAGES; page++) {
		run = is_taken(u, page) ? 0 : run + 1;
		if (run == count)
			return page + 1 - count;
	}
	return UNIT_PAGES;
}

static uint64_t take_small(struct ckc_page_allocator *s, uint64_t ctx, size_t count)
{
	for (size_t i = 0; i < SMALL_UNITS; i++) {
		struct unit *u = &s->units[i];
		size_t page;

		if ((u->pages && u->ctx != ctx) || UNIT_PAGES - u->pages < count)
			continue;
		page = gap_in(u, count);
		if (page == UNIT_PAGES)
			continue;
		u->ctx = ctx;
		mark_pages(u, page, count, true);
		return s->lo + i * CK_UNIT + page * CK_PAGE;
	}
	return 0;
}

static uint64_t take_large(struct ckc_page_allocator *s, size_t size)
{
	uint64_t lo = s->lo + SMALL_UNITS * CK_UNIT;

	if (size > s->hi - lo)
		return 0;
	if (size <= s->hi - s->next && !ck_ranges_overlap(s->large, s->next, s->next + size)) {
		lo = s->next;
	} else {
		for (size_t i = 0; i < ck_ranges_count(s->large); i++) {
			const struct ck_range *r = ck_ranges_at(s->large, i);

			if (r->lo - lo >= size)
				break;
			lo = r->hi;
		}
	}
	if (size > s->hi - lo || ck_ranges_insert(s->large, lo, lo + size, NULL) < 0)
		return 0;
	s->next = lo + size;
	return lo;
}

uint64_t ckc_page_allocator_take(struct ckc_page_allocator *s, uint64_t ctx, size_t size)
{
	if (size > s->hi - s->lo)
		return 0;
	return is_small(size) ? take_small(s, ctx, CK_ALIGN_UP(size, CK_PAGE) / CK_PAGE)
			      : take_large(s, CK_ALIGN_UP(size, CK_UNIT));
}

void ckc_page_allocator_give(struct ckc_page_allocator *s, uint64_t at, size_t size)
{
	if (is_small(size)) {
		mark_pages(unit_of(s, at), at % CK_UNIT / CK_PAGE,
			   CK_ALIGN_UP(size, CK_PAGE) / CK_PAGE, false);
		return;
	}
	ck_ranges_remove(s->large, at, NULL);
	if (s->next == at + CK_ALIGN_UP(size, CK_UNIT))
		s->next = at;
}

uint64_t ckc_page_allocator_behind(uint64_t at, size_t size, size_t *length)
{
	*length = is_small(size) ? CK_UNIT : CK_ALIGN_UP(size, CK_UNIT);
	return at & ~(CK_UNIT - 1);
}

uint16_t *ckc_page_allocator_users(struct ckc_page_allocator *s, uint64_t at, size_t size)
{
	return is_small(size) ? &unit_of(s, at)->users : NULL;
}
