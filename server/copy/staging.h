/*
 * server/copy/staging.h - pinned memory between the connection and the device.
 *
 * A ring is a sequence of slots that one thread fills and empties in turn: while the device reads
 * (or writes) one slot, the thread receives into (or sends from) the next. The command thread has
 * one ring for its uploads; each call that moves bytes takes a small one. The memory belongs to the
 * process and is registered with the driver. So it outlives contexts; if a driver cannot register
 * it, it works as pageable memory.
 */
#ifndef CK_SERVER_COPY_STAGING_H
#define CK_SERVER_COPY_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

#define CK_PIECE_MAX (1u << 20) /* bytes moved at a time */
#define CK_SLOT_SIZE (4u << 20) /* for one-way uploads, which run ahead of the device */
#define CK_UPLOAD_SLOTS 8
#define CK_CALL_SLOTS 4 /* one piece each: two for the connection and device, two on the line */
/*
 * Simultaneous calls; more have to wait. On a long link, a part of a copy arrives slowly. There,
 * the 32 connections that a large copy may use have rings of their own, and some calls of other
 * threads.
 */
#define CK_CALL_RINGS_NEAR 8
#define CK_CALL_RINGS 40
/*
 * One-way uploads that arrive on lanes at the same time. Their rings are no calls': a stream that
 * waits keeps the bytes of its uploads, and must not keep a call of another stream waiting.
 */
#define CK_AHEAD_RINGS 32
#define CK_AHEAD_SLOTS 2

struct ck_chan;
struct cks_staging;
struct cks_ring;
struct ck_unpacker;

struct cks_slot {
	unsigned char *host; /* size: that of the ring's slots */
	size_t used;	     /* bytes passed to the device since the slot was empty */
	uint64_t ctx;	     /* of the event and of the copies */
	uint64_t stream;     /* serial number of the copies' stream */
	CUevent event;	     /* after the newest copy; NULL: not made yet */
	bool pending;	     /* copies may be in progress */
	bool pinned;
	uint64_t pinned_ctx; /* context it was registered in */
};

int cks_staging_create(struct cks_staging **staging);
void cks_staging_destroy(struct cks_staging *staging);

/* The ring for one-way uploads; the caller owns it until its release. */
struct cks_ring *cks_staging_upload(struct cks_staging *staging);
/* The same for a call on @chan: a ring that need not wait for the streams of other calls, if there
 * is one. */
struct cks_ring *cks_staging_call(struct cks_staging *staging, struct ck_chan *chan);
/* The same, if there is one that takes @size bytes and waits for no stream; otherwise NULL. */
struct cks_ring *cks_staging_idle(struct cks_staging *staging, size_t size);
/* The same for a one-way upload on a lane: a ring that need not wait for a stream, if there is
 * one. */
struct cks_ring *cks_staging_ahead(struct cks_staging *staging);
void cks_ring_release(struct cks_ring *ring);

/*
 * A ring of a thread's own, with CK_CALL_SLOTS slots of one piece; NULL: out of memory. The thread
 * holds it only while it calls the driver, so that a context can end meanwhile: a slot whose event
 * is NULL has lost its context. A ring that is given back is kept for the next thread.
 */
struct cks_ring *cks_staging_take(struct cks_staging *staging);
void cks_staging_give(struct cks_staging *staging, struct cks_ring *ring);
void cks_ring_hold(struct cks_ring *ring);
/* Wait until the copies of all slots are done; returns the first error of a stream. */
CUresult cks_ring_wait(struct cks_ring *ring);

/* The ring's unpacker, NULL at first; whoever owns the ring may make one, and use it. */
struct ck_unpacker **cks_ring_unpacker(struct cks_ring *ring);

/*
 * A slot with room for @size bytes (at most CK_PIECE_MAX) at host + used, for copies in context
 * @ctx on the stream with serial number @stream. Returns the newest slot if it has room, else the
 * next one after its copies are done. Returns the driver's errors.
 */
CUresult cks_ring_take(struct cks_ring *ring, uint64_t ctx, uint64_t stream, size_t size,
		       struct cks_slot **slot);

/* The next slot, empty, even if the newest one has room. */
CUresult cks_ring_next(struct cks_ring *ring, uint64_t ctx, uint64_t stream,
		       struct cks_slot **slot);

/* Note that a copy of @size bytes at host + used was passed to @stream. */
CUresult cks_slot_mark(struct cks_slot *slot, CUstream stream, size_t size);

/* Wait until all copies of the slot are done; returns the error of the stream, if any. */
CUresult cks_slot_wait(struct cks_slot *slot);

/* Context @ctx is about to end: forget its events. Waits for copies of other threads. */
void cks_staging_drop_context(struct cks_staging *staging, uint64_t ctx);

#endif
