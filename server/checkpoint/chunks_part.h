/*
 * server/checkpoint/chunks_part.h - the records of device memory, for chunks.c and chunks_take.c
 * alone.
 */
#ifndef CK_SERVER_CHECKPOINT_CHUNKS_PART_H
#define CK_SERVER_CHECKPOINT_CHUNKS_PART_H

#include "server/checkpoint/chunks.h"

#define CHUNK CK_MEMORY_PIECE

struct head {
	uint32_t kind, chunk, from, unused;
	uint64_t hash[2];
};
enum kind {
	END,
	BYTES, /* they follow */
	EQUAL, /* as chunk @from, which the receiver has */
	ZEROS,
	LANE, /* bytes, which are on the next lane */
};

/* The pool has @count chunks now. The key stays the same. 0 or -ENOMEM. */
int cks_chunks_set_count(struct cks_chunks *chunks, size_t count, const struct cks_piece_key *key);

#endif
