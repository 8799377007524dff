/*
 * client/stream_info.c - questions about streams that the client answers, and events.
 */
#include "client/capture.h"
#include "client/client.h"

/* Legacy stream: flags 0, priority 0, ids 1 and 2 as the driver's. */
static CUresult stream_of(CUstream handle, struct ck_stream **s)
{
	CUresult err = ck_session_check();

	return err ? err : ck_stream_from(handle, s);
}

CK_EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	err = s ? ck_capture_wait(s) : CUDA_SUCCESS;	/* odd, but the driver refuses this, too */
	if (err)
		return err;
	*flags = s ? s->flags : CU_STREAM_DEFAULT;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = s ? s->priority : 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!streamId)
		return CUDA_ERROR_INVALID_VALUE;
	*streamId = s ? s->object.id : 1;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);
	struct ck_context *ctx = err ? NULL : s ? s->object.context : ck_context_current();

	if (err)
		return err;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	*pctx = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

/* NULL for a stream that belongs to no green context, which most do not. */
CK_EXPORT CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!phCtx)
		return CUDA_ERROR_INVALID_VALUE;
	*phCtx = s ? s->green : NULL;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUresult err = cuStreamGetCtx(hStream, pCtx);

	if (!err && pGreenCtx)
		err = cuStreamGetGreenCtx(hStream, pGreenCtx);
	return err;
}

CK_EXPORT CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	CUcontext ctx;
	CUresult err = device ? cuStreamGetCtx(hStream, &ctx) : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		*device = ((struct ck_context *)ctx)->device;
	return err;
}

CUresult ck_event_id(CUevent handle, uint64_t *id)
{
	struct ck_event *e = ck_object_check(handle, CK_OBJECT_EVENT);

	*id = e ? e->object.id : 0;
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CK_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned int known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
	struct ck_context *ctx;
	struct ck_event *e;
	CUresult err = ck_context_usable(&ctx);

	if (err)
		return err;
	if (!phEvent || (Flags & ~(known | CU_EVENT_INTERPROCESS)) ||
	    (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	e = ck_object_new(CK_OBJECT_EVENT, ctx);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = Flags;
	err = ck_wire_cuEventCreate(ctx->object.id, e->object.id, Flags);
	if (err)
		ck_object_free(e);
	else
		*phEvent = (CUevent)e;
	return err;
}

CK_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct ck_event *e = ck_object_check(hEvent, CK_OBJECT_EVENT);
	uint64_t ctx;
	CUresult err = ck_enter_any(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_wire_cuEventDestroy_v2(ctx, e->object.id);
	ck_object_free(e);
	return err;
}

CK_EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct ck_event *e = ck_object_check(hEvent, CK_OBJECT_EVENT);
	struct ck_stream *s;
	uint64_t ctx, id;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_stream_id(hStream, &id);
	if (!err)
		err = ck_stream_from(hStream, &s);
	if (!err && flags && !ck_capturing(s))
		err = CUDA_ERROR_ILLEGAL_STATE;
	if (err)
		return err;
	if (!flags)
		ck_capture_record(e, s);
	err = flags ? ck_wire_cuEventRecordWithFlags(ctx, e->object.id, id, flags) :
		      ck_wire_cuEventRecord(ctx, e->object.id, id);
	/* another process, told of it in whatever way, may wait for this record at once */
	return err || !(e->flags & CU_EVENT_INTERPROCESS) ? err : ck_wire_ck_wait(ctx);
}

CK_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, 0);
}

/* An event of a capture takes the stream into it. */
CK_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct ck_event *e = ck_object_check(hEvent, CK_OBJECT_EVENT);
	struct ck_stream *s;
	uint64_t ctx, id;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	if (Flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_stream_id(hStream, &id);
	if (!err)
		err = ck_stream_from(hStream, &s);
	if (!err && !Flags)
		err = ck_capture_join(s, e);
	else if (!err && !ck_capturing(s))
		err = CUDA_ERROR_ILLEGAL_STATE;
	return err ? err : ck_wire_cuStreamWaitEvent(ctx, id, e->object.id, Flags);
}

/* Ask the server by @ask for an event; among what a capture of another thread may forbid. */
static CUresult ask(CUevent handle, CUresult (*ask)(uint64_t ctx, uint64_t event))
{
	struct ck_event *e = ck_object_check(handle, CK_OBJECT_EVENT);
	uint64_t ctx;
	CUresult err = ck_enter_any(&ctx);

	if (!err && !e)
		err = CUDA_ERROR_INVALID_HANDLE;
	if (!err)
		err = ck_capture_ask(e);
	return err ? err : ask(ctx, e->object.id);
}

CK_EXPORT CUresult cuEventQuery(CUevent hEvent)
{
	return ask(hEvent, ck_wire_cuEventQuery);
}

CK_EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
	return ask(hEvent, ck_wire_cuEventSynchronize);
}
