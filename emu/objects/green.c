/*
 * emu/objects/green.c - green contexts, which have a part of a device's multiprocessors.
 *
 * Memory and streams of a green context are the primary context's, and its converted form is
 * another handle of that (struct ck_emu_view).
 */
#include <stdlib.h>

#include "emu/objects/resource.h"

struct green {
	struct ck_emu_object base;
	struct ck_emu_context *primary; /* retained */
	struct ck_emu_view view;	/* ours: it goes with us */
	int device;
	unsigned int count;
	uint64_t id;
};

static void object_free(struct ck_emu_object *object)
{
	free(object);
}

/* --- green contexts */

static CUresult acquire_green_context(CUgreenCtx handle, struct green **green)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*green = ck_emu_object_get(handle, CK_EMU_GREEN);
	return *green ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void green_retract(struct ck_emu_object *object)
{
	ck_emu_object_retract(&((struct green *)object)->view.base);
}

static CUresult create_green_context(CUgreenCtx *out, const struct ck_emu_resources *desc)
{
	static _Atomic uint64_t ids = (uint64_t)1 << 32; /* not those of contexts */
	struct green *green = calloc(1, sizeof(*green));
	CUresult result;

	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&green->base, CK_EMU_GREEN, NULL, object_free);
	green->base.retract = green_retract;
	green->device = desc->device;
	green->count = desc->count;
	green->id = ++ids;
	result = cuDevicePrimaryCtxRetain((CUcontext *)&green->primary, desc->device);
	if (result != CUDA_SUCCESS)
		goto put_green;
	ck_emu_object_init(&green->view.base, CK_EMU_VIEW, NULL, NULL);
	green->view.base.owner = &green->base;
	green->view.under = green->primary;
	green->view.sm_count = green->count;
	result = ck_emu_object_publish(&green->view.base);
	if (result != CUDA_SUCCESS)
		goto release;
	result = ck_emu_object_publish(&green->base);
	if (result == CUDA_SUCCESS) {
		*out = (CUgreenCtx)green;
		return CUDA_SUCCESS;
	}
	ck_emu_object_retract(&green->view.base);
release:
	cuDevicePrimaryCtxRelease(desc->device);
put_green:
	ck_emu_object_put(&green->base);
	return result;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			  unsigned int flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_resources *resources;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!phCtx || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	resources = ck_emu_object_get(desc, CK_EMU_RESOURCES);
	if (!resources)
		return CUDA_ERROR_INVALID_VALUE;
	result = resources->device == dev ? create_green_context(phCtx, resources)
					  : CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&resources->base);
	return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct green *green;
	CUresult result = acquire_green_context(hCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_object_retract(&green->base)) {
		result = cuDevicePrimaryCtxRelease(green->device);
		ck_emu_object_put(&green->base);
	} else {
		result = CUDA_ERROR_INVALID_CONTEXT;
	}
	ck_emu_object_put(&green->base);
	return result;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct green *green;
	CUresult result = acquire_green_context(hCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	if (pContext)
		*pContext = (CUcontext)&green->view;
	ck_emu_object_put(&green->base);
	return pContext ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct green *green;
	CUresult result = acquire_green_context(hCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_resource_get(resource, type, green->device, green->count);
	ck_emu_object_put(&green->base);
	return result;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct green *green;
	CUresult result = acquire_green_context(greenCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	if (greenCtxId)
		*greenCtxId = green->id;
	ck_emu_object_put(&green->base);
	return greenCtxId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult event_call(CUgreenCtx hCtx, CUevent hEvent, CUresult (*call)(CUcontext, CUevent))
{
	struct green *green;
	CUresult result = acquire_green_context(hCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	result = call((CUcontext)green->primary, hEvent);
	ck_emu_object_put(&green->base);
	return result;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	return event_call(hCtx, hEvent, cuCtxRecordEvent);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	return event_call(hCtx, hEvent, cuCtxWaitEvent);
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
				int priority)
{
	CUcontext popped;
	struct green *green;
	CUresult result = acquire_green_context(greenCtx, &green);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags != CU_STREAM_NON_BLOCKING)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = cuCtxPushCurrent_v2((CUcontext)green->primary);
	if (result == CUDA_SUCCESS) {
		result = cuStreamCreateWithPriority(phStream, flags, priority);
		cuCtxPopCurrent_v2(&popped);
	}
	if (result == CUDA_SUCCESS)
		((struct ck_emu_stream *)*phStream)->green = greenCtx;
	ck_emu_object_put(&green->base);
	return result;
}

/* NULL for a stream of no green context, and for one whose green context has gone. */
CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct green *green;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS && !phCtx)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	green = ck_emu_object_get(stream->green, CK_EMU_GREEN);
	*phCtx = (CUgreenCtx)green;
	if (green)
		ck_emu_object_put(&green->base);
	ck_emu_object_put(&stream->base);
	return CUDA_SUCCESS;
}

/* --- affinity of execution: the way to have part of a device with MPS */

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pi || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pExecAffinity || (unsigned int)type >= CU_EXEC_AFFINITY_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
