/*
 * server/children/queue.c - see queue.h.
 */
#include <string.h>

#include "server/children/queue.h"
#include "server/children/workers.h"
#include "util/until.h"

static bool same_identity(const struct cks_owner *a, const struct cks_owner *b)
{
	return ck_hash_equal(&a->identity.key, &b->identity.key);
}

struct cks_waiter *cks_queue_find(struct cks_queue *q, const struct cks_owner *owner,
				  const unsigned char ticket[CK_QUEUE_TICKET])
{
	for (size_t i = 0; i < q->count; i++) {
		if (memcmp(q->list[i].ticket, ticket, CK_QUEUE_TICKET) == 0 &&
		    same_identity(&q->list[i].owner, owner))
			return &q->list[i];
	}
	return NULL;
}

struct cks_waiter *cks_queue_enter(struct cks_queue *q, const struct cks_waiter *waiter)
{
	struct cks_waiter *new = &q->list[q->count];
	size_t same = 0;

	for (size_t i = 0; i < q->count; i++)
		same += same_identity(&q->list[i].owner, &waiter->owner);
	if (q->count == CK_QUEUE_MAX || same >= CK_QUEUE_OF_IDENTITY)
		return NULL;
	*new = *waiter;
	new->since = new->seen = ck_now_ms();
	q->count++;
	return new;
}

void cks_queue_leave(struct cks_queue *q, struct cks_waiter *waiter)
{
	size_t i = (size_t)(waiter - q->list);

	q->count--;
	memmove(&q->list[i], &q->list[i + 1], (q->count - i) * sizeof(q->list[0]));
}

void cks_queue_expire(struct cks_queue *q, int64_t now)
{
	size_t i = 0;

	while (i < q->count) {
		if (now - q->list[i].seen > CK_QUEUE_HOLD_MS + CK_QUEUE_BACK_MS)
			cks_queue_leave(q, &q->list[i]);
		else
			i++;
	}
}

size_t cks_queue_place(const struct cks_queue *q, const struct cks_waiter *waiter)
{
	return (size_t)(waiter - q->list) + 1;
}

static size_t sessions_of(const struct cks_workers *workers, const struct cks_owner *owner)
{
	struct cks_session_counts counts;

	cks_workers_count(workers, owner, &counts);
	return counts.identity;
}

bool cks_queue_others_first(const struct cks_queue *q, const struct cks_workers *workers,
			    const struct cks_owner *owner, int64_t since,
			    bool (*may)(const void *data, const struct cks_owner *owner),
			    const void *data)
{
	size_t own = sessions_of(workers, owner), theirs;

	for (size_t i = 0; i < q->count; i++) {
		const struct cks_waiter *w = &q->list[i];

		theirs = same_identity(&w->owner, owner) ? own : sessions_of(workers, &w->owner);
		if ((theirs < own || (theirs == own && w->since < since)) && may(data, &w->owner))
			return true;
	}
	return false;
}
