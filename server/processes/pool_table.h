/*
 * server/processes/pool_table.h - how another process finds the host memory in which a worker keeps
 * device memory (server/evacuation/host_pool.h).
 *
 * The worker reports the table's address (CK_NOTE_LEFT). A checkpointer of the same user reads it,
 * and the pieces, in the memory of the worker.
 */
#ifndef CK_SERVER_PROCESSES_POOL_TABLE_H
#define CK_SERVER_PROCESSES_POOL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "server/processes/piece_hash.h"

#define CK_POOL_PIECES 65536 /* most that are read */

struct cks_pool_piece {
	char *bytes;
	size_t size;  /* a multiple of 2 MiB */
	uint64_t ctx; /* the context in which it is registered; 0: in none */
};

/* Are the bytes of the pieces there? Their worker drops them (CK_CONTROL_DROP); the process that
 * has filled them again sets COMPLETE. */
enum { CK_POOL_COMPLETE, CK_POOL_DROPPING, CK_POOL_DROPPED };

struct cks_pool_table {
	struct cks_pool_piece *pieces;
	size_t count, used;	/* bytes that hold device memory, from the first piece on */
	_Atomic uint64_t state; /* CK_POOL_... */
};

/*
 * The worker's records of the bytes in the pieces, for a checkpoint that writes changes: a hash for
 * each 2 MiB, from the first piece on (@marks, zeros: not known); and the file that has all pieces
 * one behind the other, which leaves the worker when that drops them and comes back to it
 * (CK_CONTROL_RETURN). Only grows, as messages.h.
 */
struct cks_pool_saved {
	uint64_t marks, count; /* address of struct cks_piece_hash [count] */
	struct cks_piece_key key;
	int32_t fd; /* -1: the pieces are in no file */
};

#endif
