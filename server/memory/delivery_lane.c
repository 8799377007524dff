/*
 * server/memory/delivery_lane.c - send a part to the client: in a lane that waits for it, or ahead
 * of another call's reply.
 */
#include <pthread.h>

#include "rpc/proc.h"
#include "server/memory/delivery_part.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

#define LOOK_FIRST_NS 20000 /* first poll interval; doubled up to CK_LOOK_MOST_NS */

static void waiter_leave(struct cks_deliveries *d, struct cks_waiter *w)
{
	struct cks_waiter **at = &d->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	/* another one must poll from now on */
	if (atomic_load(&d->outstanding) > 0)
		cks_deliveries_call_looker(d, false);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Wait until there is a part for @w, for at most @ms. */
static void wait_for_part(struct cks_deliveries *d, struct cks_request *r, struct cks_waiter *w,
			  unsigned int ms)
{
	struct timespec end = ck_until(ck_min(ms, r->session->wait_max_ms) * CK_NS_PER_MS);
	uint64_t look = LOOK_FIRST_NS;

	cks_deliveries_collect(d, true);
	cks_deliveries_assign(d);
	while (!w->part) {
		struct timespec until = ck_until(d->hurried ? look : CK_LOOK_MOST_NS);

		if (!is_before(&until, &end))
			break;
		if (d->looker || (atomic_load(&d->outstanding) == 0 && ck_now_ns() > d->lingers)) {
			ck_cond_timedwait(&w->woken, &d->lock, &end);
			look = LOOK_FIRST_NS;
		} else {
			d->looker = w;
			ck_cond_timedwait(&w->woken, &d->lock, &until);
			d->looker = NULL;
			look = d->hurried ? ck_min(look * 2, (uint64_t)CK_LOOK_MOST_NS)
					  : LOOK_FIRST_NS;
		}
		if (!w->part) {
			cks_deliveries_collect(d, true);
			cks_deliveries_assign(d);
		}
	}
}

/* Encode the head of the reply that carries @p, and the bytes after the part. */
static int encode_part(struct cks_session *s, const struct cks_part *p, uint32_t xid,
		       unsigned char head[CK_ALONG_HEAD], struct iovec iov[3])
{
	static const unsigned char tail[8];
	ck_delivery_next_res res = {
		.head.output = cks_output_pending(s->output),
		.number = p->number,
		.offset = p->offset,
		.span = p->span,
		.rank = p->rank,
		.data_length = (u_int)p->size,
	};
	size_t end = CK_ALIGN_UP(p->size, (size_t)4) - p->size + 4;
	long n = ck_reply_encode(head, CK_ALONG_HEAD, xid, (xdrproc_t)xdr_ck_delivery_next_res,
				 &res, p->size + end);

	if (n < 0)
		return (int)n;
	iov[0] = (struct iovec){.iov_base = head, .iov_len = (size_t)n};
	iov[1] = (struct iovec){.iov_base = p->at, .iov_len = p->size};
	iov[2] = (struct iovec){.iov_base = (void *)(uintptr_t)tail, .iov_len = end};
	return 0;
}

/* Take the first ready parts that a reply may carry; the others are for waiters. */
static void pick_parts(struct cks_deliveries *d, struct cks_along *along)
{
	struct cks_part **at = &d->ready;

	while (*at && along->count < CK_ALONG_PARTS) {
		struct cks_part *p = *at;

		if (!p->along) {
			at = &p->next;
			continue;
		}
		along->part[along->count++] = cks_deliveries_unlink(d, at);
	}
	while (*at)
		at = &(*at)->next;
	d->ready_last = at;
	cks_deliveries_assign(d);
}

uint32_t cks_deliveries_take(struct cks_session *s, bool watches, struct cks_along *along)
{
	struct cks_deliveries *d = s->deliveries;
	uint32_t rank;

	along->count = 0;
	if (watches)
		cks_status_report(s, true);
	cks_shadows_compare(s, true);
	if (!cks_deliveries_any(d))
		return 0;
	ck_lock(&d->lock);
	cks_deliveries_collect(d, false);
	pick_parts(d, along);
	rank = atomic_load(&d->rank);
	ck_unlock(&d->lock);
	for (unsigned int i = 0; i < along->count; i++)
		encode_part(s, along->part[i], 0, along->head[i], &along->iov[3 * i]);
	return rank;
}

void cks_along_sent(struct cks_session *s, struct cks_along *along)
{
	struct cks_deliveries *d = s->deliveries;

	if (along->count == 0)
		return;
	ck_lock(&d->lock);
	for (unsigned int i = 0; i < along->count; i++)
		cks_part_free(d, along->part[i]);
	ck_unlock(&d->lock);
	along->count = 0;
}

static int send_part(struct cks_request *r, const struct cks_part *p)
{
	unsigned char head[CK_ALONG_HEAD];
	struct iovec iov[3];
	uint64_t until;
	int ret = encode_part(r->session, p, r->xid, head, iov);

	if (ret == 0) {
		cks_session_count_reply(r->session, iov, 3);
		ret = ck_chan_lend_until(r->chan, iov, 3, 1, &until);
	}
	ck_chan_reclaim(r->chan); /* the part's slot is for other copies from now on */
	return ret;
}

/* A reply without a number means that nothing is ready yet. */
CUresult ck_serve_delivery_next(struct cks_request *r, ck_delivery_next_args *a,
				ck_delivery_next_res *res)
{
	struct cks_deliveries *d = r->session->deliveries;
	struct cks_waiter w = {0};

	(void)res;
	ck_lock(&d->lock);
	w.next = d->waiters;
	d->waiters = &w;
	wait_for_part(d, r, &w, a->milliseconds);
	waiter_leave(d, &w);
	ck_unlock(&d->lock);
	ck_cond_destroy(&w.woken);
	if (!w.part)
		return CUDA_SUCCESS;
	r->replied = true;
	r->broken = send_part(r, w.part);
	ck_lock(&d->lock);
	cks_part_free(d, w.part);
	ck_unlock(&d->lock);
	return CUDA_SUCCESS;
}
