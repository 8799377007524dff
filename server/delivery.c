/*
 * server/delivery.c - see server/delivery.h.
 *
 * A copy is cut into parts of a slot at most. Parts of one stream are done in order, so only the
 * first of each stream is looked at. Lanes of the client that have nothing to take along wait, one
 * of them looking from time to time; a call's reply looks as well, since its wait may have been
 * for such a copy.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#include "gen/handlers.h"
#include "rpc/proc.h"
#include "rpc/status.h"
#include "server/delivery.h"
#include "server/memory.h"
#include "server/output.h"
#include "server/session.h"
#include "server/status.h"
#include "util/log.h"
#include "util/spin.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define SLOT ((size_t)4 << 20)
#define SLOTS 256u		/* 1 GiB; more copies wait for others to be taken along */
#define PART_ALIGN 256u
#define ALONG_MOST 8192u	/* bytes of a copy that a reply takes along: larger ones overlap with it */
#define EVENT_DISABLE_TIMING 2
#define LOOK_FIRST_NS 20000	/* between two looks; doubled up to: */
#define LOOK_MOST_NS 1000000
#define LINGER_NS 100000000	/* after the last small copy a lane looks on: the next needs no waking */
#define WAIT_MAX_MS 60000u

struct slot {
	unsigned char *host;
	size_t used;
	unsigned int refs;	/* parts in it, and the queue that fills it */
	bool pinned;
	uint64_t pinned_ctx;
	struct slot *next;	/* of all */
};

/* What one reply takes along. */
struct part {
	uint64_t number, offset, span;	/* of the client's copy; where in it, how much of it */
	uint64_t ctx;
	size_t size;		/* bytes that there are: span, or 0 after an error */
	struct slot *slot;
	unsigned char *at;
	CUevent event;		/* behind the copy; NULL: there is nothing to wait for */
	bool along;		/* a reply may take it along, which is soon enough */
	bool seen;		/* and none has since it was seen to be done */
	uint32_t rank;
	struct part *next;
};

/* Parts of one stream. */
struct queue {
	uint64_t stream, ctx;	/* serial number of it, in its context */
	struct part *first, **last;
	struct slot *slot;	/* that is being filled, or NULL */
	struct queue *next;
};

/* A lane of the client. */
struct waiter {
	struct part *part;
	pthread_cond_t woken;
	struct waiter *next;
};

struct ck_deliveries {
	pthread_mutex_t lock;
	pthread_condattr_t clock;
	pthread_cond_t room;	/* a slot may have come free */
	struct queue *queues;
	struct part *ready, **ready_last; /* with a rank, waiting for a lane */
	struct waiter *waiters;
	struct slot *slots;
	unsigned int slot_count;
	struct waiter *looker;	/* wakes up by itself; NULL: none does */
	uint64_t lingers;	/* until then it does so for the sake of small copies */
	unsigned int hurried;	/* parts in queues that no reply takes along */
	_Atomic unsigned int outstanding; /* parts in queues */
	_Atomic uint32_t rank;
};

int ck_deliveries_create(struct ck_deliveries **out)
{
	struct ck_deliveries *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&d->clock);
	pthread_condattr_setclock(&d->clock, CLOCK_MONOTONIC);
	pthread_cond_init(&d->room, &d->clock);
	d->ready_last = &d->ready;
	*out = d;
	return 0;
}

/* --- slots and parts. The lock is held. */

static void slot_unref(struct ck_deliveries *d, struct slot *slot)
{
	if (slot && --slot->refs == 0) {
		slot->used = 0;
		pthread_cond_signal(&d->room);
	}
}

static void part_free(struct ck_deliveries *d, struct part *p)
{
	if (p->event)
		ck_driver.cuEventDestroy_v2(p->event);
	slot_unref(d, p->slot);
	free(p);
}

static struct slot *slot_make(struct ck_deliveries *d)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->host = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slot->host == MAP_FAILED) {
		free(slot);
		return NULL;
	}
	slot->next = d->slots;
	d->slots = slot;
	d->slot_count++;
	return slot;
}

