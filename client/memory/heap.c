/*
 * client/memory/heap.c - addresses of leased device memory: best fit over the free pieces.
 *
 * Free pieces are in two lists (heap_pieces.c): pieces of chunks, which are split and joined, and
 * blocks, which are used as a whole. So every chunk or unit that is free as a whole, and every
 * free block, can go back to the server, and out-of-memory is exact to the chunk, or in a program
 * that has much memory to the unit.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/memory/heap.h"
#include "client/memory/heap_pieces.h"
#include "util/range.h"
#include "util/util.h"

struct ckc_heap {
	uint64_t lo, hi;
	struct ck_ranges
		*leased; /* each lease of chunks, each block; also while they are asked for */
	size_t leased_bytes;
	struct ckc_pieces chunks, blocks; /* the free ones */
};

/* The values of heap.leased. */
#define ASKED NULL /* not leased yet */
#define OF_CHUNKS ((void *)1)
#define OF_UNITS ((void *)2)
#define OF_BLOCK ((void *)3)

struct ckc_heap *ckc_heap_create(uint64_t lo, uint64_t hi)
{
	struct ckc_heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		return NULL;
	heap->lo = lo;
	heap->hi = hi;
	heap->leased = ck_ranges_create();
	if (heap->leased)
		return heap;
	free(heap);
	return NULL;
}

void ckc_heap_destroy(struct ckc_heap *heap)
{
	if (!heap)
		return;
	ck_ranges_destroy(heap->leased);
	free(heap->chunks.list);
	free(heap->blocks.list);
	free(heap);
}

/* --- leases */

uint64_t ckc_heap_place(struct ckc_heap *heap, size_t size, size_t unit)
{
	uint64_t at = CK_ALIGN_UP(heap->lo, (uint64_t)unit);
	const struct ck_range *r;

	while (at < heap->hi && size <= heap->hi - at) {
		r = ck_ranges_overlap(heap->leased, at, at + size);
		if (!r)
			return ck_ranges_insert(heap->leased, at, at + size, ASKED) ? 0 : at;
		at = CK_ALIGN_UP(r->hi, (uint64_t)unit);
	}
	return 0;
}

void ckc_heap_cancel_place(struct ckc_heap *heap, uint64_t at)
{
	ck_ranges_remove(heap->leased, at, NULL);
}

/* Note the lease at @at. */
static void confirm_lease(struct ckc_heap *heap, uint64_t at, void *what)
{
	const struct ck_range *r = ck_ranges_find(heap->leased, at);
	uint64_t hi = r->hi;

	ck_ranges_remove(heap->leased, at, NULL);
	ck_ranges_insert(heap->leased, at, hi, what); /* into the room of the removed one */
	heap->leased_bytes += hi - at;
}

int ckc_heap_add(struct ckc_heap *heap, uint64_t at, size_t size, size_t unit)
{
	const struct ckc_piece p = {.lo = at, .hi = at + size};
	size_t index;

	if (ckc_pieces_prepare(&heap->chunks) < 0) {
		ckc_heap_cancel_place(heap, at);
		return -ENOMEM;
	}
	confirm_lease(heap, at, unit == CK_CHUNK ? OF_CHUNKS : OF_UNITS);
	index = ckc_pieces_find(&heap->chunks, at);
	ckc_pieces_insert(&heap->chunks, index, &p);
	ckc_pieces_join(&heap->chunks, index);
	if (index > 0)
		ckc_pieces_join(&heap->chunks, index - 1);
	return 0;
}

void ckc_heap_add_block(struct ckc_heap *heap, uint64_t at)
{
	confirm_lease(heap, at, OF_BLOCK);
}

/* --- allocations */

/* The piece that an allocation of @size bytes by @user would take: a block of just its chunks, else
 * the best piece of chunks. *@all is its list; NULL: there is none. */
static const struct ckc_piece *fit(const struct ckc_heap *heap, size_t size,
				   const struct ckc_user *user, const struct ckc_pieces **all)
{
	size_t whole = CK_ALIGN_UP(size, CK_CHUNK);
	size_t index = ckc_pieces_best(&heap->blocks, whole, user);

	*all = &heap->blocks;
	if (index < heap->blocks.count && ckc_piece_size(&heap->blocks.list[index]) == whole)
		return &heap->blocks.list[index];
	index = ckc_pieces_best(&heap->chunks, CK_ALIGN_UP(size, CK_HEAP_ALIGN), user);
	*all = &heap->chunks;
	return index < heap->chunks.count ? &heap->chunks.list[index] : NULL;
}

uint64_t ckc_heap_take(struct ckc_heap *heap, size_t size, const struct ckc_user *user)
{
	const struct ckc_pieces *all;
	const struct ckc_piece *p = fit(heap, size, user, &all);
	uint64_t at = p ? p->lo : 0;
	size_t index = p ? (size_t)(p - all->list) : 0;

	if (!p)
		return 0;
	if (all == &heap->blocks)
		ckc_pieces_drop(&heap->blocks, index);
	else if (ckc_pieces_prepare(&heap->chunks) < 0)
		return 0;
	else
		ckc_pieces_cut(&heap->chunks, index, at, at + CK_ALIGN_UP(size, CK_HEAP_ALIGN));
	return at;
}

bool ckc_heap_blocked(const struct ckc_heap *heap, size_t size, struct ckc_use *use)
{
	const struct ckc_pieces *all;
	const struct ckc_piece *p = fit(heap, size, NULL, &all);

	if (p)
		*use = p->use;
	return p != NULL;
}

