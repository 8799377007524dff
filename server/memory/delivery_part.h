/*
 * server/memory/delivery_part.h - shared by delivery.c, delivery_copy.c and delivery_lane.c.
 *
 * A copy is cut into parts of at most a slot (delivery_copy.c). Free lanes of the client wait here
 * (delivery_lane.c); one of them polls from time to time. A call polls before its reply too,
 * because it may have waited for such a copy.
 *
 * The stream of a copy sets a flag in pinned memory after it. So no step of a part's way to the
 * client calls the driver. An event would have to be queried and destroyed, and both take the lock
 * of the context. A cuMemFree of the command thread holds that lock while it waits for all streams.
 * One of these may wait for a host function of the client, which in turn waits for the part.
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
#include "util/wait.h"

#define CK_SLOT_SIZE ((size_t)4 << 20)
#define CK_LOOK_MOST_NS 1000000 /* longest poll interval */

#define CK_SLOT_BYTES (CK_SLOT_SIZE + CK_SLOT_PARTS * sizeof(uint32_t))
#define CK_SLOT_PARTS 16384u /* in one slot, at most */

/* After the bytes of a slot there is a flag per part, which the stream sets to 1. */
struct cks_slot {
	unsigned char *host;
	CUdeviceptr device; /* its address for the device */
	size_t used;
	unsigned int parts;    /* flags in use */
	unsigned int refs;     /* parts in it, plus the queue that fills it */
	bool pinned;	       /* registered, in context @pinned_ctx */
	uint64_t pinned_ctx;   /* of the copies in it */
	struct cks_slot *next; /* in the list of all */
};

/* One part of a copy, or news, for one reply. */
struct cks_part {
	uint64_t number, offset, span; /* of the client's copy; offset, length */
	uint64_t ctx;
	size_t size; /* bytes present: span, or 0 after an error */
	struct cks_slot *slot;
	unsigned char *at;
	_Atomic uint32_t *flag; /* set after the copy; NULL: nothing to wait for */
	bool along;		/* small and not urgent: a reply may carry it */
	bool seen;		/* done and skipped once, to give a reply the chance */
	void *list;		/* the bytes of news that are sent together, of changes; or NULL */
	uint32_t rank;
	struct cks_part *next;
};

/* Parts of one stream. */
struct cks_part_queue {
	uint64_t stream, ctx; /* serial number of the stream, id of its context */
	struct cks_part *first, **last;
	struct cks_slot *slot; /* the slot being filled, or NULL */
	struct cks_part_queue *next;
};

/* A lane of the client. */
struct cks_waiter {
	struct cks_part *part;
	struct ck_cond woken;
	struct cks_waiter *next;
};

struct cks_deliveries {
	struct ck_mutex lock;
	struct ck_cond room; /* signals that a slot may be free */
	struct cks_part_queue *queues;
	struct cks_part *ready, **ready_last; /* ranked, waiting for a lane */
	bool lists;			      /* the client understands lists of news */
	struct cks_waiter *waiters;
	struct cks_slot *slots;
	unsigned int slot_count;
	struct cks_waiter *looker;	  /* the lane that polls; NULL: none */
	uint64_t lingers;		  /* polls until then, for further small copies */
	unsigned int hurried;		  /* queued parts that no reply carries */
	_Atomic unsigned int outstanding; /* queued parts */
	_Atomic uint32_t rank;
};

/* Call with the lock held, as for the next functions. */
void cks_slot_unref(struct cks_deliveries *d, struct cks_slot *slot);
void cks_part_free(struct cks_deliveries *d, struct cks_part *part);

/* Rank finished parts and queue them for lanes: before a reply, or when a waiter polls. */
void cks_deliveries_collect(struct cks_deliveries *d, bool by_waiter);

/* Take the part at @at out of the ready ones. News take along the news that follow. The caller sets
 * ready_last. */
struct cks_part *cks_deliveries_unlink(struct cks_deliveries *d, struct cks_part **at);

/* Pass ranked parts to waiting lanes. */
void cks_deliveries_assign(struct cks_deliveries *d);

/* Make sure that a waiter polls; if none does so often, wake one in a @hurry. */
void cks_deliveries_call_looker(struct cks_deliveries *d, bool hurry);

#endif
