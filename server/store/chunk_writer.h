/*
 * server/store/chunk_writer.h - uploads on their way to the store. A thread hashes and writes them,
 * so a command that uploads is complete without that.
 *
 * At most 32 MiB wait, and at most a sixteenth of the memory that is available. If there is no
 * room, the thread that adds a chunk writes it. Safe from all threads.
 */
#ifndef CK_SERVER_STORE_CHUNK_WRITER_H
#define CK_SERVER_STORE_CHUNK_WRITER_H

#include <stddef.h>

#include "util/hash.h"

struct cks_chunk_store;
struct cks_chunk_writer;
struct cks_start_list;

#define CK_WRITER_MOST ((size_t)32 << 20)

struct cks_new_chunk {
	struct cks_new_chunk *next;
	struct ck_hash hash; /* as the client says; zeros: computed from the bytes */
	size_t size;
	unsigned char bytes[];
};

/* NULL if @store is, or without memory. @store and @list must outlive it; @list may be NULL. */
struct cks_chunk_writer *cks_chunk_writer_create(struct cks_chunk_store *store,
						 struct cks_start_list *list);
void cks_chunk_writer_destroy(struct cks_chunk_writer *writer); /* writes all; accepts NULL */

/* Write @chunk, of malloc, which the writer frees. When it is in the store, it is noted in the
 * list. @writer may be NULL. */
void cks_chunk_writer_add(struct cks_chunk_writer *writer, struct cks_new_chunk *chunk);

/* Wait until all chunks are written that have been added. @writer may be NULL. */
void cks_chunk_writer_wait(struct cks_chunk_writer *writer);

#endif
