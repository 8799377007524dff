/*
 * loader/pieces.c - see loader/pieces.h. The lists are short: they are searched from the beginning.
 */
#include "loader/pieces.h"

#define SPINS 2000
#define YIELDS 16

bool ck_pieces_lock(struct ck_pieces *list)
{
	for (int i = 0; i < SPINS + YIELDS; i++) {
		if (!__atomic_exchange_n(&list->lock, 1, __ATOMIC_ACQUIRE))
			return true;
		if (i < SPINS)
			__builtin_ia32_pause();
		else
			sys1(__NR_sched_yield, 0);
	}
	return false;
}

void ck_pieces_unlock(struct ck_pieces *list)
{
	__atomic_store_n(&list->lock, 0, __ATOMIC_RELEASE);
}

static void remove_piece(struct ck_pieces *list, uint32_t i)
{
	list->piece[i] = list->piece[--list->count];
}

static bool append_piece(struct ck_pieces *list, uint64_t at, uint64_t end)
{
	if (list->count == CK_PIECES)
		return false;
	list->piece[list->count++] = (struct ck_loader_piece){at, end};
	return true;
}

bool ck_pieces_add(struct ck_pieces *list, uint64_t at, uint64_t end)
{
	for (uint32_t i = 0; i < list->count;) {
		struct ck_loader_piece *p = &list->piece[i];

		if (p->end < at || p->at > end) {
			i++;
			continue;
		}
		at = p->at < at ? p->at : at;
		end = p->end > end ? p->end : end;
		remove_piece(list, i);
	}
	return append_piece(list, at, end);
}

bool ck_pieces_remove(struct ck_pieces *list, uint64_t at, uint64_t end)
{
	bool whole = true;

	for (uint32_t i = 0; i < list->count;) {
		struct ck_loader_piece p = list->piece[i];

		if (!ranges_overlap(p.at, p.end, at, end)) {
			i++;
			continue;
		}
		remove_piece(list, i);
		if (p.at < at) /* there is room: one has just been dropped */
			append_piece(list, p.at, at);
		if (p.end > end)
			whole &= append_piece(list, end, p.end);
		i = 0;
	}
	return whole;
}

bool ck_pieces_grow(struct ck_pieces *list, uint64_t end, uint64_t new_end)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (end > list->piece[i].at && end <= list->piece[i].end)
			return ck_pieces_add(list, end, new_end);
	return true;
}

uint64_t ck_pieces_take(struct ck_pieces *list, size_t size, uint64_t align)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct ck_loader_piece p = list->piece[i];
		uint64_t at = (p.at + align - 1) & -align;

		if (at > p.end || p.end - at < size)
			continue;
		ck_pieces_remove(list, at, at + size);
		return at;
	}
	return 0;
}
