/*
 * server/memory/delivery.c - copies in progress: a finished part gets a rank, and a lane that
 * carries it.
 *
 * Parts of one stream finish in order, so only the first part of each stream is polled. Copies of
 * two streams may go to the same memory, one behind the other: then the client has numbered them in
 * that order, and their ranks follow it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rpc/status.h"
#include "server/memory/delivery_part.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "util/until.h"

#define CHANGES_ALONG ((size_t)64 << 10) /* longer lists of changes do not hold up a reply */

int cks_deliveries_create(struct cks_deliveries **out)
{
	struct cks_deliveries *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_DELIVERIES);
	d->ready_last = &d->ready;
	*out = d;
	return 0;
}

/* --- slots and parts. The lock is held. */

void cks_slot_unref(struct cks_deliveries *d, struct cks_slot *slot)
{
	if (slot && --slot->refs == 0) {
		slot->used = 0;
		slot->parts = 0;
		ck_cond_signal(&d->room);
	}
}

void cks_part_free(struct cks_deliveries *d, struct cks_part *p)
{
	cks_slot_unref(d, p->slot);
	free(p->list);
	free(p);
}

/* --- finished parts; the lock is held */

static bool is_done(const struct cks_part *p)
{
	return !p->flag || atomic_load_explicit(p->flag, memory_order_acquire) != 0;
}

/* Give up the copies in progress in context @ctx: they cannot finish. Waits in their streams report
 * the error. */
static void fail_context(struct cks_deliveries *d, uint64_t ctx)
{
	for (struct cks_part_queue *q = d->queues; q; q = q->next) {
		for (struct cks_part *p = q->first; p; p = p->next) {
			if (p->ctx != ctx || is_done(p))
				continue;
			p->flag = NULL;
			p->size = 0;
		}
	}
}

/* Give the part a rank, and queue it for the next free lane. */
static void make_ready(struct cks_deliveries *d, struct cks_part *p)
{
	p->next = NULL;
	p->rank = atomic_load(&d->rank) + 1;
	*d->ready_last = p;
	d->ready_last = &p->next;
	atomic_store(&d->rank, p->rank);
}

/* The queue whose first part is done, and is of the earliest copy; NULL: none is done. */
static struct cks_part_queue **look_once(struct cks_deliveries *d)
{
	struct cks_part_queue **found = NULL;

	for (struct cks_part_queue **at = &d->queues; *at; at = &(*at)->next) {
		if ((*at)->first && is_done((*at)->first) &&
		    (!found || (*at)->first->number < (*found)->first->number))
			found = at;
	}
	return found;
}

/* A part that was not done yet may be done before the one that was: look again at those ahead. */
static struct cks_part_queue **first_done(struct cks_deliveries *d)
{
	struct cks_part_queue **found = look_once(d), **last = NULL;

	while (found != last) {
		last = found;
		found = look_once(d);
	}
	return found;
}

/* Rank the first part of the queue, which ends with its last one. */
static void collect_part(struct cks_deliveries *d, struct cks_part_queue **at)
{
	struct cks_part_queue *q = *at;
	struct cks_part *p = q->first;

	q->first = p->next;
	d->hurried -= !p->along;
	make_ready(d, p);
	atomic_fetch_sub(&d->outstanding, 1);
	if (q->first)
		return;
	*at = q->next;
	cks_slot_unref(d, q->slot);
	free(q);
}

static bool is_news(const struct cks_part *p)
{
	return p->number & CK_DELIVERY_NEWS && !p->list;
}

/* A lane takes one part per round trip, and news may come faster. */
static void add_news(struct cks_part *p, const struct cks_part *news)
{
	struct ck_news *list = p->list;

	list[p->size / sizeof(*list)] =
		(struct ck_news){news->number & ~CK_DELIVERY_NEWS, news->offset, news->rank};
	p->size += sizeof(*list);
	p->rank = news->rank;
}

struct cks_part *cks_deliveries_unlink(struct cks_deliveries *d, struct cks_part **at)
{
	struct cks_part *p = *at, *next;

	*at = p->next;
	if (!d->lists || !is_news(p) || !*at || !is_news(*at))
		return p;
	p->list = malloc(CK_NEWS_MOST * sizeof(struct ck_news));
	if (!p->list)
		return p;
	add_news(p, p);
	while ((next = *at) && is_news(next) && p->size < CK_NEWS_MOST * sizeof(struct ck_news)) {
		*at = next->next;
		add_news(p, next);
		cks_part_free(d, next);
	}
	p->at = p->list;
	p->number = CK_DELIVERY_LIST;
	p->offset = 0;
	return p;
}

