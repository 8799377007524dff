/*
 * server/memory/delivery_copy.c - start a copy on the command thread: its parts go into pinned
 * slots.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "rpc/status.h"
#include "server/memory/delivery_part.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

#define SLOTS 256u /* 1 GiB; further copies wait until slots are free */
#define PART_ALIGN 256u
#define ALONG_MOST 8192u    /* largest copy that a reply carries: larger ones overlap with it */
#define LINGER_NS 100000000 /* polling time after a small copy, to save a wake-up */

static struct cks_slot *slot_make(struct cks_deliveries *d)
{
	struct cks_slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->host = mmap(NULL, CK_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (slot->host == MAP_FAILED) {
		free(slot);
		return NULL;
	}
	slot->next = d->slots;
	d->slots = slot;
	d->slot_count++;
	return slot;
}

/* An unused slot for copies in context @ctx, or NULL. A registration ends with its context, at any
 * time, so another context's slot is taken only when there can be no more. */
static struct cks_slot *slot_idle(struct cks_deliveries *d, uint64_t ctx)
{
	struct cks_slot *idle = NULL, *made = NULL;

	for (struct cks_slot *slot = d->slots; slot; slot = slot->next) {
		if (slot->refs > 0)
			continue;
		if (slot->pinned && slot->pinned_ctx == ctx)
			return slot;
		if (!idle || !slot->pinned)
			idle = slot;
	}
	if ((!idle || idle->pinned) && d->slot_count < SLOTS)
		made = slot_make(d);
	idle = made ? made : idle;
	if (idle) {
		idle->pinned = false;
		idle->pinned_ctx = ctx;
	}
	return idle;
}

/* Register the slot in its context, which is current. No copy is in it. */
static CUresult slot_register(struct cks_slot *slot)
{
	const unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	CUresult err = ck_driver.cuMemHostRegister_v2(slot->host, CK_SLOT_BYTES, flags);

	if (err == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) { /* by another context */
		ck_driver.cuMemHostUnregister(slot->host);
		err = ck_driver.cuMemHostRegister_v2(slot->host, CK_SLOT_BYTES, flags);
	}
	return err ? err : ck_driver.cuMemHostGetDevicePointer_v2(&slot->device, slot->host, 0);
}

static void slot_pin(struct cks_slot *slot)
{
	if (!slot->pinned)
		slot->pinned = !slot_register(slot);
}

static struct cks_part_queue *queue_of(struct cks_deliveries *d, uint64_t ctx, uint64_t stream)
{
	struct cks_part_queue *q = d->queues;

	while (q && (q->stream != stream || q->ctx != ctx))
		q = q->next;
	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->stream = stream;
	q->ctx = ctx;
	q->last = &q->first;
	q->next = d->queues;
	d->queues = q;
	return q;
}

/* Allocate room for @p in a slot of its stream; waits while all slots are in use. */
static CUresult place_part(struct cks_deliveries *d, struct cks_part *p, uint64_t stream)
{
	struct cks_part_queue *q;
	struct cks_slot *slot;

	for (;;) {
		struct timespec until = ck_until(CK_LOOK_MOST_NS);

		q = queue_of(d, p->ctx, stream);
		if (!q)
			return CUDA_ERROR_OUT_OF_MEMORY;
		slot = q->slot;
		if (slot && slot->used + p->size <= CK_SLOT_SIZE && slot->parts < CK_SLOT_PARTS)
			break;
		slot = slot_idle(d, p->ctx);
		if (slot) {
			cks_slot_unref(d, q->slot);
			q->slot = slot;
			slot->refs = 1;
			break;
		}
		if (d->slot_count == 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		cks_deliveries_collect(d, false);
		cks_deliveries_assign(d);
		ck_cond_timedwait(&d->room, &d->lock, &until);
	}
	p->slot = slot;
	p->at = slot->host + slot->used;
	slot->used += CK_ALIGN_UP(p->size, PART_ALIGN);
	slot->refs++;
	return CUDA_SUCCESS;
}

/* Allocate a flag for a part, and return its device address. */
static void take_flag(struct cks_part *p, CUdeviceptr *device)
{
	size_t offset = CK_SLOT_SIZE + p->slot->parts++ * sizeof(uint32_t);

	p->flag = (_Atomic uint32_t *)(void *)(p->slot->host + offset);
	atomic_store(p->flag, 0);
	*device = p->slot->device + offset;
}

/* Enqueue the copy into the slot, then the write of the flag. */
static CUresult begin_copy(struct cks_part *p, CUdeviceptr src, CUstream stream)
{
	CUdeviceptr flag;
	CUresult err;

	slot_pin(p->slot);
	err = ck_driver.cuMemcpyDtoHAsync_v2(p->at, src + p->offset, p->size, stream);
	if (!err && p->slot->pinned) {
		take_flag(p, &flag);
		err = ck_driver.cuStreamWriteValue32_v2(stream, flag, 1, 0);
		if (!err)
			return CUDA_SUCCESS;
		p->flag = NULL;
	}
	/* without a flag, wait until the copy is done and the slot is free */
	return err ? (ck_driver.cuStreamSynchronize(stream), err)
		   : ck_driver.cuStreamSynchronize(stream);
}

/* Start the next part. After an error, it stands for the rest of the copy, without bytes. */
static CUresult deliver_part(struct cks_request *r, const ck_deliver_args *a, uint64_t offset,
			     CUstream stream, uint64_t serial, uint64_t *span)
{
	struct cks_deliveries *d = r->session->deliveries;
	struct cks_part *p = calloc(1, sizeof(*p));
	struct cks_part_queue *q;
	CUresult err;

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (struct cks_part){.number = a->number, .offset = offset, .ctx = r->ctx};
	p->along = a->number & CK_DELIVERY_ALONG && a->size <= ALONG_MOST;
	p->size = p->span = ck_min(a->size - offset, (uint64_t)CK_SLOT_SIZE);
	ck_lock(&d->lock);
	err = place_part(d, p, serial);
	ck_unlock(&d->lock);
	if (!err)
		err = begin_copy(p, a->src, stream);
	if (err) {
		p->size = 0;
		p->span = a->size - offset;
	}
	*span = p->span;
	ck_lock(&d->lock);
	q = queue_of(d, p->ctx, serial);
	if (q) {
		*q->last = p;
		q->last = &p->next;
		atomic_fetch_add(&d->outstanding, 1);
		d->hurried += !p->along;
		d->lingers = ck_now_ns() + LINGER_NS;
		cks_deliveries_call_looker(d, !p->along && d->hurried == 1);
	} else {
		err = CUDA_ERROR_OUT_OF_MEMORY;
		cks_part_free(d, p);
	}
	ck_unlock(&d->lock);
	return err;
}

static bool delivery_is_supported(void)
{
	return ck_driver.cuMemcpyDtoHAsync_v2 && ck_driver.cuMemHostRegister_v2 &&
	       ck_driver.cuMemHostUnregister && ck_driver.cuMemHostGetDevicePointer_v2 &&
	       ck_driver.cuStreamWriteValue32_v2 && ck_driver.cuStreamSynchronize;
}

CUresult ck_serve_deliver(struct cks_request *r, ck_deliver_args *a, void *res)
{
	CUstream stream;
	uint64_t serial, span;
	CUresult err = CUDA_SUCCESS;

	(void)res;
	if (!delivery_is_supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_serial(r, a->stream, &stream, &serial))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->size > CK_SLOT_SIZE && !cks_memory_covers(r->session->memory, a->src, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = 0; at < a->size && !err; at += span)
		err = deliver_part(r, a, at, stream, serial, &span);
	return err;
}
