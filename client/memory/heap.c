/*
 * client/memory/heap.c - addresses of leased device memory: best fit over the free pieces.
 *
 * Free pieces are kept in order of address, in two lists: pieces of chunks, which are split and
 * joined, and blocks, which are used as a whole. So every chunk that is free as a whole, and every
 * free block, can go back to the server, and out-of-memory is exact to the chunk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/heap.h"
#include "util/range.h"
#include "util/util.h"

struct piece {
	uint64_t lo, hi;
	struct ckc_use use;
};

struct pieces {
	struct piece *list;
	size_t count, room;
	size_t bytes;
};

struct ckc_heap {
	uint64_t lo, hi;
	struct ck_ranges
		*leased; /* each lease of chunks, each block; also while they are asked for */
	size_t leased_bytes;
	struct pieces chunks, blocks; /* the free ones */
};

/* The values of heap.leased. */
#define ASKED NULL /* not leased yet */
#define OF_CHUNKS ((void *)1)
#define OF_BLOCK ((void *)2)

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

/* --- free pieces */

static size_t piece_size(const struct piece *p)
{
	return p->hi - p->lo;
}

/* The index of the first piece that ends after @at. */
static size_t find(const struct pieces *all, uint64_t at)
{
	size_t lo = 0, hi = all->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (all->list[mid].hi <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Make room for one more piece, so that the next insertion succeeds. */
static int prepare(struct pieces *all)
{
	size_t room = all->room ? all->room * 2 : 64;
	struct piece *list;

	if (all->count < all->room)
		return 0;
	list = realloc(all->list, room * sizeof(*list));
	if (!list)
		return -ENOMEM;
	all->list = list;
	all->room = room;
	return 0;
}

static void insert(struct pieces *all, size_t index, const struct piece *p)
{
	memmove(&all->list[index + 1], &all->list[index], (all->count - index) * sizeof(*p));
	all->list[index] = *p;
	all->count++;
	all->bytes += piece_size(p);
}

static void drop(struct pieces *all, size_t index)
{
	all->bytes -= piece_size(&all->list[index]);
	all->count--;
	memmove(&all->list[index], &all->list[index + 1],
		(all->count - index) * sizeof(*all->list));
}

/* Can two adjacent pieces be one, with the later of their uses? */
static bool alike(const struct ckc_use *a, const struct ckc_use *b)
{
	if (!a->command || !b->command)
		return !a->command && !b->command;
	return a->context == b->context && a->in_stream == b->in_stream && a->stream == b->stream;
}

/* Join the piece at @index with the next one, if they are adjacent and alike. */
static void join(struct pieces *all, size_t index)
{
	struct piece *p = &all->list[index], *next = p + 1;

	if (index + 1 >= all->count || p->hi != next->lo || !alike(&p->use, &next->use))
		return;
	p->hi = next->hi;
	p->use.command = ck_max(p->use.command, next->use.command);
	all->bytes += piece_size(next); /* which drop() subtracts */
	drop(all, index + 1);
}

/* Remove [lo, hi) from the piece at @index, which holds it. Call after prepare(). */
static void cut(struct pieces *all, size_t index, uint64_t lo, uint64_t hi)
{
	struct piece *p = &all->list[index];
	struct piece rest = {.lo = hi, .hi = p->hi, .use = p->use};

	all->bytes -= p->hi - lo;
	p->hi = lo;
	if (rest.hi > rest.lo)
		insert(all, index + 1, &rest);
	if (all->list[index].hi == all->list[index].lo)
		drop(all, index);
}

static bool usable(const struct ckc_use *use, const struct ckc_user *user)
{
	return !use->command || (use->in_stream && user->in_stream && use->stream == user->stream &&
				 use->context == user->context);
}

/* The smallest piece of @size bytes or more that @user (NULL: anyone, after a wait) can use; count:
 * none. */
static size_t best(const struct pieces *all, size_t size, const struct ckc_user *user)
{
	size_t found = all->count, found_size = SIZE_MAX;

	for (size_t i = 0; i < all->count && found_size > size; i++) {
		const struct piece *p = &all->list[i];

		if (piece_size(p) >= size && piece_size(p) < found_size &&
		    (!user || usable(&p->use, user))) {
			found = i;
			found_size = piece_size(p);
		}
	}
	return found;
}

/* --- leases */

uint64_t ckc_heap_place(struct ckc_heap *heap, size_t size)
{
	uint64_t at = heap->lo;
	const struct ck_range *r;

	while (at < heap->hi && size <= heap->hi - at) {
		r = ck_ranges_overlap(heap->leased, at, at + size);
		if (!r)
			return ck_ranges_insert(heap->leased, at, at + size, ASKED) ? 0 : at;
		at = r->hi;
	}
	return 0;
}

void ckc_heap_displace(struct ckc_heap *heap, uint64_t at)
{
	ck_ranges_remove(heap->leased, at, NULL);
}

/* Note what the lease at @at is. */
static void confirm(struct ckc_heap *heap, uint64_t at, void *what)
{
	const struct ck_range *r = ck_ranges_find(heap->leased, at);
	uint64_t hi = r->hi;

	ck_ranges_remove(heap->leased, at, NULL);
	ck_ranges_insert(heap->leased, at, hi, what); /* into the room of the removed one */
	heap->leased_bytes += hi - at;
}

int ckc_heap_add(struct ckc_heap *heap, uint64_t at, size_t size)
{
	const struct piece p = {.lo = at, .hi = at + size};
	size_t index;

	if (prepare(&heap->chunks) < 0) {
		ckc_heap_displace(heap, at);
		return -ENOMEM;
	}
	confirm(heap, at, OF_CHUNKS);
	index = find(&heap->chunks, at);
	insert(&heap->chunks, index, &p);
	join(&heap->chunks, index);
	if (index > 0)
		join(&heap->chunks, index - 1);
	return 0;
}

void ckc_heap_add_block(struct ckc_heap *heap, uint64_t at)
{
	confirm(heap, at, OF_BLOCK);
}

/* --- allocations */

/* The piece that an allocation of @size bytes by @user would take: a block of just its chunks, else
 * the best piece of chunks. *@all is its list; NULL: there is none. */
static const struct piece *fit(const struct ckc_heap *heap, size_t size,
			       const struct ckc_user *user, const struct pieces **all)
{
	size_t whole = CK_ALIGN_UP(size, CK_CHUNK);
	size_t index = best(&heap->blocks, whole, user);

	*all = &heap->blocks;
	if (index < heap->blocks.count && piece_size(&heap->blocks.list[index]) == whole)
		return &heap->blocks.list[index];
	index = best(&heap->chunks, CK_ALIGN_UP(size, CK_HEAP_ALIGN), user);
	*all = &heap->chunks;
	return index < heap->chunks.count ? &heap->chunks.list[index] : NULL;
}

uint64_t ckc_heap_take(struct ckc_heap *heap, size_t size, const struct ckc_user *user)
{
	const struct pieces *all;
	const struct piece *p = fit(heap, size, user, &all);
	uint64_t at = p ? p->lo : 0;
	size_t index = p ? (size_t)(p - all->list) : 0;

	if (!p)
		return 0;
	if (all == &heap->blocks)
		drop(&heap->blocks, index);
	else if (prepare(&heap->chunks) < 0)
		return 0;
	else
		cut(&heap->chunks, index, at, at + CK_ALIGN_UP(size, CK_HEAP_ALIGN));
	return at;
}

bool ckc_heap_blocked(const struct ckc_heap *heap, size_t size, struct ckc_use *use)
{
	const struct pieces *all;
	const struct piece *p = fit(heap, size, NULL, &all);

	if (p)
		*use = p->use;
	return p != NULL;
}

int ckc_heap_give(struct ckc_heap *heap, uint64_t at, size_t size, const struct ckc_use *use)
{
	const struct ck_range *r = ck_ranges_find(heap->leased, at);
	bool block = r && r->value == OF_BLOCK;
	struct pieces *all = block ? &heap->blocks : &heap->chunks;
	struct piece p = {.lo = at, .hi = at + CK_ALIGN_UP(size, CK_HEAP_ALIGN), .use = *use};
	size_t index;

	if (!r || prepare(all) < 0)
		return -ENOMEM;
	if (block)
		p.hi = r->hi;
	index = find(all, at);
	insert(all, index, &p);
	if (block)
		return 0;
	join(all, index);
	if (index > 0)
		join(all, index - 1);
	return 0;
}

static void finish(struct pieces *all, bool (*over)(const struct ckc_use *use))
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i].use.command && over(&all->list[i].use))
			all->list[i].use.command = 0;
	}
}

