/*
 * client/memory/busy.c - see client/memory/busy.h.
 */
#include "client/memory/busy.h"
#include "client/memory/state.h"

void ckc_busy_begin(struct ckc_busy *busy)
{
	struct ckc_busy_list *list = &busy->client->memory->busy;
	int cancel = ck_lock_uncancelled(&list->lock);

	busy->next = list->first;
	list->first = busy;
	atomic_fetch_add(&list->count, 1);
	atomic_fetch_add(&busy->client->watched, 1);
	ck_unlock_uncancelled(&list->lock, cancel);
}

void ckc_busy_end(struct ckc_busy *busy)
{
	struct ckc_busy_list *list = &busy->client->memory->busy;
	int cancel = ck_lock_uncancelled(&list->lock);
	struct ckc_busy **at = &list->first;

	while (*at != busy)
		at = &(*at)->next;
	*at = busy->next;
	atomic_fetch_sub(&list->count, 1);
	atomic_fetch_sub(&busy->client->watched, 1);
	pthread_cond_broadcast(&list->ended);
	ck_unlock_uncancelled(&list->lock, cancel);
}

/* Call with the lock held. */
static bool is_busy(const struct ckc_busy_list *list, uint64_t at, size_t size)
{
	const struct ckc_busy *b = list->first;

	while (b && (b->at >= at + size || at >= b->at + b->size))
		b = b->next;
	return b;
}

void ckc_busy_wait(struct ckc_client *client, uint64_t at, size_t size)
{
	struct ckc_busy_list *list = &client->memory->busy;
	int cancel;

	if (likely(atomic_load(&list->count) == 0))
		return;
	cancel = ck_lock_uncancelled(&list->lock);
	while (is_busy(list, at, size))
		ck_cond_wait(&list->ended, &list->lock);
	ck_unlock_uncancelled(&list->lock, cancel);
}
