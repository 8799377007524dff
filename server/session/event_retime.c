/*
 * server/session/event_retime.c - see event_retime.h.
 */
#include "gen/handlers.h"
#include "server/session/event_retime.h"
#include "util/until.h"

#define CK_PAUSE_NS 50000000ull /* a longer pause is the program's own */

static void arm_retime(struct cks_event_retime *r, bool armed)
{
	atomic_store_explicit(&r->armed, armed, memory_order_relaxed);
}

void cks_event_retime_record(struct cks_event_retime *r, uint64_t event, uint64_t stream)
{
	r->event = event;
	r->stream = stream;
	r->recorded_ns = ck_now_ns();
	r->recording = true;
	r->loading = false;
	arm_retime(r, true);
}

void cks_event_retime_follow(struct cks_event_retime *r, const struct ck_proc *proc)
{
	if (r->recording) { /* the record itself */
		r->recording = false;
		return;
	}
	if (!proc->loads || (!r->loading && ck_now_ns() - r->recorded_ns > CK_PAUSE_NS))
		arm_retime(r, false);
	r->loading = true;
}

void cks_event_retime_launch(struct cks_request *q, uint64_t id, CUstream stream)
{
	const struct cks_event_retime *r = &q->session->retime;
	CUevent event;

	if (likely(!cks_event_retime_armed(r)) || !r->loading || r->stream != id)
		return;
	if (ck_driver.cuEventRecord && cks_event_find(q, r->event, &event))
		ck_driver.cuEventRecord(event, stream); /* if this fails, the first record stands */
}
