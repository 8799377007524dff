/*
 * server/store/held_state.h - the state of server/store/held_chunks.c and of the threads that read
 * for it, server/store/held_reads.c.
 */
#ifndef CK_SERVER_STORE_HELD_STATE_H
#define CK_SERVER_STORE_HELD_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/session/locks.h"
#include "server/store/held_chunks.h"
#include "server/store/held_memory.h"
#include "util/hash.h"
#include "util/map.h"
#include "util/wait.h"

/* In memory, or on its way there. */
struct cks_memory_chunk {
	struct ck_hash hash;
	size_t size, left;    /* bytes; those of them that are not copied yet */
	unsigned char *bytes; /* a slot */
	bool ready, promised;
	unsigned int users; /* threads that copy it */
	uint64_t round;	    /* the newest question that it may be for */
};

struct cks_held_chunks {
	struct ck_mutex lock;
	struct ck_cond work, changed; /* for threads that read; for those that wait for them */
	struct cks_chunk_store *store;
	struct cks_start_list *list;
	struct cks_held_memory memory;
	struct ck_map *chunks;
	/* Hashes to be read: [next, queued). A client waits for those before @needed. */
	struct ck_hash *queue;
	size_t queued, next, needed;
	uint64_t round;	    /* questions so far */
	size_t ready;	    /* bytes of chunks */
	unsigned int reads; /* in progress */
	unsigned int threads;
	int64_t used_ms;
	bool ends;
};

/* --- held_chunks.c. Call these, and those below, with the lock held. */

struct cks_memory_chunk *cks_held_find(const struct cks_held_chunks *h, const struct ck_hash *hash);
void cks_held_drop(struct cks_held_chunks *h, struct cks_memory_chunk *c);

/* Drop all chunks that no thread uses; with @promised, also those that are promised. */
void cks_held_drop_all(struct cks_held_chunks *h, bool promised);

/* --- held_reads.c */

/* Choose the chunks to read next: the needed hashes, those that followed them at the last start,
 * and the rest. */
bool cks_held_set_queue(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t needed,
			size_t count);

/* Read the next hash of the queue. False: there is none, or no room for it. */
bool cks_held_read_next(struct cks_held_chunks *h);

/* Start threads that read the queue, as many as are missing. */
void cks_held_start_threads(struct cks_held_chunks *h);

/* Was there no use for so long that the memory is given back? */
bool cks_held_is_idle(const struct cks_held_chunks *h);

#endif
