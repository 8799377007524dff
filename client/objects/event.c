/*
 * client/objects/event.c - events: named here, made and recorded by one-way messages. An event
 * known to be done, from a wait or from the server's report, is not queried again. Over a network,
 * the server watches events from their record if the program has queried others.
 *
 * Threads may record an event while others query it. A record raises the event's version twice,
 * before and after its message. An answer is kept only if it belongs to the current version.
 */
#include "client/objects/capture.h"
#include "client/objects/event_multi_server.h"
#include "client/objects/event_times.h"
#include "client/objects/state.h"
#include "client/link/client.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "client/wire/status.h"
#include "rpc/status.h"
#include "util/until.h"

#define RECORDS_BITS 32 /* low bits of a version; the rest identifies the event */

static _Atomic uint64_t events; /* per process: versions are never reused */

CUresult ckc_event_id(CUevent handle, uint64_t *id)
{
	struct ckc_event *e = ckc_object_check(handle, CK_OBJECT_EVENT);

	*id = e ? e->object.id : 0;
	if (e) {
		e->elsewhere = true;
		ckc_times_forget(e);
	}
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CK_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned int known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
	struct ckc_context *ctx;
	struct ckc_event *e;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!phEvent || (Flags & ~(known | CU_EVENT_INTERPROCESS)) ||
	    (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	e = ckc_object_new(CK_OBJECT_EVENT, ctx);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = Flags;
	e->elsewhere = Flags & CU_EVENT_INTERPROCESS;
	e->version = (atomic_fetch_add(&events, 1) + 1) << RECORDS_BITS;
	err = ck_wire_cuEventCreate(ctx->object.id, e->object.id, Flags);
	if (err)
		ckc_object_free(e);
	else
		*phEvent = (CUevent)e;
	return err;
}

CK_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct ckc_event *e = ckc_object_check(hEvent, CK_OBJECT_EVENT);
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	ckc_times_forget(e);
	err = ck_wire_cuEventDestroy_v2(ctx, e->object.id);
	ckc_object_free(e);
	return err;
}

/* After its record: have the server watch the event, so that the first query need not. @version: of
 * the record. */
static CUresult watch_event(uint64_t ctx, struct ckc_event *e, uint64_t version)
{
	struct ckc_client *c = e->object.context->client;
	uint64_t number = e->elsewhere ? 0 : ckc_status_follow(c, e->object.id);
	CUresult err;

	if (likely(number == 0))
		return CUDA_SUCCESS;
	err = ck_wire_event_watch(ctx, e->object.id, number);
	if (!err)
		ckc_status_watched(c, &e->watch, version, number);
	return err;
}

static CUresult record_event(uint64_t ctx, struct ckc_event *e, struct ckc_stream *s,
			     unsigned int flags)
{
	uint64_t id = s ? s->object.id : 0, version = atomic_fetch_add(&e->version, 1) + 2;
	uint64_t before = ckc_command_last();
	bool captured = flags || ckc_capturing(s);
	CUresult err;

	if (captured)
		ckc_times_forget(e);
	if (flags) {
		e->elsewhere = true; /* each launch of the captured graph records it */
		err = ck_wire_cuEventRecordWithFlags(ctx, e->object.id, id, flags);
	} else {
		ckc_capture_record(e, s);
		err = ck_wire_cuEventRecord(ctx, e->object.id, id);
	}
	e->stream = id;
	e->before = before;
	e->at = ckc_command_last();
	if (!err && !captured)
		ckc_times_record(e, version);
	if (!err && !captured)
		err = watch_event(ctx, e, version);
	atomic_fetch_add(&e->version, 1);
	return err;
}

CK_EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct ckc_event *e = ckc_object_check(hEvent, CK_OBJECT_EVENT);
	struct ckc_stream *s;
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_stream_work(hStream, &s, &id);
	if (!err && !ckc_stream_takes(s, e->object.context))
		err = CUDA_ERROR_INVALID_HANDLE;
	if (!err && flags && !ckc_capturing(s))
		err = CUDA_ERROR_ILLEGAL_STATE;
	if (!err)
		err = record_event(ctx, e, s, flags);
	/* another process may wait for this record as soon as the call returns */
	return err || !(e->flags & CU_EVENT_INTERPROCESS) ? err : ck_wire_wait(ctx);
}

CK_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, 0);
}

/* Waiting for an event of a capture makes the stream join the capture. */
CK_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct ckc_event *e = ckc_object_check(hEvent, CK_OBJECT_EVENT);
	struct ckc_stream *s;
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (Flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_stream_work(hStream, &s, &id);
	if (!err && unlikely(ckc_many)) {
		struct ckc_context *own = ckc_stream_home(s);

		if (own->client != e->object.context->client)
			return ckc_event_wait_between(own, s, e);
	}
	if (!err && !Flags)
		err = ckc_capture_join(s, e);
	else if (!err && !ckc_capturing(s))
		err = CUDA_ERROR_ILLEGAL_STATE;
	return err ? err : ck_wire_cuStreamWaitEvent(ctx, id, e->object.id, Flags);
}

/* --- the state of the last record */

