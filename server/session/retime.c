/*
 * server/session/retime.c - see retime.h.
 */
#include "gen/handlers.h"
#include "server/session/retime.h"
#include "util/spin.h"
#include "util/until.h"

#define CK_PAUSE_NS 50000000ull /* a longer pause is the program's own */

static bool is_armed(const struct cks_retime *r)
{
	return atomic_load_explicit(&r->armed, memory_order_relaxed);
}

static void arm(struct cks_retime *r, bool armed)
{
	atomic_store_explicit(&r->armed, armed, memory_order_relaxed);
}

void cks_retime_command(struct cks_session *session, uint32_t proc, const void *args, CUresult err)
{
	struct cks_retime *r = &session->retime;
	const cuEventRecord_args *record = args;

	switch (proc) {
	case CK_PROC_cuEventRecord:
		r->event = record->hEvent;
		r->stream = record->hStream;
		r->recorded_ns = ck_now_ns();
		r->loading = false;
		arm(r, !err);
		break;
	case CK_PROC_image:
	case CK_PROC_module_load:
	case CK_PROC_function:
		if (is_armed(r) && !r->loading && ck_now_ns() - r->recorded_ns > CK_PAUSE_NS)
			arm(r, false);
		r->loading = true;
		break;
	default:
		if (unlikely(is_armed(r)))
			arm(r, false);
	}
}

void cks_retime_launch(struct cks_request *q, uint64_t id, CUstream stream)
{
	const struct cks_retime *r = &q->session->retime;
	CUevent event;

	if (likely(!is_armed(r)) || !r->loading || r->stream != id)
		return;
	if (ck_driver.cuEventRecord && cks_event_find(q, r->event, &event))
		ck_driver.cuEventRecord(event, stream); /* if this fails, the first record stands */
}
