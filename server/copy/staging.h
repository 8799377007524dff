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

#define CK_PIECE_MAX (512u << 10) /* bytes moved at a time */
#define CK_SLOT_SIZE (4u << 20)	  /* for one-way uploads, which run ahead of the device */
#define CK_UPLOAD_SLOTS 8
#define CK_CALL_SLOTS 2 /* one piece each: small enough to stay in a processor's cache */
#define CK_CALL_RINGS 8 /* simultaneous calls; more have to wait */

struct ck_staging;
struct ck_ring;

struct ck_slot {
	unsigned char *host;	/* size: that of the ring's slots */
	size_t used;		/* bytes passed to the device since the slot was empty */
	uint64_t ctx;		/* of the event and of the copies */
	uint64_t stream;	/* serial number of the copies' stream */
	CUevent event;		/* after the newest copy; NULL: not made yet */
	bool pending;		/* copies may be in progress */
	bool pinned;
	uint64_t pinned_ctx;	/* context it was registered in */
};

int ck_staging_create(struct ck_staging **staging);
void ck_staging_destroy(struct ck_staging *staging);

/* The ring for one-way uploads; a free ring for a call. The caller owns it until its release. */
struct ck_ring *ck_staging_upload(struct ck_staging *staging);
struct ck_ring *ck_staging_call(struct ck_staging *staging);
void ck_ring_release(struct ck_ring *ring);

/*
 * A slot with room for @size bytes (at most CK_PIECE_MAX) at host + used, for copies in context
 * @ctx on the stream with serial number @stream. Returns the newest slot if it has room, else the
 * next one after its copies are done. Returns the driver's errors.
 */
CUresult ck_ring_take(struct ck_ring *ring, uint64_t ctx, uint64_t stream, size_t size,
		      struct ck_slot **slot);

/* The next slot, empty, even if the newest one has room. */
CUresult ck_ring_next(struct ck_ring *ring, uint64_t ctx, uint64_t stream, struct ck_slot **slot);

/* Note that a copy of @size bytes at host + used was passed to @stream. */
CUresult ck_slot_mark(struct ck_slot *slot, CUstream stream, size_t size);

/* Wait until all copies of the slot are done; returns the error of the stream, if any. */
CUresult ck_slot_wait(struct ck_slot *slot);

/* Context @ctx is about to end: forget its events. Waits for copies of other threads. */
void ck_staging_drop_context(struct ck_staging *staging, uint64_t ctx);

#endif
