/*
 * server/store/held_chunks.c - see server/store/held_chunks.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/session/locks.h"
#include "server/store/chunk_store.h"
#include "server/store/held_chunks.h"
#include "server/store/held_memory.h"
#include "server/store/start_list.h"
#include "util/log.h"
#include "util/map.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("server");

#define THREADS 8u
#define IDLE_MS 10000 /* a promise lasts for less: CKC_PROMISE_NS */

/* In memory, or on its way there. */
struct chunk {
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

struct cks_held_chunks *cks_held_create(struct cks_chunk_store *store, struct cks_start_list *list)
{
	struct cks_held_chunks *h = store ? calloc(1, sizeof(*h)) : NULL;

	if (!h)
		return NULL;
	h->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_HELD);
	h->store = store;
	h->list = list;
	h->chunks = ck_map_create();
	if (!h->chunks) {
		free(h);
		return NULL;
	}
	return h;
}

/* --- chunks; call with the lock held */

static struct chunk *find_chunk(const struct cks_held_chunks *h, const struct ck_hash *hash)
{
	return ck_map_find(h->chunks, hash, sizeof(*hash));
}

static void drop_chunk(struct cks_held_chunks *h, struct chunk *c)
{
	ck_map_remove(h->chunks, &c->hash, sizeof(c->hash));
	if (c->ready)
		h->ready -= c->size;
	cks_held_memory_give(&h->memory, c->bytes);
	free(c);
	ck_cond_signal(&h->work);
}

/* Drop all chunks that no thread uses; with @promised, also those that are promised. */
static void drop_chunks(struct cks_held_chunks *h, bool promised)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	while (ck_map_next(h->chunks, &it)) {
		struct chunk *c = it.value;

		if (c->ready && c->users == 0 && (promised || !c->promised))
			drop_chunk(h, c);
	}
}

/* A chunk that makes room: the one that was asked for least recently. With @any, it may even be for
 * the newest question. */
static struct chunk *find_stale(const struct cks_held_chunks *h, bool any)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	struct chunk *oldest = NULL;

	while (ck_map_next(h->chunks, &it)) {
		struct chunk *c = it.value;

		if (c->ready && c->users == 0 && !c->promised && (any || c->round < h->round) &&
		    (!oldest || c->round < oldest->round))
			oldest = c;
	}
	return oldest;
}

static unsigned char *take_slot(struct cks_held_chunks *h, bool needed)
{
	unsigned char *slot = cks_held_memory_take(&h->memory);
	struct chunk *stale = slot ? NULL : find_stale(h, needed);

	if (!stale)
		return slot;
	drop_chunk(h, stale);
	return cks_held_memory_take(&h->memory);
}

