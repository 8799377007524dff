/*
 * server/memory/delivery_part.h - what delivery.c, delivery_copy.c and delivery_lane.c share.
 *
 * A copy is cut into parts of a slot at most (delivery_copy.c). Lanes of the client that have nothing
 * to take along wait (delivery_lane.c), one of them polling from time to time; a call's reply polls
 * as well, since its wait may have been for such a copy.
 *
 * The stream of a copy sets a flag in pinned memory behind it, so that nothing on the way of a part to
 * the client calls the driver. An event would have to be queried and destroyed, and both wait for the
 * lock of the context: a cuMemFree of the command thread holds that while it waits for all streams,
 * one of which may wait for a host function of the client, which waits for the part.
 */
#ifndef CK_SERVER_MEMORY_DELIVERY_PART_H
#define CK_SERVER_MEMORY_DELIVERY_PART_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gen/handlers.h"
#include "server/memory/delivery.h"
#include "server/session/locks.h"

#define CK_SLOT_SIZE ((size_t)4 << 20)
#define CK_LOOK_MOST_NS 1000000 /* between two looks */

#define CK_SLOT_BYTES (CK_SLOT_SIZE + CK_SLOT_PARTS * sizeof(uint32_t))
#define CK_SLOT_PARTS 16384u	/* in one slot, at most */

/* Behind the bytes of a slot there is a flag for each part in it, which its stream sets to 1. */
struct ck_slot {
	unsigned char *host;
	CUdeviceptr device;	/* the same for the device */
	size_t used;
	unsigned int parts;	/* flags in use */
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
	_Atomic uint32_t *flag;	/* set behind the copy; NULL: there is nothing to wait for */
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
	struct ck_mutex lock;
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
void ck_deliveries_collect(struct ck_deliveries *d, bool by_waiter);

/* Hand what has a rank to lanes that wait. */
void ck_deliveries_assign(struct ck_deliveries *d);

/* See to it that a waiter looks from time to time; one that does not look often, in a @hurry. */
void ck_deliveries_call_looker(struct ck_deliveries *d, bool hurry);

#endif
