/*
 * server/copy/staging.c - rings of pinned slots; see staging.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gen/driver.h"
#include "rpc/chan.h"
#include "rpc/compress.h"
#include "server/copy/staging.h"
#include "server/session/locks.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_EVENT_DISABLE_TIMING 2
#define CK_SLOT_ALIGN 256u /* small copies start on separate cache lines */

struct cks_ring {
	struct ck_mutex lock; /* held from taking the ring until its release */
	size_t slot_size;
	unsigned int count;
	unsigned int at; /* the newest slot */
	struct ck_unpacker *unpacker;
	struct cks_ring *next; /* of those that threads own */
	bool taken;	       /* guarded by the list's lock */
	struct cks_slot slots[CK_UPLOAD_SLOTS];
};

struct cks_staging {
	struct cks_ring upload;
	struct cks_ring calls[CK_CALL_RINGS];
	struct cks_ring ahead[CK_AHEAD_RINGS];
	_Atomic unsigned int turn; /* the ring to wait for if all are taken */
	struct ck_mutex lock;	   /* of the list */
	struct cks_ring *own;
};

static void ring_init(struct cks_ring *ring, unsigned int count, size_t slot_size)
{
	ring->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_STAGING);
	ring->slot_size = slot_size;
	ring->count = count;
}

static void ring_fini(struct cks_ring *ring)
{
	for (unsigned int i = 0; i < ring->count; i++) {
		struct cks_slot *slot = &ring->slots[i];

		if (slot->event)
			ck_driver.cuEventDestroy_v2(slot->event);
		if (slot->pinned)
			ck_driver.cuMemHostUnregister(slot->host);
		if (slot->host)
			munmap(slot->host, ring->slot_size);
	}
	ck_unpacker_destroy(ring->unpacker);
	ck_mutex_destroy(&ring->lock);
}

int cks_staging_create(struct cks_staging **out)
{
	struct cks_staging *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_STAGING_OWN);
	ring_init(&s->upload, CK_UPLOAD_SLOTS, CK_SLOT_SIZE);
	for (int i = 0; i < CK_CALL_RINGS; i++)
		ring_init(&s->calls[i], CK_CALL_SLOTS, CK_PIECE_MAX);
	for (int i = 0; i < CK_AHEAD_RINGS; i++)
		ring_init(&s->ahead[i], CK_AHEAD_SLOTS, CK_PIECE_MAX);
	*out = s;
	return 0;
}

void cks_staging_destroy(struct cks_staging *s)
{
	if (!s)
		return;
	ring_fini(&s->upload);
	for (int i = 0; i < CK_CALL_RINGS; i++)
		ring_fini(&s->calls[i]);
	for (int i = 0; i < CK_AHEAD_RINGS; i++)
		ring_fini(&s->ahead[i]);
	for (struct cks_ring *ring = s->own, *next; ring; ring = next) {
		next = ring->next;
		ring_fini(ring);
		free(ring);
	}
	ck_mutex_destroy(&s->lock);
	free(s);
}

struct cks_ring *cks_staging_take(struct cks_staging *s)
{
	struct cks_ring *ring;

	ck_lock(&s->lock);
	for (ring = s->own; ring && ring->taken;)
		ring = ring->next;
	if (!ring)
		ring = calloc(1, sizeof(*ring));
	if (ring && ring->count == 0) {
		ring_init(ring, CK_CALL_SLOTS, CK_PIECE_MAX);
		ring->next = s->own;
		s->own = ring;
	}
	if (ring)
		ring->taken = true;
	ck_unlock(&s->lock);
	return ring;
}

void cks_staging_give(struct cks_staging *s, struct cks_ring *ring)
{
	ck_lock(&s->lock);
	ring->taken = false;
	ck_unlock(&s->lock);
}

void cks_ring_hold(struct cks_ring *ring)
{
	ck_lock(&ring->lock);
}

