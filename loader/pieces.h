/*
 * loader/pieces.h - stretches of addresses: those of a window that were returned, and those outside
 * of it that a half has.
 *
 * Nothing here waits, because it runs in place of system calls: in signal handlers too, and in a
 * child of fork, where other threads and the locks that they held are lost. A thread that does not
 * get the lock at once continues without the list.
 */
#ifndef CK_LOADER_PIECES_H
#define CK_LOADER_PIECES_H

#include "loader/sys.h"

#define CK_PIECES 1024

struct ck_loader_piece {
	uint64_t at, end;
};

struct ck_pieces {
	uint32_t lock, count;
	struct ck_loader_piece piece[CK_PIECES];
};

/* False: the lock is not released soon, or its owner has gone. */
bool ck_pieces_lock(struct ck_pieces *list);
void ck_pieces_unlock(struct ck_pieces *list);

/* These with the lock held. [at, end) is joined with its neighbours; false: the list is full. */
bool ck_pieces_add(struct ck_pieces *list, uint64_t at, uint64_t end);

/* Forget [at, end); false: the list is full, and the upper rest of a piece is lost. */
bool ck_pieces_remove(struct ck_pieces *list, uint64_t at, uint64_t end);

/* A piece that reaches to @end, if there is one, reaches to @new_end; false: the list is full. */
bool ck_pieces_grow(struct ck_pieces *list, uint64_t end, uint64_t new_end);

/* Takes @size bytes at a multiple of @align out; 0: there is no such piece. */
uint64_t ck_pieces_take(struct ck_pieces *list, size_t size, uint64_t align);

#endif
