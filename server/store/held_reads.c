/*
 * server/store/held_reads.c - the chunks that are read ahead, and the threads that read them; see
 * server/store/held_state.h.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/chunk_store.h"
#include "server/store/held_state.h"
#include "server/store/start_list.h"
#include "util/until.h"
#include "util/util.h"

#define THREADS 8u
#define IDLE_MS 10000 /* clients use a promise for half as long (client/copy/held_upload.c) */

/* --- reading; call with the lock held */

/* A chunk that makes room: the one that was asked for least recently. With @any, it may even be for
 * the newest question. */
static struct cks_memory_chunk *find_stale(const struct cks_held_chunks *h, bool any)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	struct cks_memory_chunk *oldest = NULL;

	while (ck_map_next(h->chunks, &it)) {
		struct cks_memory_chunk *c = it.value;

		if (c->ready && c->users == 0 && !c->promised && (any || c->round < h->round) &&
		    (!oldest || c->round < oldest->round))
			oldest = c;
	}
	return oldest;
}

static unsigned char *take_slot(struct cks_held_chunks *h, bool needed)
{
	unsigned char *slot = cks_held_memory_take(&h->memory);
	struct cks_memory_chunk *stale = slot ? NULL : find_stale(h, needed);

	if (!stale)
		return slot;
	cks_held_drop(h, stale);
	return cks_held_memory_take(&h->memory);
}

/* Enter a chunk that is to be read; NULL: there is no room. */
static struct cks_memory_chunk *enter_chunk(struct cks_held_chunks *h, const struct ck_hash *hash,
					    bool needed)
{
	struct cks_memory_chunk *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->hash = *hash;
	c->round = h->round;
	c->bytes = take_slot(h, needed);
	if (c->bytes && ck_map_insert(h->chunks, hash, sizeof(*hash), c) == 0)
		return c;
	if (c->bytes)
		cks_held_memory_give(&h->memory, c->bytes);
	free(c);
	return NULL;
}

/* Read the chunk, without the lock meanwhile. */
static void read_chunk(struct cks_held_chunks *h, struct cks_memory_chunk *c)
{
	int ret;

	h->reads++;
	ck_unlock(&h->lock);
	ret = cks_chunk_store_read(h->store, &c->hash, c->bytes, &c->size);
	ck_lock(&h->lock);
	h->reads--;
	if (ret < 0) {
		cks_held_drop(h, c);
	} else {
		c->ready = true;
		c->left = c->size;
		h->ready += c->size;
	}
	ck_cond_broadcast(&h->changed);
}

bool cks_held_read_next(struct cks_held_chunks *h)
{
	bool needed = h->next < h->needed;
	const struct ck_hash *hash;
	struct cks_memory_chunk *c;

	if (h->next == h->queued)
		return false;
	hash = &h->queue[h->next];
	if (cks_held_find(h, hash)) {
		h->next++;
		return true;
	}
	c = enter_chunk(h, hash, needed);
	if (!c && !needed)
		return false;
	h->next++;
	if (c)
		read_chunk(h, c);
	return true;
}

/* --- threads that read */

bool cks_held_is_idle(const struct cks_held_chunks *h)
{
	return ck_now_ms() - h->used_ms >= IDLE_MS;
}

static void *read_ahead(void *held)
{
	struct cks_held_chunks *h = held;
	struct timespec until;

	ck_lock(&h->lock);
	while (!h->ends && !cks_held_is_idle(h)) {
		until = ck_until(IDLE_MS * CK_NS_PER_MS);
		if (!cks_held_read_next(h))
			ck_cond_timedwait(&h->work, &h->lock, &until);
	}
	if (--h->threads == 0) {
		cks_held_drop_all(h, true);
		cks_held_memory_release(&h->memory);
	}
	ck_cond_broadcast(&h->changed);
	ck_unlock(&h->lock);
	return NULL;
}

void cks_held_start_threads(struct cks_held_chunks *h)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int most = (unsigned int)ck_min((long)THREADS, ck_max(processors, 1L));
	pthread_t thread;

	while (h->threads < most && pthread_create(&thread, NULL, read_ahead, h) == 0) {
		pthread_detach(thread);
		h->threads++;
	}
	ck_cond_broadcast(&h->work);
}

/* --- the chunks to read */

/* Copy @count hashes to the end of the queue, which has room. */
static void enqueue(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t count)
{
	if (count > 0)
		memcpy(h->queue + h->queued, hashes, count * sizeof(*hashes));
	h->queued += count;
}

bool cks_held_set_queue(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t needed,
			size_t count)
{
	size_t following;
	const struct ck_hash *after =
		cks_start_list_after(h->list, needed > 0 ? &hashes[needed - 1] : NULL, &following);

	free(h->queue);
	h->next = h->queued = h->needed = 0;
	h->queue = malloc((count + following + 1) * sizeof(*h->queue));
	if (!h->queue)
		return false;
	enqueue(h, hashes, needed);
	enqueue(h, after, following);
	enqueue(h, hashes + needed, count - needed);
	h->needed = needed;
	h->round++;
	h->used_ms = ck_now_ms();
	return true;
}