CUresult cks_ring_wait(struct cks_ring *ring)
{
	CUresult first = CUDA_SUCCESS;

	for (unsigned int i = 0; i < ring->count; i++) {
		CUresult err = cks_slot_wait(&ring->slots[i]);

		if (!first)
			first = err;
	}
	return first;
}

struct cks_ring *cks_staging_upload(struct cks_staging *s)
{
	ck_lock(&s->upload.lock);
	return &s->upload;
}

/* Are the copies of the next @slots slots done? Else the caller would wait for their streams. */
static bool is_idle(const struct cks_ring *ring, size_t slots)
{
	for (size_t i = 1; i <= ck_min(slots, (size_t)ring->count); i++) {
		const struct cks_slot *slot = &ring->slots[(ring->at + i) % ring->count];

		if (slot->pending && (!ck_driver.cuEventQuery ||
				      ck_driver.cuEventQuery(slot->event) != CUDA_SUCCESS))
			return false;
	}
	return true;
}

/* Take one of @count rings, of which the next @slots slots are idle. NULL: there is none. */
static struct cks_ring *take_free(struct cks_ring *rings, unsigned int count, size_t slots)
{
	for (unsigned int i = 0; i < count; i++) {
		if (ck_trylock(&rings[i].lock) != 0)
			continue;
		if (is_idle(&rings[i], slots))
			return &rings[i];
		ck_unlock(&rings[i].lock);
	}
	return NULL;
}

/* The same, or wait for one. */
static struct cks_ring *take_any(struct cks_staging *s, struct cks_ring *rings, unsigned int count)
{
	struct cks_ring *ring = take_free(rings, count, 0);

	if (!ring) {
		ring = &rings[s->turn++ % count];
		ck_lock(&ring->lock);
	}
	return ring;
}

struct cks_ring *cks_staging_idle(struct cks_staging *s, size_t size)
{
	return take_free(s->calls, CK_CALL_RINGS_NEAR, (size + CK_PIECE_MAX - 1) / CK_PIECE_MAX);
}

struct cks_ring *cks_staging_call(struct cks_staging *s, struct ck_chan *chan)
{
	struct cks_ring *ring = take_free(s->calls, CK_CALL_RINGS_NEAR, CK_CALL_SLOTS);
	unsigned int count = CK_CALL_RINGS_NEAR;

	if (!ring)
		ring = take_free(s->calls, CK_CALL_RINGS_NEAR, 1);
	if (!ring)
		ring = take_free(s->calls, CK_CALL_RINGS_NEAR, 0);
	if (ring)
		return ring;
	if (ck_chan_round_trip_us(chan) >= CK_CHAN_LONG_US)
		count = CK_CALL_RINGS;
	return take_any(s, s->calls, count);
}

struct cks_ring *cks_staging_ahead(struct cks_staging *s)
{
	struct cks_ring *ring = take_free(s->ahead, CK_AHEAD_RINGS, 1);

	return ring ? ring : take_any(s, s->ahead, CK_AHEAD_RINGS);
}

struct ck_unpacker **cks_ring_unpacker(struct cks_ring *ring)
{
	return &ring->unpacker;
}

void cks_ring_release(struct cks_ring *ring)
{
	ck_unlock(&ring->lock);
}

/* Pin a slot's memory; otherwise the driver would copy through its own buffer. */
static void slot_pin(struct cks_slot *slot, size_t size, uint64_t ctx)
{
	CUresult err;

	if (!ck_driver.cuMemHostRegister_v2 || !ck_driver.cuMemHostUnregister)
		return;
	err = ck_driver.cuMemHostRegister_v2(slot->host, size, CU_MEMHOSTREGISTER_PORTABLE);
	slot->pinned = !err || err == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	slot->pinned_ctx = ctx;
	if (!slot->pinned)
		ck_debug("staging memory is not pinned: error %d", err);
}