void cks_deliveries_assign(struct cks_deliveries *d)
{
	for (struct cks_waiter *w = d->waiters; w && d->ready; w = w->next) {
		if (w->part)
			continue;
		w->part = cks_deliveries_unlink(d, &d->ready);
		if (!d->ready)
			d->ready_last = &d->ready;
		ck_cond_signal(&w->woken);
	}
}

/* When a waiter polls, a part that a reply can carry is left once, with those behind it, to give a
 * reply the chance. */
void cks_deliveries_collect(struct cks_deliveries *d, bool by_waiter)
{
	struct cks_part_queue **at;

	while ((at = first_done(d)) != NULL) {
		struct cks_part *p = (*at)->first;

		if (by_waiter && p->along && !p->seen) {
			p->seen = true;
			return;
		}
		collect_part(d, at);
	}
}

uint32_t cks_deliveries_report(struct cks_session *session)
{
	struct cks_deliveries *d = session->deliveries;

	cks_status_report(session, false);
	cks_shadows_compare(session, false);
	if (atomic_load(&d->outstanding) > 0) {
		ck_lock(&d->lock);
		cks_deliveries_collect(d, false);
		cks_deliveries_assign(d);
		ck_unlock(&d->lock);
	}
	return atomic_load(&d->rank);
}

/* Have the client take @p, which is complete, with the next reply or at once. */
static void hand_over(struct cks_deliveries *d, struct cks_part *p, bool by_reply)
{
	ck_lock(&d->lock);
	cks_deliveries_collect(d, false);
	make_ready(d, p);
	if (!by_reply)
		cks_deliveries_assign(d);
	ck_unlock(&d->lock);
}

void cks_deliveries_send_watch(struct cks_session *session, uint64_t number, uint64_t what,
			       bool by_reply)
{
	struct cks_part *p = calloc(1, sizeof(*p));

	if (!p)
		return; /* the client asks again after a while */
	p->number = number | CK_DELIVERY_NEWS;
	p->offset = what;
	p->along = true;
	hand_over(session->deliveries, p, by_reply);
}

int cks_deliveries_send_changes(struct cks_session *session, void *list, size_t size, bool by_reply)
{
	struct cks_part *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->number = CK_DELIVERY_CHANGES;
	p->list = list;
	p->at = list;
	p->size = size;
	p->along = size <= CHANGES_ALONG;
	hand_over(session->deliveries, p, by_reply);
	return 0;
}

void cks_deliveries_list(struct cks_deliveries *d)
{
	ck_lock(&d->lock);
	d->lists = true;
	ck_unlock(&d->lock);
}

bool cks_deliveries_any(struct cks_deliveries *d)
{
	return atomic_load(&d->rank) != 0 || atomic_load(&d->outstanding) != 0;
}

void cks_deliveries_fail(struct cks_deliveries *d, uint64_t ctx)
{
	if (atomic_load(&d->outstanding) == 0)
		return;
	ck_lock(&d->lock);
	fail_context(d, ctx);
	ck_unlock(&d->lock);
}

void cks_deliveries_drop_context(struct cks_deliveries *d, uint64_t ctx, CUcontext context)
{
	CUcontext popped;

	if (atomic_load(&d->outstanding) > 0 && ck_driver.cuCtxSynchronize &&
	    ck_driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
		ck_driver.cuCtxSynchronize();
		ck_driver.cuCtxPopCurrent_v2(&popped);
	}
	ck_lock(&d->lock);
	fail_context(d, ctx);
	ck_unlock(&d->lock);
}

void cks_deliveries_forget_context(struct cks_deliveries *d, uint64_t ctx)
{
	ck_lock(&d->lock);
	for (struct cks_slot *slot = d->slots; slot; slot = slot->next)
		if (slot->pinned_ctx == ctx)
			slot->pinned = false;
	ck_unlock(&d->lock);
}

void cks_deliveries_destroy(struct cks_deliveries *d)
{
	if (!d)
		return;
	for (struct cks_part_queue *q = d->queues; q; q = q->next)
		fail_context(d, q->ctx);
	cks_deliveries_collect(d, false);
	while (d->ready) {
		struct cks_part *p = d->ready;

		d->ready = p->next;
		cks_part_free(d, p);
	}
	while (d->slots) {
		struct cks_slot *slot = d->slots;

		d->slots = slot->next;
		if (slot->pinned)
			ck_driver.cuMemHostUnregister(slot->host);
		munmap(slot->host, CK_SLOT_BYTES);
		free(slot);
	}
	ck_cond_destroy(&d->room);
	ck_mutex_destroy(&d->lock);
	free(d);
}

void cks_deliveries_call_looker(struct cks_deliveries *d, bool hurry)
{
	struct cks_waiter *w = d->looker ? d->looker : d->waiters;

	if (w && (!d->looker || hurry))
		ck_cond_signal(&w->woken);
}