int ckc_heap_give(struct ckc_heap *heap, uint64_t at, size_t size, const struct ckc_use *use)
{
	const struct ck_range *r = ck_ranges_find(heap->leased, at);
	bool block = r && r->value == OF_BLOCK;
	struct ckc_pieces *all = block ? &heap->blocks : &heap->chunks;
	struct ckc_piece p = {.lo = at, .hi = at + CK_ALIGN_UP(size, CK_HEAP_ALIGN), .use = *use};
	size_t index;

	if (!r || ckc_pieces_prepare(all) < 0)
		return -ENOMEM;
	if (block)
		p.hi = r->hi;
	index = ckc_pieces_find(all, at);
	ckc_pieces_insert(all, index, &p);
	if (block)
		return 0;
	ckc_pieces_join(all, index);
	if (index > 0)
		ckc_pieces_join(all, index - 1);
	return 0;
}

void ckc_heap_finish(struct ckc_heap *heap, bool (*over)(const struct ckc_use *use))
{
	size_t index = 0;

	ckc_pieces_finish(&heap->blocks, over);
	ckc_pieces_finish(&heap->chunks, over);
	while (index < heap->chunks.count) {
		size_t before = heap->chunks.count;

		ckc_pieces_join(&heap->chunks, index);
		index += heap->chunks.count == before;
	}
}

void ckc_heap_disown(struct ckc_heap *heap, const struct ckc_context *context)
{
	ckc_pieces_detach(&heap->blocks, context);
	ckc_pieces_detach(&heap->chunks, context);
}

/* --- back to the server */

/* Forget the lease of [lo, hi), which may be a part of one lease or more. */
static void remove_lease(struct ckc_heap *heap, uint64_t lo, uint64_t hi)
{
	const struct ck_range *r;

	while ((r = ck_ranges_overlap(heap->leased, lo, hi)) != NULL) {
		const struct ck_range old = *r;

		ck_ranges_remove(heap->leased, old.lo, NULL);
		if (old.lo < lo)
			ck_ranges_insert(heap->leased, old.lo, lo, old.value);
		if (old.hi > hi)
			ck_ranges_insert(heap->leased, hi, old.hi, old.value);
	}
	heap->leased_bytes -= hi - lo;
}

/* Whole units of the lease @r in [lo, hi): false: none. */
static bool units_of_lease(const struct ck_range *r, uint64_t *lo, uint64_t *hi)
{
	uint64_t unit = r->value == OF_UNITS ? CK_HEAP_UNIT : CK_CHUNK;

	*lo = CK_ALIGN_UP(ck_max(*lo, r->lo), unit);
	*hi = ck_min(*hi, r->hi) & ~(unit - 1);
	return *lo < *hi;
}

/* The first run of whole units in [at, end), which is free. */
static bool first_run(const struct ckc_heap *heap, uint64_t at, uint64_t end, uint64_t *lo,
		      uint64_t *hi)
{
	const struct ck_range *r;
	bool found = false;

	for (; (r = ck_ranges_overlap(heap->leased, at, end)) != NULL; at = r->hi) {
		uint64_t from = at, to = end;

		if (units_of_lease(r, &from, &to) && (!found || from == *hi)) {
			*lo = found ? *lo : from;
			*hi = to;
			found = true;
		} else if (found) {
			break;
		}
	}
	return found;
}

/* The first run of whole chunks and units after @from that are free; @over: that are no longer
 * used. False: none. */
static bool find_whole(const struct ckc_heap *heap, bool over, uint64_t from, uint64_t *lo,
		       uint64_t *hi)
{
	const struct ckc_pieces *all = &heap->chunks;
	bool found = false;

	for (size_t i = ckc_pieces_find(all, from); !found && i < all->count;) {
		uint64_t at = ck_max(from, all->list[i].lo), end = ckc_pieces_run(all, over, &i);

		found = at < end && first_run(heap, at, end, lo, hi);
	}
	return found;
}

/* The index of the first free block; @over: that is no longer used. The count: none. */
static size_t find_block(const struct ckc_heap *heap, bool over)
{
	size_t i = 0;

	while (i < heap->blocks.count && over && heap->blocks.list[i].use.command)
		i++;
	return i;
}

bool ckc_heap_take_free(struct ckc_heap *heap, bool over, uint64_t *at, size_t *size)
{
	size_t block = find_block(heap, over);
	uint64_t lo = 0, hi = 0;

	if (block < heap->blocks.count) {
		lo = heap->blocks.list[block].lo;
		hi = heap->blocks.list[block].hi;
		ckc_pieces_drop(&heap->blocks, block);
	} else {
		if (!find_whole(heap, over, 0, &lo, &hi) || ckc_pieces_prepare(&heap->chunks) < 0)
			return false;
		ckc_pieces_cut_all(&heap->chunks, lo, hi);
	}
	remove_lease(heap, lo, hi);
	*at = lo;
	*size = hi - lo;
	return true;
}

size_t ckc_heap_leased(const struct ckc_heap *heap)
{
	return heap->leased_bytes;
}

size_t ckc_heap_free(const struct ckc_heap *heap)
{
	return heap->chunks.bytes + heap->blocks.bytes;
}

size_t ckc_heap_cached(const struct ckc_heap *heap)
{
	return heap->blocks.bytes;
}

size_t ckc_heap_idle(const struct ckc_heap *heap)
{
	size_t bytes = heap->blocks.bytes;
	uint64_t lo, hi = 0;

	while (find_whole(heap, false, hi, &lo, &hi))
		bytes += hi - lo;
	return bytes;
}
