/*
 * server/memory/lease_quiet.c - is the work over that may use freed memory? The client asks before
 * it allocates that memory again. A wait for all work would be wrong: work may wait for commands
 * that the program submits later, and they would be behind the wait.
 *
 * Whoever synchronises a context in which a stream is captured, or queries that stream or the
 * legacy one, may end the capture. The client sees to that for the program's own waits. Others, as
 * for a page that a thread accesses, have nothing to do with captures of other threads, which may
 * begin at any time. So they look at the streams that are not captured, under a lock without which
 * no stream joins a capture.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/until.h"
#include "util/util.h"

#define TIME_MOST ((uint64_t)1000000000) /* for which a client may have other commands wait */

#define LOOK_SPIN 100000u  /* ns after which looks have pauses between them */
#define LOOK_PART 32	   /* of the time that the wait has taken so far, but */
#define LOOK_MOST 1000000u /* ns at most */

/* A destroyed stream whose work was not over. */
struct cks_ended_stream {
	CUevent event;	  /* after that work */
	uint64_t context; /* which it ends with */
	struct cks_ended_stream *next;
};

/* --- streams */

/* Anything but work that runs, also a context that has failed or ended, is over. */
static bool work_is_over(CUresult state)
{
	return state != CUDA_ERROR_NOT_READY;
}

static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return ck_driver.cuStreamIsCapturing && !ck_driver.cuStreamIsCapturing(stream, &status) &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Call with the lock of captures held and the context current. During a capture, not even a
 * stream's flags can be asked for: the legacy stream is left out with any. */
static bool streams_are_over(struct cks_session *s, uint64_t id)
{
	struct cks_object object;
	uint64_t stream = 0;
	bool over = true, captured = false;

	while (over && cks_handles_next(s->handles, &stream, CK_KIND_STREAM, &object)) {
		if (object.ctx != id)
			continue;
		if (is_capturing(object.handle))
			captured = true;
		else
			over = work_is_over(ck_driver.cuStreamQuery(object.handle));
	}
	return over && (captured || work_is_over(ck_driver.cuStreamQuery(CU_STREAM_LEGACY)));
}

static bool context_is_over(struct cks_session *s, uint64_t id, CUcontext context)
{
	CUcontext popped;
	bool over;

	if (ck_driver.cuCtxPushCurrent_v2(context))
		return true; /* it has ended */
	over = streams_are_over(s, id);
	ck_driver.cuCtxPopCurrent_v2(&popped);
	return over;
}

