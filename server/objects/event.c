/*
 * server/objects/event.c - a record of an event, which may be repeated before the first launch of a
 * kernel (server/session/event_retime.h).
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
