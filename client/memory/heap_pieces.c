/*
 * client/memory/heap_pieces.c - see client/memory/heap_pieces.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/heap_pieces.h"
#include "util/util.h"

size_t ckc_pieces_find(const struct ckc_pieces *all, uint64_t at)
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

int ckc_pieces_prepare(struct ckc_pieces *all)
{
	size_t room = all->room ? all->room * 2 : 64;
	struct ckc_piece *list;

	if (all->count < all->room)
		return 0;
	list = realloc(all->list, room * sizeof(*list));
	if (!list)
		return -ENOMEM;
	all->list = list;
	all->room = room;
	return 0;
}

void ckc_pieces_insert(struct ckc_pieces *all, size_t index, const struct ckc_piece *p)
{
	memmove(&all->list[index + 1], &all->list[index], (all->count - index) * sizeof(*p));
	all->list[index] = *p;
	all->count++;
	all->bytes += ckc_piece_size(p);
}

void ckc_pieces_drop(struct ckc_pieces *all, size_t index)
{
	all->bytes -= ckc_piece_size(&all->list[index]);
	all->count--;
	memmove(&all->list[index], &all->list[index + 1],
		(all->count - index) * sizeof(*all->list));
}

/* Can two adjacent pieces be one, with the later of their uses? */
static bool uses_are_alike(const struct ckc_use *a, const struct ckc_use *b)
{
	if (!a->command || !b->command)
		return !a->command && !b->command;
	return a->context == b->context && a->in_stream == b->in_stream && a->stream == b->stream;
}

void ckc_pieces_join(struct ckc_pieces *all, size_t index)
{
	struct ckc_piece *p = &all->list[index], *next = p + 1;

	if (index + 1 >= all->count || p->hi != next->lo || !uses_are_alike(&p->use, &next->use))
		return;
	p->hi = next->hi;
	p->use.command = ck_max(p->use.command, next->use.command);
	all->bytes += ckc_piece_size(next); /* which drop() subtracts */
	ckc_pieces_drop(all, index + 1);
}

void ckc_pieces_cut(struct ckc_pieces *all, size_t index, uint64_t lo, uint64_t hi)
{
	struct ckc_piece *p = &all->list[index];
	struct ckc_piece rest = {.lo = hi, .hi = p->hi, .use = p->use};

	all->bytes -= p->hi - lo;
	p->hi = lo;
	if (rest.hi > rest.lo)
		ckc_pieces_insert(all, index + 1, &rest);
	if (all->list[index].hi == all->list[index].lo)
		ckc_pieces_drop(all, index);
}

static bool piece_is_usable(const struct ckc_use *use, const struct ckc_user *user)
{
	return !use->command || (use->in_stream && user->in_stream && use->stream == user->stream &&
				 use->context == user->context);
}

size_t ckc_pieces_best(const struct ckc_pieces *all, size_t size, const struct ckc_user *user)
{
	size_t found = all->count, found_size = SIZE_MAX;

	for (size_t i = 0; i < all->count && found_size > size; i++) {
		const struct ckc_piece *p = &all->list[i];

		if (ckc_piece_size(p) >= size && ckc_piece_size(p) < found_size &&
		    (!user || piece_is_usable(&p->use, user))) {
			found = i;
			found_size = ckc_piece_size(p);
		}
	}
	return found;
}

void ckc_pieces_finish(struct ckc_pieces *all, bool (*over)(const struct ckc_use *use))
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i].use.command && over(&all->list[i].use))
			all->list[i].use.command = 0;
	}
}

void ckc_pieces_detach(struct ckc_pieces *all, const struct ckc_context *context)
{
	for (size_t i = 0; i < all->count; i++) {
		struct ckc_use *use = &all->list[i].use;

		if (use->context == context)
			*use = (struct ckc_use){.command = use->command};
	}
}

uint64_t ckc_pieces_run(const struct ckc_pieces *all, bool over, size_t *index)
{
	size_t i = *index;
	uint64_t end = all->list[i].lo;

	while (i < all->count && all->list[i].lo == end && !(over && all->list[i].use.command))
		end = all->list[i++].hi;
	*index = ck_max(i, *index + 1);
	return end;
}

void ckc_pieces_cut_all(struct ckc_pieces *all, uint64_t lo, uint64_t hi)
{
	while (lo < hi) {
		size_t index = ckc_pieces_find(all, lo);
		uint64_t end = ck_min(all->list[index].hi, hi);

		ckc_pieces_cut(all, index, lo, end);
		lo = end;
	}
}
