/*
 * emu/objects/context_event.c - events of a whole context: recorded behind, and waited for in front
 * of, the work of all its streams.
 */
#include "emu/core/emu.h"

static CUresult acquire_context(CUcontext handle, struct ck_emu_context **context)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*context = ck_emu_object_get(handle, CK_EMU_CONTEXT);
	if (!*context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = ck_emu_context_state(*context);
	if (result != CUDA_SUCCESS)
		ck_emu_object_put(&(*context)->base);
	return result;
}

/* A stream for this one record: it goes when that is done. */
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = acquire_context(hCtx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	stream = ck_emu_stream_create(context, CU_STREAM_NON_BLOCKING | CK_EMU_STREAM_AFTER_ALL, 0);
	if (stream) {
		result = ck_emu_event_record(hEvent, stream);
		ck_emu_stream_close(stream);
		ck_emu_object_put(&stream->base);
	} else {
		result = ck_emu_context_refusal(context);
	}
	ck_emu_object_put(&context->base);
	return result;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *gate;
	CUresult result = acquire_context(hCtx, &context);

	if (result != CUDA_SUCCESS)
		return result;
	gate = ck_emu_context_gate(context);
	if (gate) {
		result = ck_emu_event_wait(hEvent, gate);
		ck_emu_object_put(&gate->base);
	} else {
		result = ck_emu_context_refusal(context);
	}
	ck_emu_object_put(&context->base);
	return result;
}
