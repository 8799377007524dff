/*
 * server/store/held_chunks.h - chunks of the store that are in memory before the session copies
 * them to the device.
 *
 * Threads read ahead, and check each chunk's hash: those that the program took at its last start,
 * then those that followed the chunks for which its client asks. The client gets promises: for a
 * while, and for as many bytes as the chunk has, it may copy such a chunk one-way. A chunk of which
 * all bytes have been copied makes room for the next one. A chunk that has left the memory is read
 * again.
 *
 * All memory is given back after ten seconds without use. Safe from all threads.
 */
#ifndef CK_SERVER_STORE_HELD_CHUNKS_H
#define CK_SERVER_STORE_HELD_CHUNKS_H

#include <stddef.h>

#include "rpc/compress.h"
#include "util/hash.h"

struct cks_chunk_store;
struct cks_held_chunks;
struct cks_start_list;

/* NULL if @store is, or without memory. @store and @list must outlive it; @list may be NULL. */
struct cks_held_chunks *cks_held_create(struct cks_chunk_store *store, struct cks_start_list *list);
void cks_held_destroy(struct cks_held_chunks *held); /* accepts NULL */

/* Begin to read the chunks of the last start. All of these accept NULL. */
void cks_held_begin(struct cks_held_chunks *held);

/*
 * All earlier promises end. Read the first @needed of @count hashes, and wait for that; read the
 * others later. Fill @promised with those that are in memory now, the needed ones first, then those
 * that are likely to follow: their number, at most @most.
 */
size_t cks_held_promise(struct cks_held_chunks *held, const struct ck_hash *hashes, size_t needed,
			size_t count, struct ck_held_chunk *promised, size_t most);

/* The bytes of a chunk of @size bytes, valid until cks_held_done, which says how many of them were
 * copied. NULL: it is not in memory, and there is nothing to end. */
const unsigned char *cks_held_take(struct cks_held_chunks *held, const struct ck_hash *hash,
				   size_t size);
void cks_held_done(struct cks_held_chunks *held, const struct ck_hash *hash, size_t copied);

/* Give back all memory except that of promised chunks. */
void cks_held_trim(struct cks_held_chunks *held);

/* Bytes of chunks in memory. */
size_t cks_held_size(struct cks_held_chunks *held);

#endif
