/*
 * server/objects/event.c - a record of an event, which may be repeated before the first launch of a
 * kernel (server/session/event_retime.h); a wait for one, by which a stream may join a capture.
 */
#include "gen/handlers.h"
#include "server/memory/status.h"
#include "server/session/event_retime.h"
#include "server/session/session.h"

CUresult ck_serve_cuEventRecord(struct cks_request *q, cuEventRecord_args *a, void *res)
{
	CUstream stream;
	CUevent event;
	CUresult err;

	(void)res;
	if (!ck_driver.cuEventRecord)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->hEvent, &event) || !cks_stream_find(q, a->hStream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(q->session->captured)) /* a look at it would end the capture */
		cks_status_drop(q->session, a->hEvent);
	err = ck_driver.cuEventRecord(event, stream);
	if (!err)
		cks_event_retime_record(&q->session->retime, a->hEvent, a->hStream);
	return err;
}

/* By that, the stream may join a capture; whoever looks at streams then has done so. */
CUresult ck_serve_cuStreamWaitEvent(struct cks_request *q, cuStreamWaitEvent_args *a, void *res)
{
	struct cks_session *s = q->session;
	const bool joins = s->captured;
	CUstream stream;
	CUevent event;
	CUresult err;

	(void)res;
	if (!ck_driver.cuStreamWaitEvent)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->hStream, &stream) || !cks_event_find(q, a->hEvent, &event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(joins))
		ck_lock(&s->captures);
	err = ck_driver.cuStreamWaitEvent(stream, event, a->Flags);
	if (unlikely(joins))
		ck_unlock(&s->captures);
	return err;
}
