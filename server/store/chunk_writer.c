/*
 * server/store/chunk_writer.c - see server/store/chunk_writer.h.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/session/locks.h"
#include "server/store/chunk_store.h"
#include "server/store/chunk_writer.h"
#include "server/store/start_list.h"
#include "util/log.h"
#include "util/process/available_memory.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("server");

#define AVAILABLE_PART 16 /* the bound: available memory divided by this */

struct cks_chunk_writer {
	struct ck_mutex lock;
	struct ck_cond written;
	struct cks_chunk_store *store;
	struct cks_start_list *list;
	struct cks_new_chunk *first, **last; /* chunks that wait */
	size_t bytes;			     /* of them, and of the one that is being written */
	uint64_t added, done;
	bool runs; /* a thread writes until no chunk waits */
};

struct cks_chunk_writer *cks_chunk_writer_create(struct cks_chunk_store *store,
						 struct cks_start_list *list)
{
	struct cks_chunk_writer *w = store ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	w->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_WRITER);
	w->store = store;
	w->list = list;
	w->last = &w->first;
	return w;
}

void cks_chunk_writer_destroy(struct cks_chunk_writer *w)
{
	if (!w)
		return;
	ck_lock(&w->lock);
	while (w->runs)
		ck_cond_wait(&w->written, &w->lock);
	ck_unlock(&w->lock);
	ck_cond_destroy(&w->written);
	ck_mutex_destroy(&w->lock);
	free(w);
}

/* An upload is complete without its copy on disk. */
static void write_chunk(struct cks_chunk_writer *w, struct cks_new_chunk *c)
{
	int ret = cks_chunk_store_put(w->store, &c->hash, c->bytes, c->size);

	if (ret == 0)
		cks_start_list_note(w->list, &c->hash);
	else
		ck_debug("%zu bytes of an upload are not kept: %s", c->size, strerror(-ret));
	free(c);
}

static struct cks_new_chunk *take_first(struct cks_chunk_writer *w)
{
	struct cks_new_chunk *c = w->first;

	if (!c)
		return NULL;
	w->first = c->next;
	if (!w->first)
		w->last = &w->first;
	return c;
}

static void *write_all(void *writer)
{
	struct cks_chunk_writer *w = writer;
	struct cks_new_chunk *c;

	ck_lock(&w->lock);
	while ((c = take_first(w))) {
		size_t size = c->size;

		ck_unlock(&w->lock);
		write_chunk(w, c);
		ck_lock(&w->lock);
		w->bytes -= size;
		w->done++;
		ck_cond_broadcast(&w->written);
	}
	w->runs = false;
	ck_cond_broadcast(&w->written);
	ck_unlock(&w->lock);
	return NULL;
}

/* Call with the lock held. */
static bool has_thread(struct cks_chunk_writer *w)
{
	pthread_t thread;

	if (!w->runs && pthread_create(&thread, NULL, write_all, w) == 0) {
		pthread_detach(thread);
		w->runs = true;
	}
	return w->runs;
}

/* False: there is no room. */
static bool enqueue(struct cks_chunk_writer *w, struct cks_new_chunk *c)
{
	size_t most = ck_min(CK_WRITER_MOST, (size_t)ck_available_memory() / AVAILABLE_PART);
	bool takes;

	ck_lock(&w->lock);
	takes = w->bytes + c->size <= most && has_thread(w);
	if (takes) {
		c->next = NULL;
		*w->last = c;
		w->last = &c->next;
		w->bytes += c->size;
		w->added++;
	}
	ck_unlock(&w->lock);
	return takes;
}

void cks_chunk_writer_add(struct cks_chunk_writer *w, struct cks_new_chunk *c)
{
	if (!w)
		free(c);
	else if (!enqueue(w, c))
		write_chunk(w, c);
}

void cks_chunk_writer_wait(struct cks_chunk_writer *w)
{
	uint64_t all;

	if (!w)
		return;
	ck_lock(&w->lock);
	all = w->added;
	while (w->done < all)
		ck_cond_wait(&w->written, &w->lock);
	ck_unlock(&w->lock);
}