/* Let some time pass before the next look of a wait that began at @began. */
static void look_again(uint64_t began)
{
	uint64_t waited = ck_now_ns() - began;
	struct timespec pause = {
		.tv_nsec = (long)ck_min(waited / LOOK_PART, (uint64_t)LOOK_MOST),
	};

	if (waited < LOOK_SPIN)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

/* --- destroyed streams */

/* An event behind the work of @stream; NULL: there is none. */
static CUevent record_end(CUstream stream)
{
	CUevent event;

	if (ck_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
		return NULL;
	if (!ck_driver.cuEventRecord(event, stream))
		return event;
	ck_driver.cuEventDestroy_v2(event);
	return NULL;
}

/* Is the work of all of them over? Finished work is forgotten. Call with the lock held. */
static bool ended_are_over(struct cks_leases *l)
{
	struct cks_ended_stream **at = &l->ended, *e;

	while ((e = *at) != NULL) {
		if (!work_is_over(ck_driver.cuEventQuery(e->event))) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		ck_driver.cuEventDestroy_v2(e->event);
		free(e);
	}
	return !l->ended && !l->unsure;
}

/* Note that @stream of context @context is busy. Call with the lock held. */
static void add_ended(struct cks_leases *l, CUstream stream, uint64_t context)
{
	struct cks_ended_stream *e = malloc(sizeof(*e));

	ended_are_over(l);
	if (e)
		*e = (struct cks_ended_stream){record_end(stream), context, l->ended};
	if (e && e->event) {
		l->ended = e;
		return;
	}
	l->unsure = true;
	free(e);
}

/* The lock also lets a thread finish that looks at the stream: no other one finds it again. */
void cks_lease_note_stream(struct cks_request *q, CUstream stream)
{
	struct cks_leases *l = q->session->leases;

	ck_lock(&l->lock);
	ck_lock(&q->session->captures);
	if (ck_driver.cuStreamQuery && ck_driver.cuEventQuery && !is_capturing(stream) &&
	    !work_is_over(ck_driver.cuStreamQuery(stream)))
		add_ended(l, stream, q->ctx);
	ck_unlock(&q->session->captures);
	ck_unlock(&l->lock);
}

CUresult cks_lease_order_ended(struct cks_leases *l, CUstream after)
{
	CUresult err;

	ck_lock(&l->lock);
	err = l->unsure ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	for (struct cks_ended_stream *e = l->ended; e && !err; e = e->next)
		err = ck_driver.cuStreamWaitEvent(after, e->event, 0);
	ck_unlock(&l->lock);
	return err;
}

void cks_lease_forget_ended(struct cks_leases *l, uint64_t context)
{
	struct cks_ended_stream **at = &l->ended, *e;

	ck_lock(&l->lock);
	while ((e = *at) != NULL) {
		if (context && e->context != context) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		if (!context)
			ck_driver.cuEventDestroy_v2(e->event);
		free(e);
	}
	ck_unlock(&l->lock);
}

/* --- all streams */

static bool contexts_are_over(struct cks_session *s)
{
	struct cks_object object;
	uint64_t id = 0;
	bool over = true;

	while (over && cks_handles_next(s->handles, &id, CK_KIND_CONTEXT, &object))
		over = context_is_over(s, id, object.handle);
	return over;
}

/* The locks keep contexts and streams from ending meanwhile, and streams from joining captures. */
static void begin_look(struct cks_session *s)
{
	ck_lock(&s->contexts);
	ck_lock(&s->leases->lock);
	ck_lock(&s->captures);
}

static void end_look(struct cks_session *s)
{
	ck_unlock(&s->captures);
	ck_unlock(&s->leases->lock);
	ck_unlock(&s->contexts);
}

static bool is_over(struct cks_request *q, const ck_lease_quiet_args *a)
{
	struct cks_session *s = q->session;
	CUstream stream;
	bool over;

	begin_look(s);
	if (!a->all && cks_stream_find(q, a->stream, &stream))
		over = is_capturing(stream) || work_is_over(ck_driver.cuStreamQuery(stream));
	else
		over = contexts_are_over(s) && ended_are_over(s->leases);
	end_look(s);
	return over;
}

CUresult ck_serve_lease_quiet(struct cks_request *q, ck_lease_quiet_args *a,
			      ck_lease_quiet_res *res)
{
	const uint64_t began = ck_now_ns(), end = began + ck_min((uint64_t)a->time, TIME_MOST);

	if (!ck_driver.cuStreamQuery || !ck_driver.cuCtxPushCurrent_v2 ||
	    !ck_driver.cuCtxPopCurrent_v2 || !ck_driver.cuEventQuery)
		return CUDA_ERROR_NOT_SUPPORTED;
	while (!(res->over = is_over(q, a)) && ck_now_ns() < end)
		look_again(began);
	return CUDA_SUCCESS;
}

/* Is the work over of the current context, with id @id, and of its streams that were destroyed? */
static bool current_is_over(struct cks_session *s, uint64_t id)
{
	const struct cks_ended_stream *e;
	bool over;

	begin_look(s);
	over = streams_are_over(s, id);
	if (!ended_are_over(s->leases)) {
		for (e = s->leases->ended; e && over; e = e->next)
			over = e->context != id;
	}
	end_look(s);
	return over;
}

CUresult cks_context_wait(struct cks_session *s, uint64_t id)
{
	const uint64_t began = ck_now_ns();

	if (!ck_driver.cuStreamQuery || !ck_driver.cuEventQuery)
		return ck_driver.cuCtxSynchronize ? ck_driver.cuCtxSynchronize()
						  : CUDA_ERROR_NOT_SUPPORTED;
	while (!current_is_over(s, id))
		look_again(began);
	return CUDA_SUCCESS; /* an error is the next call's too */
}