void ckc_heap_finish(struct ckc_heap *heap, bool (*over)(const struct ckc_use *use))
{
	size_t index = 0;

	finish(&heap->blocks, over);
	finish(&heap->chunks, over);
	while (index < heap->chunks.count) {
		size_t before = heap->chunks.count;

		join(&heap->chunks, index);
		index += heap->chunks.count == before;
	}
}

static void disown(struct pieces *all, const struct ckc_context *context)
{
	for (size_t i = 0; i < all->count; i++) {
		struct ckc_use *use = &all->list[i].use;

		if (use->context == context)
			*use = (struct ckc_use){.command = use->command};
	}
}

void ckc_heap_disown(struct ckc_heap *heap, const struct ckc_context *context)
{
	disown(&heap->blocks, context);
	disown(&heap->chunks, context);
}

/* --- back to the server */

/*
 * The whole chunks in the run of adjacent pieces that begins with piece *@index, whatever their uses;
 * then *@index is the first piece behind it. False: none.
 */
static bool whole_chunks(const struct pieces *all, size_t *index, uint64_t *lo, uint64_t *hi)
{
	size_t i = *index;

	*lo = CK_ALIGN_UP(all->list[i].lo, (uint64_t)CK_CHUNK);
	while (i + 1 < all->count && all->list[i + 1].lo == all->list[i].hi)
		i++;
	*hi = all->list[i].hi & ~((uint64_t)CK_CHUNK - 1);
	*index = i + 1;
	return *lo < *hi;
}

