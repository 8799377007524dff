/*
 * client/memory/heap_pieces.h - a list of free pieces of device memory, in order of address; for
 * heap.c alone.
 */
#ifndef CK_CLIENT_MEMORY_HEAP_PIECES_H
#define CK_CLIENT_MEMORY_HEAP_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/memory/heap.h"

struct ckc_piece {
	uint64_t lo, hi;
	struct ckc_use use;
};

struct ckc_pieces {
	struct ckc_piece *list;
	size_t count, room; /* pieces */
	size_t bytes;	    /* of all pieces */
};

static inline size_t ckc_piece_size(const struct ckc_piece *p)
{
	return p->hi - p->lo;
}

/* The index of the first piece that ends after @at. */
size_t ckc_pieces_find(const struct ckc_pieces *all, uint64_t at);

/* Make room for one more piece, so that the next insertion succeeds. -ENOMEM. */
int ckc_pieces_prepare(struct ckc_pieces *all);

/* Insert @p, after ckc_pieces_prepare(). Drop the piece at @index. */
void ckc_pieces_insert(struct ckc_pieces *all, size_t index, const struct ckc_piece *p);
void ckc_pieces_drop(struct ckc_pieces *all, size_t index);

/* Join the piece at @index with the next one, if they are adjacent and alike. */
void ckc_pieces_join(struct ckc_pieces *all, size_t index);

/* Remove [lo, hi) from the piece at @index, which holds it. Call after ckc_pieces_prepare(). */
void ckc_pieces_cut(struct ckc_pieces *all, size_t index, uint64_t lo, uint64_t hi);

/* The smallest piece of @size bytes or more that @user (NULL: anyone, after a wait) can use; count:
 * none. */
size_t ckc_pieces_best(const struct ckc_pieces *all, size_t size, const struct ckc_user *user);

/* End the uses that are @over. Forget @context, which has ended, in all uses. */
void ckc_pieces_finish(struct ckc_pieces *all, bool (*over)(const struct ckc_use *use));
void ckc_pieces_detach(struct ckc_pieces *all, const struct ckc_context *context);

/* The end of the run of adjacent pieces that begins with piece *@index; then *@index is the first
 * piece behind it, at least the next one. @over: only of pieces whose uses are over. */
uint64_t ckc_pieces_run(const struct ckc_pieces *all, bool over, size_t *index);

/* Remove [lo, hi), which adjacent pieces hold. Call after ckc_pieces_prepare(). */
void ckc_pieces_cut_all(struct ckc_pieces *all, uint64_t lo, uint64_t hi);

#endif