/* Can the client know the state of @version of @e? */
static bool is_ours(const struct ckc_event *e, uint64_t version)
{
	return version % 2 == 0 && !e->elsewhere && !e->object.context->fault;
}

/* Where the last record is; false: its stream does not tell. */
static bool find_record(const struct ckc_event *e, uint64_t *stream, uint64_t *at)
{
	*at = e->at; /* before the rest: a record of another thread changes it last */
	*stream = e->stream;
	return e->recorded && !e->capture && !ckc_stream_follows(e->object.context, *stream, *at);
}

/* Has a wait of the program covered the record? */
static bool was_waited(const struct ckc_event *e, uint64_t version)
{
	uint64_t stream, at;

	return e->waited == version ||
	       (find_record(e, &stream, &at) && ckc_stream_waited(e->object.context, stream, at));
}

/* Is all work up to the record known to be done, as after a wait for a later event of its
 * stream? */
static bool is_passed(const struct ckc_event *e)
{
	uint64_t stream, at;

	return find_record(e, &stream, &at) && ckc_stream_passed(e->object.context, stream, at);
}

/* Check that the event may be queried now; a capture of another thread may forbid that. */
static CUresult enter_query(CUevent handle, uint64_t *ctx, struct ckc_event **e)
{
	CUresult err = ckc_enter_any(ctx);

	*e = ckc_object_check(handle, CK_OBJECT_EVENT);
	if (!err && !*e)
		err = CUDA_ERROR_INVALID_HANDLE;
	return err ? err : ckc_capture_ask(*e);
}

/* Query the server, and have it watch the event. */
static CUresult query_server(uint64_t ctx, struct ckc_event *e, uint64_t version)
{
	bool ours = is_ours(e, version);
	uint64_t number = ours ? ckc_status_number(e->object.context->client, e->object.id) : 0;
	unsigned int state = CK_ASKED_BUSY;
	uint64_t begin = ck_now_ns();
	CUresult err = ck_wire_event_ask(ctx, e->object.id, number, &state);

	if (err)
		return err;
	ckc_status_asked(e->object.context->client, ck_now_ns() - begin);
	if (ours && state == CK_ASKED_DONE)
		e->done = version;
	if (ours && state == CK_ASKED_WATCHED)
		ckc_status_watched(e->object.context->client, &e->watch, version, number);
	return state == CK_ASKED_DONE ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult query_event(CUevent hEvent)
{
	struct ckc_event *e;
	uint64_t ctx, version;
	CUresult err = enter_query(hEvent, &ctx, &e);

	if (err)
		return err;
	version = e->version;
	if (!is_ours(e, version))
		return query_server(ctx, e, version);
	if (e->done == version || was_waited(e, version) || is_passed(e))
		return CUDA_SUCCESS;
	ckc_status_queried(e->object.context->client);
	switch (ckc_status_look(e->object.context->client, &e->watch, version)) {
	case CK_STATUS_DONE:
		e->done = version;
		return CUDA_SUCCESS;
	case CK_STATUS_PENDING:
		return CUDA_ERROR_NOT_READY;
	default:
		return query_server(ctx, e, version);
	}
}

CK_EXPORT CUresult cuEventQuery(CUevent hEvent)
{
	return ckc_work_done(query_event(hEvent));
}

/*
 * Has the server reported the record, with all that a wait could bring? Copies and changes of
 * pinned memory arrive before the report, and after an error there is none. Only printf waits for a
 * wait.
 */
static bool is_reported(const struct ckc_event *e, uint64_t version)
{
	struct ckc_client *c = e->object.context->client;

	return !c->prints && ckc_status_look(c, &e->watch, version) == CK_STATUS_DONE;
}

CK_EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
	struct ckc_event *e;
	uint64_t ctx, version, stream, before;
	CUresult err = enter_query(hEvent, &ctx, &e);
	bool ours, reported;

	if (err)
		return err;
	version = e->version;
	ours = is_ours(e, version);
	if (ours && was_waited(e, version))
		return ckc_work_done(CUDA_SUCCESS);
	reported = ours && is_reported(e, version);
	if (ours && e->at != ckc_command_last()) /* there is time for a report before the wait */
		ckc_status_queried(e->object.context->client);
	stream = e->stream;
	before = e->before;
	ours = ours && e->version == version;
	err = reported ? CUDA_SUCCESS : ckc_times_wait_event(ctx, e);
	if (!err && ours) {
		e->waited = version;
		if (e->recorded && !e->capture)
			ckc_stream_pass(e->object.context, stream, before);
	}
	return ckc_work_done(err);
}

CK_EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct ckc_event *start = ckc_object_check(hStart, CK_OBJECT_EVENT);
	struct ckc_event *end = ckc_object_check(hEnd, CK_OBJECT_EVENT);
	struct ckc_pair pair = {.start = start, .end = end};
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !end || start->object.context->client != end->object.context->client)
		return CUDA_ERROR_INVALID_HANDLE;
	pair.start_version = start->version;
	pair.end_version = end->version;
	if (is_ours(start, pair.start_version) && is_ours(end, pair.end_version))
		return ckc_times_between(ctx, &pair, pMilliseconds);
	return ck_wire_cuEventElapsedTime_v2(ctx, pMilliseconds, start->object.id, end->object.id);
}