/* Remove [lo, hi), which adjacent pieces hold. Call after prepare(). */
static void cut_all(struct pieces *all, uint64_t lo, uint64_t hi)
{
	while (lo < hi) {
		size_t index = find(all, lo);
		uint64_t end = ck_min(all->list[index].hi, hi);

		cut(all, index, lo, end);
		lo = end;
	}
}

/* Forget the lease of [lo, hi), which may be a part of one lease or more. */
static void forget(struct ckc_heap *heap, uint64_t lo, uint64_t hi)
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

bool ckc_heap_shed(struct ckc_heap *heap, uint64_t *at, size_t *size)
{
	struct pieces *chunks = &heap->chunks;
	uint64_t lo = 0, hi = 0;
	bool found = false;

	if (heap->blocks.count > 0) {
		lo = heap->blocks.list[0].lo;
		hi = heap->blocks.list[0].hi;
		drop(&heap->blocks, 0);
	} else {
		for (size_t i = 0; !found && i < chunks->count;)
			found = whole_chunks(chunks, &i, &lo, &hi);
		if (!found || prepare(chunks) < 0)
			return false;
		cut_all(chunks, lo, hi);
	}
	forget(heap, lo, hi);
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
	uint64_t lo, hi;

	for (size_t i = 0; i < heap->chunks.count;) {
		if (whole_chunks(&heap->chunks, &i, &lo, &hi))
			bytes += hi - lo;
	}
	return bytes;
}
