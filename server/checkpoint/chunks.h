/*
 * server/checkpoint/chunks.h - device memory on its way from a worker's pool (pool_table.h) to the
 * pool of the worker that another server makes: chunks of 2 MiB, each with its hash.
 *
 *     {"memory": CHUNKS, "size": BYTES, "key": KEY, "alive": true}
 *                                                      the pool's file, and the key of the hashes
 *                                                      {"alive": true}, any number of times
 *                                                      {"ok": true}: there is memory for it
 *     (records, and the last one)
 *
 * A record is a head of 32 bytes, in network order, and the bytes of a chunk unless the receiver
 * has them, or they come on the next of the lanes (lanes.h). All of it may come again: then what
 * has changed, or that there are no chunks. The hash is that of piece_hash.h, which the GPU of the
 * sender has computed, so it covers the whole way.
 */
#ifndef CK_SERVER_CHECKPOINT_CHUNKS_H
#define CK_SERVER_CHECKPOINT_CHUNKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"
#include "server/checkpoint/lanes.h"
#include "server/checkpoint/memory_file.h"

/* The receiver's chunks, as both ends know them. */
struct cks_chunks {
	struct cks_piece_hash *has; /* by chunk; zeros: nothing */
	size_t count, most;	    /* chunks now, and ever */
	struct cks_piece_key key;
	struct cks_piece_hash zero; /* of a chunk of zeros */
	uint64_t size;		    /* of the file */
	int file;		    /* at the receiver: it has the chunks, one behind the other */
	char *bytes;		    /* the same in memory */
	uint32_t *index;	    /* at the sender: chunks by hash, plus 1 */
	uint64_t sent;		    /* bytes of chunks */
	struct cks_lanes *lanes;    /* that carry them; NULL: they follow their heads */
};

/* Of the sender. */
struct cks_chunks_source {
	int pool; /* the file */
	const struct cks_piece_hash *marks;
	size_t count; /* of them */
	struct cks_piece_key key;
	bool changing; /* the worker writes into it; bytes written meanwhile are not sent */
};

#define CK_CHUNKS_NONE                                                                             \
	{                                                                                          \
		.file = -1                                                                         \
	}

void cks_chunks_free(struct cks_chunks *chunks);

/* Send what the receiver does not have. 0 or -errno. */
int cks_chunks_send(struct cks_chunks *chunks, int stream, const struct cks_chunks_source *source,
		    struct cks_why *why);

/* Receive what the object @json announces. 0 or -errno: the sender has sent something else. */
int cks_chunks_take(struct cks_chunks *chunks, int stream, const json_t *json, struct cks_why *why);
/* Has each chunk come? True without any memory too. */
bool cks_chunks_complete(const struct cks_chunks *chunks);

#endif
