/*
 * server/memory/delivery_part.h - what delivery.c, delivery_copy.c and delivery_lane.c share.
 *
 * A copy is cut into parts of a slot at most (delivery_copy.c). Lanes of the client that have nothing
 * to take along wait (delivery_lane.c), one of them looking from time to time; a call's reply looks
 * as well, since its wait may have been for such a copy.
 */
#ifndef CK_SERVER_MEMORY_DELIVERY_PART_H
#define CK_SERVER_MEMORY_DELIVERY_PART_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gen/handlers.h"
#include "server/memory/delivery.h"

#define CK_SLOT_SIZE ((size_t)4 << 20)
#define CK_LOOK_MOST_NS 1000000 /* between two looks */

struct ck_slot {
	unsigned char *host;
	size_t used;
	unsigned int refs;	/* parts in it, and the queue that fills it */
	bool pinned;
	uint64_t pinned_ctx;
	struct ck_slot *next;	/* of all */
};

/* What one reply takes along. */
struct ck_part {
	uint64_t number, offset, span;	/* of the client's copy; where in it, how much of it */
	uint64_t ctx;
	size_t size;		/* bytes that there are: span, or 0 after an error */
	struct ck_slot *slot;
	unsigned char *at;
	CUevent event;		/* behind the copy; NULL: there is nothing to wait for */
	bool along;		/* a reply may take it along, which is soon enough */
	bool seen;		/* and none has since it was seen to be done */
	uint32_t rank;
	struct ck_part *next;
};

/* Parts of one stream. */
struct ck_part_queue {
	uint64_t stream, ctx;	/* serial number of it, in its context */
	struct ck_part *first, **last;
	struct ck_slot *slot;	/* that is being filled, or NULL */
	struct ck_part_queue *next;
};

/* A lane of the client. */
struct ck_waiter {
	struct ck_part *part;
	pthread_cond_t woken;
	struct ck_waiter *next;
};

struct ck_deliveries {
	pthread_mutex_t lock;
	pthread_condattr_t clock;
	pthread_cond_t room;	/* a slot may have come free */
	struct ck_part_queue *queues;
	struct ck_part *ready, **ready_last; /* with a rank, waiting for a lane */
	struct ck_waiter *waiters;
	struct ck_slot *slots;
	unsigned int slot_count;
	struct ck_waiter *looker;	/* wakes up by itself; NULL: none does */
	uint64_t lingers;	/* until then it does so for the sake of small copies */
	unsigned int hurried;	/* parts in queues that no reply takes along */
	_Atomic unsigned int outstanding; /* parts in queues */
	_Atomic uint32_t rank;
};

/* All of these with the lock held. */
void ck_slot_unref(struct ck_deliveries *d, struct ck_slot *slot);
void ck_part_free(struct ck_deliveries *d, struct ck_part *part);

/* Give what is done a rank, and its turn at a lane: before a reply, or for the sake of a waiter. */
void ck_deliveries_collect(struct ck_deliveries *d, struct ck_request *r, bool by_waiter);

/* Hand what has a rank to lanes that wait. */
void ck_deliveries_assign(struct ck_deliveries *d);

/* See to it that a waiter looks from time to time; one that does not look often, in a @hurry. */
void ck_deliveries_call_looker(struct ck_deliveries *d, bool hurry);

#endif