/* A slot that nobody uses, or NULL. */
static struct slot *slot_idle(struct ck_deliveries *d)
{
	struct slot *slot = d->slots;

	while (slot && slot->refs > 0)
		slot = slot->next;
	if (!slot && d->slot_count < SLOTS)
		slot = slot_make(d);
	return slot;
}

static void slot_pin(struct slot *slot, uint64_t ctx)
{
	CUresult err;

	if (slot->pinned || !ck_driver.cuMemHostRegister_v2)
		return;
	err = ck_driver.cuMemHostRegister_v2(slot->host, SLOT, CU_MEMHOSTREGISTER_PORTABLE);
	slot->pinned = !err || err == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	slot->pinned_ctx = ctx;
}

static struct queue *queue_of(struct ck_deliveries *d, uint64_t ctx, uint64_t stream)
{
	struct queue *q = d->queues;

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

/* --- what is done. The lock is held. */

static bool is_done(struct ck_request *r, struct part *p, uint64_t ctx)
{
	CUcontext context, popped;
	bool away;
	CUresult err;

	if (!p->event)
		return true;
	context = ctx == p->ctx ? NULL : ck_handles_get(r->session->handles, p->ctx,
							CK_KIND_CONTEXT);
	away = context && ck_driver.cuCtxPushCurrent_v2 && ck_driver.cuCtxPopCurrent_v2 &&
	       ck_driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
	err = ck_driver.cuEventQuery(p->event);
	if (away)
		ck_driver.cuCtxPopCurrent_v2(&popped);
	if (err == CUDA_ERROR_NOT_READY)
		return false;
	if (err)	/* of the stream, whose waits tell it */
		p->size = 0;
	return true;
}

/* The part is for the next lane that has nothing else to take along. */
static void make_ready(struct ck_deliveries *d, struct part *p)
{
	p->next = NULL;
	p->rank = atomic_load(&d->rank) + 1;
	*d->ready_last = p;
	d->ready_last = &p->next;
	atomic_store(&d->rank, p->rank);
}

/*
 * Give what is done of one stream a rank; true: there is more under way. What replies take along is
 * left to them for one look of a waiter's.
 */
static bool collect_queue(struct ck_deliveries *d, struct ck_request *r, struct queue *q,
			  bool by_waiter)
{
	while (q->first && is_done(r, q->first, r->ctx)) {
		struct part *p = q->first;

		if (by_waiter && p->along && !p->seen) {
			p->seen = true;
			break;
		}
		q->first = p->next;
		d->hurried -= !p->along;
		make_ready(d, p);
		atomic_fetch_sub(&d->outstanding, 1);
	}
	return q->first != NULL;
}

static void assign(struct ck_deliveries *d)
{
	for (struct waiter *w = d->waiters; w && d->ready; w = w->next) {
		if (w->part)
			continue;
		w->part = d->ready;
		d->ready = w->part->next;
		if (!d->ready)
			d->ready_last = &d->ready;
		pthread_cond_signal(&w->woken);
	}
}

static void collect(struct ck_deliveries *d, struct ck_request *r, bool by_waiter)
{
	struct queue **at = &d->queues;

	while (*at) {
		struct queue *q = *at;

		if (collect_queue(d, r, q, by_waiter)) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		slot_unref(d, q->slot);
		free(q);
	}
}

uint32_t ck_deliveries_settle(struct ck_session *session, uint64_t ctx)
{
	struct ck_deliveries *d = session->deliveries;
	struct ck_request r = { .session = session, .ctx = ctx };

	ck_status_settle(session, false);
	if (atomic_load(&d->outstanding) > 0) {
		pthread_mutex_lock(&d->lock);
		collect(d, &r, false);
		assign(d);
		pthread_mutex_unlock(&d->lock);
	}
	return atomic_load(&d->rank);
}

void ck_deliveries_tell(struct ck_session *session, uint64_t number, uint64_t what, bool by_reply)
{
	struct ck_deliveries *d = session->deliveries;
	struct ck_request r = { .session = session };
	struct part *p = calloc(1, sizeof(*p));

	if (!p)
		return;	/* the client asks again after a while */
	p->number = number | CK_DELIVERY_NEWS;
	p->offset = what;
	p->along = true;
	pthread_mutex_lock(&d->lock);
	collect(d, &r, false);
	make_ready(d, p);
	if (!by_reply)
		assign(d);
	pthread_mutex_unlock(&d->lock);
}

bool ck_deliveries_any(struct ck_deliveries *d)
{
	return atomic_load(&d->rank) != 0 || atomic_load(&d->outstanding) != 0;
}

void ck_deliveries_drop_context(struct ck_deliveries *d, uint64_t ctx)
{
	pthread_mutex_lock(&d->lock);
	for (struct queue *q = d->queues; q; q = q->next) {
		for (struct part *p = q->first; p; p = p->next) {
			if (p->ctx != ctx || !p->event)
				continue;
			if (ck_driver.cuEventSynchronize(p->event))
				p->size = 0;
			ck_driver.cuEventDestroy_v2(p->event);
			p->event = NULL;
		}
	}
	for (struct part *p = d->ready; p; p = p->next) {
		if (p->ctx == ctx && p->event) {
			ck_driver.cuEventDestroy_v2(p->event);
			p->event = NULL;
		}
	}
	for (struct slot *slot = d->slots; slot; slot = slot->next)
		slot->pinned &= slot->pinned_ctx != ctx;
	pthread_mutex_unlock(&d->lock);
}

void ck_deliveries_destroy(struct ck_deliveries *d)
{
	struct ck_request none = { 0 };

	if (!d)
		return;
	for (struct queue *q = d->queues; q; q = q->next) {
		for (struct part *p = q->first; p; p = p->next) {
			ck_driver.cuEventSynchronize(p->event);
			ck_driver.cuEventDestroy_v2(p->event);
			p->event = NULL;
		}
	}
	collect(d, &none, false);
	while (d->ready) {
		struct part *p = d->ready;

		d->ready = p->next;
		part_free(d, p);
	}
	while (d->slots) {
		struct slot *slot = d->slots;

		d->slots = slot->next;
		if (slot->pinned)
			ck_driver.cuMemHostUnregister(slot->host);
		munmap(slot->host, SLOT);
		free(slot);
	}
	pthread_cond_destroy(&d->room);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static struct timespec later(uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(ns / 1000000000u);
	t.tv_nsec = (long)(ns % 1000000000u);
	return t;
}

/* --- a copy begins: the command thread's */

/* Room for @p in a slot of its stream; waits for some while all slots are in use. */
static CUresult place(struct ck_deliveries *d, struct ck_request *r, struct part *p,
		      uint64_t stream)
{
	struct queue *q;
	struct slot *slot;

	for (;;) {
		struct timespec until = later(LOOK_MOST_NS);

		q = queue_of(d, p->ctx, stream);
		if (!q)
			return CUDA_ERROR_OUT_OF_MEMORY;
		slot = q->slot;
		if (slot && slot->used + p->size <= SLOT)
			break;
		slot = slot_idle(d);
		if (slot) {
			slot_unref(d, q->slot);
			q->slot = slot;
			slot->refs = 1;
			break;
		}
		if (d->slot_count == 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		collect(d, r, false);
		assign(d);
		pthread_cond_timedwait(&d->room, &d->lock, &until);
	}
	p->slot = slot;
	p->at = slot->host + slot->used;
	slot->used += CK_ALIGN_UP(p->size, PART_ALIGN);
	slot->refs++;
	return CUDA_SUCCESS;
}

/* In its stream: the copy into the slot, and an event behind it. */
static CUresult begin(struct part *p, CUdeviceptr src, CUstream stream)
{
	CUresult err;

	slot_pin(p->slot, p->ctx);
	err = ck_driver.cuMemcpyDtoHAsync_v2(p->at, src + p->offset, p->size, stream);
	if (!err)
		err = ck_driver.cuEventCreate(&p->event, EVENT_DISABLE_TIMING);
	if (!err)
		err = ck_driver.cuEventRecord(p->event, stream);
	if (err && ck_driver.cuStreamSynchronize)
		ck_driver.cuStreamSynchronize(stream); /* the slot must not be used again before */
	return err;
}

/* See to it that a waiter looks from time to time; one that does not look often, in a @hurry. */
static void call_looker(struct ck_deliveries *d, bool hurry)
{
	struct waiter *w = d->looker ? d->looker : d->waiters;

	if (w && (!d->looker || hurry))
		pthread_cond_signal(&w->woken);
}

/* The next part; after an error it stands for all that is left, without bytes. */
static CUresult deliver_part(struct ck_request *r, const ck_deliver_args *a, uint64_t offset,
			     CUstream stream, uint64_t serial, uint64_t *span)
{
	struct ck_deliveries *d = r->session->deliveries;
	struct part *p = calloc(1, sizeof(*p));
	struct queue *q;
	CUresult err;

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = (struct part){ .number = a->number, .offset = offset, .ctx = r->ctx };
	p->along = a->number & CK_DELIVERY_ALONG && a->size <= ALONG_MOST;
	p->size = p->span = ck_min(a->size - offset, (uint64_t)SLOT);
	pthread_mutex_lock(&d->lock);
	err = place(d, r, p, serial);
	pthread_mutex_unlock(&d->lock);
	if (!err)
		err = begin(p, a->src, stream);
	if (err) {
		p->size = 0;
		p->span = a->size - offset;
	}
	*span = p->span;
	pthread_mutex_lock(&d->lock);
	q = queue_of(d, p->ctx, serial);
	if (q) {
		*q->last = p;
		q->last = &p->next;
		atomic_fetch_add(&d->outstanding, 1);
		d->hurried += !p->along;
		d->lingers = ck_now_ns() + LINGER_NS;
		call_looker(d, !p->along && d->hurried == 1);
	} else {
		err = CUDA_ERROR_OUT_OF_MEMORY;
		part_free(d, p);
	}
	pthread_mutex_unlock(&d->lock);
	return err;
}

static bool supported(void)
{
	return ck_driver.cuMemcpyDtoHAsync_v2 && ck_driver.cuEventCreate &&
	       ck_driver.cuEventRecord && ck_driver.cuEventQuery && ck_driver.cuEventDestroy_v2 &&
	       ck_driver.cuEventSynchronize;
}

CUresult ck_serve_ck_deliver(struct ck_request *r, ck_deliver_args *a, void *res)
{
	CUstream stream;
	uint64_t serial, span;
	CUresult err = CUDA_SUCCESS;

	(void)res;
	if (!supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!ck_stream_serial(r, a->stream, &stream, &serial))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->size > SLOT && !ck_memory_covers(r->session->memory, a->src, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = 0; at < a->size && !err; at += span)
		err = deliver_part(r, a, at, stream, serial, &span);
	return err;
}

/* --- a lane of the client comes for one */

static void waiter_leave(struct ck_deliveries *d, struct waiter *w)
{
	struct waiter **at = &d->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	/* another one is to look from now on */
	if (atomic_load(&d->outstanding) > 0)
		call_looker(d, false);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Until there is a part for @w, or @ms have passed. */
static void wait_for_part(struct ck_deliveries *d, struct ck_request *r, struct waiter *w,
			  unsigned int ms)
{
	struct timespec end = later((uint64_t)ck_min(ms, WAIT_MAX_MS) * 1000000u);
	uint64_t look = LOOK_FIRST_NS;

	collect(d, r, true);
	assign(d);
	while (!w->part) {
		struct timespec until = later(d->hurried ? look : LOOK_MOST_NS);

		if (!is_before(&until, &end))
			break;
		if (d->looker ||
		    (atomic_load(&d->outstanding) == 0 && ck_now_ns() > d->lingers)) {
			pthread_cond_timedwait(&w->woken, &d->lock, &end);
			look = LOOK_FIRST_NS;
		} else {
			d->looker = w;
			pthread_cond_timedwait(&w->woken, &d->lock, &until);
			d->looker = NULL;
			look = d->hurried ? ck_min(look * 2, (uint64_t)LOOK_MOST_NS) :
					    LOOK_FIRST_NS;
		}
		if (!w->part) {
			collect(d, r, true);
			assign(d);
		}
	}
}

/* The head of the reply that carries @p, and what follows its bytes. */
static int encode_part(struct ck_session *s, const struct part *p, uint32_t xid,
		       unsigned char head[CK_ALONG_HEAD], struct iovec iov[3])
{
	static const unsigned char tail[8];
	ck_delivery_next_res res = {
		.head.output = ck_output_pending(s->output),
		.number = p->number,
		.offset = p->offset,
		.span = p->span,
		.rank = p->rank,
		.data_length = (u_int)p->size,
	};
	size_t end = CK_ALIGN_UP(p->size, (size_t)4) - p->size + 4;
	long n = ck_reply_encode(head, CK_ALONG_HEAD, xid, (xdrproc_t)xdr_ck_delivery_next_res, &res,
				 p->size + end);

	if (n < 0)
		return (int)n;
	iov[0] = (struct iovec){ .iov_base = head, .iov_len = (size_t)n };
	iov[1] = (struct iovec){ .iov_base = p->at, .iov_len = p->size };
	iov[2] = (struct iovec){ .iov_base = (void *)(uintptr_t)tail, .iov_len = end };
	return 0;
}

/* Take the first parts that may go along out of those that are ready; the rest is for waiters. */
static void pick(struct ck_deliveries *d, struct ck_along *along)
{
	struct part **at = &d->ready;

	while (*at && along->count < CK_ALONG_PARTS) {
		struct part *p = *at;

		if (!p->along) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		along->part[along->count++] = p;
	}
	while (*at)
		at = &(*at)->next;
	d->ready_last = at;
	assign(d);
}

uint32_t ck_deliveries_take(struct ck_session *s, uint64_t ctx, struct ck_along *along)
{
	struct ck_deliveries *d = s->deliveries;
	struct ck_request r = { .session = s, .ctx = ctx };
	uint32_t rank;

	along->count = 0;
	ck_status_settle(s, true);
	if (!ck_deliveries_any(d))
		return 0;
	pthread_mutex_lock(&d->lock);
	collect(d, &r, false);
	pick(d, along);
	rank = atomic_load(&d->rank);
	pthread_mutex_unlock(&d->lock);
	for (unsigned int i = 0; i < along->count; i++)
		encode_part(s, along->part[i], 0, along->head[i], &along->iov[3 * i]);
	return rank;
}

void ck_along_sent(struct ck_session *s, struct ck_along *along)
{
	struct ck_deliveries *d = s->deliveries;

	if (along->count == 0)
		return;
	pthread_mutex_lock(&d->lock);
	for (unsigned int i = 0; i < along->count; i++)
		part_free(d, along->part[i]);
	pthread_mutex_unlock(&d->lock);
	along->count = 0;
}

static int send_part(struct ck_request *r, const struct part *p)
{
	unsigned char head[CK_ALONG_HEAD];
	struct iovec iov[3];
	int ret = encode_part(r->session, p, r->xid, head, iov);

	return ret < 0 ? ret : ck_chan_writev(r->chan, iov, 3);
}

/* A reply without a number: there is nothing to take along for now. */
CUresult ck_serve_ck_delivery_next(struct ck_request *r, ck_delivery_next_args *a,
				   ck_delivery_next_res *res)
{
	struct ck_deliveries *d = r->session->deliveries;
	struct waiter w = { 0 };

	(void)res;
	pthread_cond_init(&w.woken, &d->clock);
	pthread_mutex_lock(&d->lock);
	w.next = d->waiters;
	d->waiters = &w;
	wait_for_part(d, r, &w, a->milliseconds);
	waiter_leave(d, &w);
	pthread_mutex_unlock(&d->lock);
	pthread_cond_destroy(&w.woken);
	if (!w.part)
		return CUDA_SUCCESS;
	r->replied = true;
	r->broken = send_part(r, w.part);
	pthread_mutex_lock(&d->lock);
	part_free(d, w.part);
	pthread_mutex_unlock(&d->lock);
	return CUDA_SUCCESS;
}