/* Prepare an empty slot of @size bytes for copies in context @ctx, which is current. */
static CUresult slot_prepare(struct cks_slot *slot, size_t size, uint64_t ctx)
{
	void *host;

	if (!ck_driver.cuEventCreate || !ck_driver.cuEventRecord || !ck_driver.cuEventSynchronize ||
	    !ck_driver.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!slot->host) {
		host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (host == MAP_FAILED)
			return CUDA_ERROR_OUT_OF_MEMORY;
		slot->host = host;
	}
	if (!slot->pinned)
		slot_pin(slot, size, ctx);
	if (slot->event && slot->ctx != ctx) {
		ck_driver.cuEventDestroy_v2(slot->event);
		slot->event = NULL;
	}
	slot->ctx = ctx;
	if (!slot->event)
		return ck_driver.cuEventCreate(&slot->event, CK_EVENT_DISABLE_TIMING);
	return CUDA_SUCCESS;
}

static bool has_room(const struct cks_ring *ring, uint64_t ctx, uint64_t stream, size_t size)
{
	const struct cks_slot *slot = &ring->slots[ring->at];

	return slot->event && slot->ctx == ctx && slot->stream == stream &&
	       slot->used + size <= ring->slot_size;
}

CUresult cks_ring_next(struct cks_ring *ring, uint64_t ctx, uint64_t stream, struct cks_slot **out)
{
	struct cks_slot *slot;
	CUresult err;

	ring->at = (ring->at + 1) % ring->count;
	slot = &ring->slots[ring->at];
	cks_slot_wait(slot); /* the stream of older copies will report its errors */
	err = slot_prepare(slot, ring->slot_size, ctx);
	if (err)
		return err;
	slot->stream = stream;
	*out = slot;
	return CUDA_SUCCESS;
}

/*
 * One event per slot is enough, because all copies of a slot are in one stream: the newest is the
 * last to finish. So another stream needs another slot.
 */
CUresult cks_ring_take(struct cks_ring *ring, uint64_t ctx, uint64_t stream, size_t size,
		       struct cks_slot **out)
{
	if (!has_room(ring, ctx, stream, size))
		return cks_ring_next(ring, ctx, stream, out);
	*out = &ring->slots[ring->at];
	return CUDA_SUCCESS;
}

CUresult cks_slot_mark(struct cks_slot *slot, CUstream stream, size_t size)
{
	CUresult err;

	slot->used += CK_ALIGN_UP(size, CK_SLOT_ALIGN);
	slot->pending = true;
	err = ck_driver.cuEventRecord(slot->event, stream);
	if (err && ck_driver.cuStreamSynchronize) {
		ck_driver.cuStreamSynchronize(stream); /* the slot must not be reused before */
		slot->pending = false;
	}
	return err;
}

CUresult cks_slot_wait(struct cks_slot *slot)
{
	CUresult err = CUDA_SUCCESS;

	if (slot->pending)
		err = ck_driver.cuEventSynchronize(slot->event);
	slot->pending = false;
	slot->used = 0;
	return err;
}

static void ring_drop_context(struct cks_ring *ring, uint64_t ctx)
{
	ck_lock(&ring->lock);
	for (unsigned int i = 0; i < ring->count; i++) {
		struct cks_slot *slot = &ring->slots[i];

		if (slot->ctx == ctx && slot->event) {
			cks_slot_wait(slot);
			ck_driver.cuEventDestroy_v2(slot->event);
			slot->event = NULL;
		}
		if (slot->pinned && slot->pinned_ctx == ctx)
			slot->pinned = false;
	}
	ck_unlock(&ring->lock);
}

void cks_staging_drop_context(struct cks_staging *s, uint64_t ctx)
{
	ring_drop_context(&s->upload, ctx);
	for (int i = 0; i < CK_CALL_RINGS; i++)
		ring_drop_context(&s->calls[i], ctx);
	for (int i = 0; i < CK_AHEAD_RINGS; i++)
		ring_drop_context(&s->ahead[i], ctx);
	ck_lock(&s->lock);
	for (struct cks_ring *ring = s->own; ring; ring = ring->next)
		ring_drop_context(ring, ctx);
	ck_unlock(&s->lock);
}
