/*
 * server/store/held_chunks.c - see server/store/held_chunks.h.
 */
#include <stdlib.h>

#include "server/store/held_state.h"
#include "util/until.h"
#include "util/util.h"

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

void cks_held_destroy(struct cks_held_chunks *h)
{
	if (!h)
		return;
	ck_lock(&h->lock);
	h->ends = true;
	ck_cond_broadcast(&h->work);
	while (h->threads > 0)
		ck_cond_wait(&h->changed, &h->lock);
	cks_held_drop_all(h, true);
	cks_held_memory_release(&h->memory);
	ck_unlock(&h->lock);
	ck_cond_destroy(&h->work);
	ck_cond_destroy(&h->changed);
	ck_mutex_destroy(&h->lock);
	ck_map_destroy(h->chunks);
	free(h->queue);
	free(h);
}

/* --- chunks; call with the lock held */

struct cks_memory_chunk *cks_held_find(const struct cks_held_chunks *h, const struct ck_hash *hash)
{
	return ck_map_find(h->chunks, hash, sizeof(*hash));
}

void cks_held_drop(struct cks_held_chunks *h, struct cks_memory_chunk *c)
{
	ck_map_remove(h->chunks, &c->hash, sizeof(c->hash));
	if (c->ready)
		h->ready -= c->size;
	cks_held_memory_give(&h->memory, c->bytes);
	free(c);
	ck_cond_signal(&h->work);
}

void cks_held_drop_all(struct cks_held_chunks *h, bool promised)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	while (ck_map_next(h->chunks, &it)) {
		struct cks_memory_chunk *c = it.value;

		if (c->ready && c->users == 0 && (promised || !c->promised))
			cks_held_drop(h, c);
	}
}

/* --- the chunks to read */

void cks_held_begin(struct cks_held_chunks *h)
{
	if (!h)
		return;
	ck_lock(&h->lock);
	if (cks_held_set_queue(h, NULL, 0, 0) && h->queued > 0)
		cks_held_start_threads(h);
	ck_unlock(&h->lock);
}

/* Chunks in memory that the queue names stay; promises end. */
static void renew_chunks(struct cks_held_chunks *h)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	struct cks_memory_chunk *c;

	while (ck_map_next(h->chunks, &it))
		((struct cks_memory_chunk *)it.value)->promised = false;
	for (size_t i = 0; i < h->queued; i++) {
		c = cks_held_find(h, &h->queue[i]);
		if (c)
			c->round = h->round;
	}
}

/* Is none of the needed chunks on its way? */
static bool are_ready(const struct cks_held_chunks *h)
{
	for (size_t i = 0; i < h->needed; i++) {
		const struct cks_memory_chunk *c = cks_held_find(h, &h->queue[i]);

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
		struct cks_memory_chunk *c = cks_held_find(h, &h->queue[i]);

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
	if (cks_held_set_queue(h, hashes, needed, count)) {
		round = h->round;
		renew_chunks(h);
		cks_held_start_threads(h);
		while (h->round == round && h->next < h->needed)
			cks_held_read_next(h);
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
	struct cks_memory_chunk *c;

	if (!h)
		return NULL;
	ck_lock(&h->lock);
	c = cks_held_find(h, hash);
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
	struct cks_memory_chunk *c;

	ck_lock(&h->lock);
	c = cks_held_find(h, hash);
	c->left -= ck_min(c->left, copied);
	if (--c->users == 0 && c->left == 0)
		cks_held_drop(h, c);
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
	cks_held_drop_all(h, cks_held_is_idle(h));
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
