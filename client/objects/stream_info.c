/*
 * client/objects/stream_info.c - queries about streams that the client answers itself.
 */
#include "client/objects/capture.h"
#include "client/link/client.h"

/* Legacy stream: flags 0, priority 0, ids 1 and 2 as the driver's. */
static CUresult stream_of(CUstream handle, struct ckc_stream **s)
{
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_stream_from(handle, s);
	/* the default stream is that of the current context */
	return err || *s || ckc_context_current() ? err : CUDA_ERROR_INVALID_CONTEXT;
}

CK_EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct ckc_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	err = s ? ckc_capture_wait(s) : CUDA_SUCCESS; /* odd, but as in the driver */
	if (err)
		return err;
	*flags = s ? s->flags : CU_STREAM_DEFAULT;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct ckc_stream *s;
	CUresult err = stream_of(hStream, &s);

	if (err)
		return err;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = s ? s->priority : 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
					const CUstreamAttrValue *value)
{
	struct ckc_stream *s;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err && !value)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ckc_stream_from(hStream, &s);
	if (!err)
		err = ck_wire_cuStreamSetAttribute(ctx, s ? s->object.id : 0, attr, value);
	if (!err && s && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		s->priority = ckc_stream_priority(value->priority);
	return err;
}

CK_EXPORT CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct ckc_stream *to, *from;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_stream_from(dst, &to);
	if (!err)
		err = ckc_stream_from(src, &from);
	if (!err)
		err = ck_wire_cuStreamCopyAttributes(ctx, to ? to->object.id : 0,
						     from ? from->object.id : 0);
	if (!err && to)
		to->priority = from ? from->priority : 0;
	return err;
}

CK_EXPORT CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct ckc_stream *s;
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
	struct ckc_stream *s;
	CUresult err = stream_of(hStream, &s);
	struct ckc_context *ctx = err ? NULL : ckc_stream_home(s);

	if (err)
		return err;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	*pctx = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

/* NULL for a stream of no green context, the usual case. */
CK_EXPORT CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct ckc_stream *s;
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
		*device = ((struct ckc_context *)ctx)->device;
	return err;
}
