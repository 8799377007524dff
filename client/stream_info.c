/*
 * client/stream_info.c - questions about streams that the client answers, and events' life.
 */
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

CK_EXPORT CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	CUcontext ctx;
	CUresult err = device ? cuStreamGetCtx(hStream, &ctx) : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		*device = ((struct ck_context *)ctx)->device;
	return err;
}

/* Capture is not supported yet, so nothing is ever being captured: a true answer. */
CK_EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct ck_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!captureStatus)
		return CUDA_ERROR_INVALID_VALUE;
	*captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetCaptureInfo(CUstream hStream,
					  CUstreamCaptureStatus *captureStatus_out,
					  cuuint64_t *id_out)
{
	(void)id_out;	/* written only while capturing, here and in the next two */
	return cuStreamIsCapturing(hStream, captureStatus_out);
}

CK_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
					     CUstreamCaptureStatus *captureStatus_out,
					     cuuint64_t *id_out, CUgraph *graph_out,
					     const CUgraphNode **dependencies_out,
					     size_t *numDependencies_out)
{
	(void)id_out;
	(void)graph_out;
	(void)dependencies_out;
	(void)numDependencies_out;
	return cuStreamIsCapturing(hStream, captureStatus_out);
}

CK_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
					     CUstreamCaptureStatus *captureStatus_out,
					     cuuint64_t *id_out, CUgraph *graph_out,
					     const CUgraphNode **dependencies_out,
					     const void **edgeData_out, size_t *numDependencies_out)
{
	(void)id_out;
	(void)graph_out;
	(void)dependencies_out;
	(void)edgeData_out;
	(void)numDependencies_out;
	return cuStreamIsCapturing(hStream, captureStatus_out);
}

CK_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct ck_thread *t = ck_thread();
	CUstreamCaptureMode was = t->capture_mode;

	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	t->capture_mode = *mode;
	*mode = was;
	return ck_session_check();
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
	if (!phEvent || (Flags & ~(known | CU_EVENT_INTERPROCESS)))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
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