/* Enter a chunk that is to be read; NULL: there is no room. */
static struct chunk *enter_chunk(struct cks_held_chunks *h, const struct ck_hash *hash, bool needed)
{
	struct chunk *c = calloc(1, sizeof(*c));

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
static void read_chunk(struct cks_held_chunks *h, struct chunk *c)
{
	int ret;

	h->reads++;
	ck_unlock(&h->lock);
	ret = cks_chunk_store_read(h->store, &c->hash, c->bytes, &c->size);
	ck_lock(&h->lock);
	h->reads--;
	if (ret < 0) {
		drop_chunk(h, c);
	} else {
		c->ready = true;
		c->left = c->size;
		h->ready += c->size;
	}
	ck_cond_broadcast(&h->changed);
}

/* Read the next hash of the queue. False: there is none, or no room for it. */
static bool read_next(struct cks_held_chunks *h)
{
	bool needed = h->next < h->needed;
	const struct ck_hash *hash;
	struct chunk *c;

	if (h->next == h->queued)
		return false;
	hash = &h->queue[h->next];
	if (find_chunk(h, hash)) {
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

static bool is_idle(const struct cks_held_chunks *h)
{
	return ck_now_ms() - h->used_ms >= IDLE_MS;
}

static void *read_ahead(void *held)
{
	struct cks_held_chunks *h = held;
	struct timespec until;

	ck_lock(&h->lock);
	while (!h->ends && !is_idle(h)) {
		until = ck_until(IDLE_MS * CK_NS_PER_MS);
		if (!read_next(h))
			ck_cond_timedwait(&h->work, &h->lock, &until);
	}
	if (--h->threads == 0) {
		drop_chunks(h, true);
		cks_held_memory_release(&h->memory);
	}
	ck_cond_broadcast(&h->changed);
	ck_unlock(&h->lock);
	return NULL;
}

/* Call with the lock held. */
static void start_threads(struct cks_held_chunks *h)
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

void cks_held_destroy(struct cks_held_chunks *h)
{
	if (!h)
		return;
	ck_lock(&h->lock);
	h->ends = true;
	ck_cond_broadcast(&h->work);
	while (h->threads > 0)
		ck_cond_wait(&h->changed, &h->lock);
	drop_chunks(h, true);
	cks_held_memory_release(&h->memory);
	ck_unlock(&h->lock);
	ck_cond_destroy(&h->work);
	ck_cond_destroy(&h->changed);
	ck_mutex_destroy(&h->lock);
	ck_map_destroy(h->chunks);
	free(h->queue);
	free(h);
}

/* --- what is to be read */

/* Copy @count hashes to the end of the queue, which has room. */
static void enqueue(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t count)
{
	if (count > 0)
		memcpy(h->queue + h->queued, hashes, count * sizeof(*hashes));
	h->queued += count;
}

/* What is read next: the needed hashes, what followed them at the last start, and the rest. Call
 * with the lock held. */
static bool set_queue(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t needed,
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

void cks_held_begin(struct cks_held_chunks *h)
{
	if (!h)
		return;
	ck_lock(&h->lock);
	if (set_queue(h, NULL, 0, 0) && h->queued > 0)
		start_threads(h);
	ck_unlock(&h->lock);
}

/* Chunks in memory that the queue names stay; promises end. */
static void renew_chunks(struct cks_held_chunks *h)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	struct chunk *c;

	while (ck_map_next(h->chunks, &it))
		((struct chunk *)it.value)->promised = false;
	for (size_t i = 0; i < h->queued; i++) {
		c = find_chunk(h, &h->queue[i]);
		if (c)
			c->round = h->round;
	}
}

/* Is none of the needed chunks on its way? */
static bool are_ready(const struct cks_held_chunks *h)
{
	for (size_t i = 0; i < h->needed; i++) {
		const struct chunk *c = find_chunk(h, &h->queue[i]);

		if (c && !c->ready)
			return false;
	}
	return true;
}

/* Promise the chunks of the queue that are in memory, with all of their bytes. */
static size_t promise_chunks(struct cks_held_chunks *h, struct ck_held_chunk *promised, size_t most)
{
	size_t n = 0;

	for (size_t i = 0; i < h->queued && n < most; i++) {
		struct chunk *c = find_chunk(h, &h->queue[i]);

		if (!c || !c->ready)
			continue;
		c->left = c->promised ? c->left + c->size : c->size; /* it is there twice */
		c->promised = true;
		promised[n++] = (struct ck_held_chunk){c->hash, c->size};
	}
	return n;
}

size_t cks_held_promise(struct cks_held_chunks *h, const struct ck_hash *hashes, size_t needed,
			size_t count, struct ck_held_chunk *promised, size_t most)
{
	uint64_t round;
	size_t n = 0;

	if (!h)
		return 0;
	ck_lock(&h->lock);
	if (set_queue(h, hashes, needed, count)) {
		round = h->round;
		renew_chunks(h);
		start_threads(h);
		while (h->round == round && h->next < h->needed)
			read_next(h);
		while (h->round == round && !are_ready(h))
			ck_cond_wait(&h->changed, &h->lock);
		if (h->round == round)
			n = promise_chunks(h, promised, most);
	}
	ck_unlock(&h->lock);
	return n;
}

/* --- copies */

const unsigned char *cks_held_take(struct cks_held_chunks *h, const struct ck_hash *hash,
				   size_t size)
{
	const unsigned char *bytes = NULL;
	struct chunk *c;

	if (!h)
		return NULL;
	ck_lock(&h->lock);
	c = find_chunk(h, hash);
	if (c && c->ready && c->size == size) {
		c->users++;
		h->used_ms = ck_now_ms();
		bytes = c->bytes;
	}
	ck_unlock(&h->lock);
	return bytes;
}

void cks_held_done(struct cks_held_chunks *h, const struct ck_hash *hash, size_t copied)
{
	struct chunk *c;

	ck_lock(&h->lock);
	c = find_chunk(h, hash);
	c->left -= ck_min(c->left, copied);
	if (--c->users == 0 && c->left == 0)
		drop_chunk(h, c);
	ck_unlock(&h->lock);
}

void cks_held_trim(struct cks_held_chunks *h)
{
	if (!h)
		return;
	ck_lock(&h->lock);
	h->next = h->queued;
	while (h->reads > 0)
		ck_cond_wait(&h->changed, &h->lock);
	drop_chunks(h, is_idle(h));
	cks_held_memory_release(&h->memory);
	ck_unlock(&h->lock);
}

size_t cks_held_size(struct cks_held_chunks *h)
{
	size_t size;

	if (!h)
		return 0;
	ck_lock(&h->lock);
	size = h->ready;
	ck_unlock(&h->lock);
	return size;
}
