/*
 * emu/objects/stream.c - the calls on streams; engine.c does the work.
 */
#include <string.h>

#include "emu/core/emu.h"
#include "libcuda/libcuda.h"
#include "emu/core/hooks.h"

/* The stream of a call that has a current context, with a reference. */
static CUresult acquire_stream(CUstream handle, struct ck_emu_stream **stream)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	return result == CUDA_SUCCESS ? ck_emu_stream_get(handle, context, stream) : result;
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phStream || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	/* a priority outside the range is moved to its end, as CUDA documents */
	priority = ck_min(ck_max(priority, CK_EMU_PRIORITY_GREATEST), CK_EMU_PRIORITY_LEAST);
	stream = ck_emu_stream_create(context, flags, priority);
	if (!stream)
		return ck_emu_context_refusal(context);
	result = ck_emu_object_publish(&stream->base);
	if (result != CUDA_SUCCESS) {
		ck_emu_stream_close(stream);
		ck_emu_object_put(&stream->base);
		return result;
	}
	*phStream = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return cuStreamCreateWithPriority(phStream, Flags, CK_EMU_PRIORITY_LEAST);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_stream *stream;

	if (result != CUDA_SUCCESS)
		return result;
	/* the default streams cannot be destroyed: they are not in the table */
	stream = ck_emu_object_get(hStream, CK_EMU_STREAM);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (ck_emu_object_retract(&stream->base)) {
		ck_emu_hooks->stream_end(stream);
		ck_emu_stream_close(stream);
		ck_emu_object_put(&stream->base);
		result = (CUresult)atomic_load(&stream->base.context->fault);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	ck_emu_object_put(&stream->base);
	return result;
}

/* Whether the host may ask how far a stream is. */
static CUresult check_query_allowed(struct ck_emu_stream *stream)
{
	CUresult result = ck_emu_hooks->capture_check(stream);

	return result == CUDA_SUCCESS ? ck_emu_hooks->capture_unsafe() : result;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	result = check_query_allowed(stream);
	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_wait(stream, false);
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamQuery(CUstream hStream)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);
	bool idle;

	if (result != CUDA_SUCCESS)
		return result;
	idle = ck_emu_stream_idle(stream);
	result = check_query_allowed(stream);
	if (result == CUDA_SUCCESS)
		result = ck_emu_context_state(stream->base.context);
	ck_emu_object_put(&stream->base);
	return result == CUDA_SUCCESS && !idle ? CUDA_ERROR_NOT_READY : result;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (ck_emu_capturing(stream))
		result = ck_emu_hooks->capture_check(stream); /* the driver refuses this, too */
	if (result == CUDA_SUCCESS)
		*flags = stream->flags;
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (priority)
		*priority = atomic_load(&stream->priority);
	ck_emu_object_put(&stream->base);
	return priority ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (pctx)
		*pctx = (CUcontext)stream->base.context;
	ck_emu_object_put(&stream->base);
	return pctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUresult result = cuStreamGetCtx(hStream, pCtx);

	return result == CUDA_SUCCESS && pGreenCtx ? cuStreamGetGreenCtx(hStream, pGreenCtx)
						   : result;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (streamId)
		*streamId = stream->id;
	ck_emu_object_put(&stream->base);
	return streamId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (device)
		*device = stream->base.context->device->ordinal;
	ck_emu_object_put(&stream->base);
	return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Only the priority is kept; the others have no effect here and read as 0. */
CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		if (value) {
			memset(value, 0, sizeof(*value));
			if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
				value->priority = atomic_load(&stream->priority);
			break;
		}
		/* fall through */
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	struct ck_emu_stream *stream;
	CUresult result = acquire_stream(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	switch (attr) {
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		if (value && value->priority >= CK_EMU_PRIORITY_GREATEST &&
		    value->priority <= CK_EMU_PRIORITY_LEAST)
			atomic_store(&stream->priority, value->priority);
		else
			result = CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		result = value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; /* hints */
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct ck_emu_stream *to, *from;
	CUresult result = acquire_stream(dst, &to);

	if (result != CUDA_SUCCESS)
		return result;
	result = acquire_stream(src, &from);
	if (result == CUDA_SUCCESS) {
		atomic_store(&to->priority, atomic_load(&from->priority));
		ck_emu_object_put(&from->base);
	}
	ck_emu_object_put(&to->base);
	return result;
}

CUresult ck_libcuda_takes_batch(CUstream handle)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS && ck_emu_stream_is_legacy(handle))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(handle, context, &stream);
	if (result == CUDA_SUCCESS)
		ck_emu_object_put(&stream->base);
	return result;
}
