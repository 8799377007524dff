/*
 * client/memory/busy_memory.c - see client/memory/busy_memory.h.
 */
#include <errno.h>

#include "client/memory/busy_memory.h"
#include "client/memory/state.h"
#include "util/until.h"

#define LOOK_MS 1000 /* between two looks whether the copy may still come */

void ckc_busy_memory_begin(struct ckc_busy_memory *busy)
{
	struct ckc_busy_memory_list *list = &busy->client->memory->busy;
	int cancel = ck_lock_uncancelled(&list->lock);

	busy->next = list->first;
	list->first = busy;
	atomic_fetch_add(&list->count, 1);
	atomic_fetch_add(&busy->client->watched, 1);
	ck_unlock_uncancelled(&list->lock, cancel);
}

void ckc_busy_memory_end(struct ckc_busy_memory *busy)
{
	struct ckc_busy_memory_list *list = &busy->client->memory->busy;
	int cancel = ck_lock_uncancelled(&list->lock);
	struct ckc_busy_memory **at = &list->first;

	while (*at != busy)
		at = &(*at)->next;
	*at = busy->next;
	atomic_fetch_sub(&list->count, 1);
	atomic_fetch_sub(&busy->client->watched, 1);
	ck_cond_broadcast(&list->ended);
	ck_unlock_uncancelled(&list->lock, cancel);
}

/* The context of a copy that uses some of the range and may come; NULL: there is none. Call with
 * the lock held. */
static struct ckc_context *find_busy_context(const struct ckc_busy_memory_list *list, uint64_t at,
					     size_t size)
{
	const struct ckc_busy_memory *b = list->first;

	while (b && (b->at >= at + size || at >= b->at + b->size || b->context->fault ||
		     b->context->client->state != CK_STATE_READY))
		b = b->next;
	return b ? b->context : NULL;
}

/* A context that has failed carries out nothing more, and only a call finds out. */
static void look_after(struct ckc_context *context)
{
	cuStreamQuery_args args = {.head.ctx = context->object.id};
	cuStreamQuery_res res = {.head = {0}};
	CUresult err = ckc_call_aside(context->client, CK_PROC_cuStreamQuery, &args, &res);

	if (err && err != CUDA_ERROR_NOT_READY)
		context->fault = (int)err;
}

void ckc_busy_memory_wait(struct ckc_client *client, uint64_t at, size_t size)
{
	struct ckc_busy_memory_list *list = &client->memory->busy;
	struct ckc_context *context;
	int cancel;

	if (likely(atomic_load(&list->count) == 0))
		return;
	cancel = ck_lock_uncancelled(&list->lock);
	while ((context = find_busy_context(list, at, size))) {
		struct timespec until = ck_until(LOOK_MS * CK_NS_PER_MS);

		if (ck_cond_timedwait(&list->ended, &list->lock, &until) != ETIMEDOUT)
			continue;
		ck_unlock(&list->lock);
		look_after(context);
		ck_lock(&list->lock);
	}
	ck_unlock_uncancelled(&list->lock, cancel);
}
