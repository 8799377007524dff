/*
 * emu/objects/green.c - parts of a device's multiprocessors, and green contexts that have one.
 *
 * Multiprocessors are counted and split as on a GPU of compute capability 9.0; kernels run as fast
 * in a part as in the whole. Memory and streams of a green context are the primary context's, and
 * its converted form is another handle of that (struct ck_emu_view).
 */
#include <stdlib.h>
#include <string.h>

#include "emu/core/emu.h"

#define MAGIC 0x63736552u
#define PARTITION 8	  /* multiprocessors: least part, and alignment */
#define PARTITION_ALONE 2 /* the same without co-scheduling */

/* The padding of a resource. */
struct origin {
	uint32_t magic;
	int32_t device;
	uint32_t split; /* which split made it; 0: none, it can be split */
};

struct resources {
	struct ck_emu_object base;
	int device;
	unsigned int count;
};

struct green {
	struct ck_emu_object base;
	struct ck_emu_context *primary; /* retained */
	struct ck_emu_view view;	/* ours: it goes with us */
	int device;
	unsigned int count;
	uint64_t id;
};

static CUdevResource make_sm_resource(int device, uint32_t split, unsigned int count)
{
	struct origin origin = {MAGIC, device, split};
	CUdevResource r;

	memset(&r, 0, sizeof(r));
	if (count == 0)
		return r; /* of type INVALID */
	r.type = CU_DEV_RESOURCE_TYPE_SM;
	memcpy(r._internal_padding, &origin, sizeof(origin));
	r.sm = (CUdevSmResource){count, PARTITION, PARTITION};
	return r;
}

/* The origin of @resource; false: not of ours. */
static bool origin_of(const CUdevResource *resource, struct origin *origin)
{
	memcpy(origin, resource->_internal_padding, sizeof(*origin));
	return resource->type == CU_DEV_RESOURCE_TYPE_SM && origin->magic == MAGIC;
}

static CUresult get_sm_resource(CUdevResource *resource, CUdevResourceType type, int device,
				unsigned int count)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = make_sm_resource(device, 0, count);
	return CUDA_SUCCESS;
}

static CUresult of_device(const struct ck_emu_device *device, CUdevResource *resource,
			  CUdevResourceType type)
{
	int count = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);

	return get_sm_resource(resource, type, device->ordinal, (unsigned int)count);
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_device *d = ck_emu_device_at(device);

	if (result != CUDA_SUCCESS)
		return result;
	return d ? of_device(d, resource, type) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_context *context;
	struct ck_emu_view *view;

	if (result != CUDA_SUCCESS)
		return result;
	view = ck_emu_object_get(hCtx, CK_EMU_VIEW);
	if (view) {
		result = get_sm_resource(resource, type, view->under->device->ordinal,
					 view->sm_count);
		ck_emu_object_put(&view->base);
		return result;
	}
	context = ck_emu_object_get(hCtx, CK_EMU_CONTEXT);
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = of_device(context->device, resource, type);
	ck_emu_object_put(&context->base);
	return result;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
				     const CUdevResource *input, CUdevResource *remaining,
				     unsigned int useFlags, unsigned int minCount)
{
	static _Atomic uint32_t splits;
	const unsigned int known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
				   CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	unsigned int unit, group, groups;
	struct origin origin;
	CUresult err = ck_emu_enter_bare();

	if (err != CUDA_SUCCESS)
		return err;
	if (!nbGroups || !input || useFlags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if (!origin_of(input, &origin))
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (minCount > input->sm.smCount || origin.split)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	unit = useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? PARTITION_ALONE
									  : PARTITION;
	group = CK_ALIGN_UP(ck_max(minCount, 1u), unit);
	groups = input->sm.smCount / group;
	if (result)
		groups = ck_min(groups, *nbGroups);
	*nbGroups = groups;
	origin.split = ++splits;
	for (unsigned int i = 0; result && i < groups; i++)
		result[i] = make_sm_resource(origin.device, origin.split, group);
	if (remaining)
		*remaining = make_sm_resource(origin.device, origin.split,
					      input->sm.smCount - groups * group);
	return CUDA_SUCCESS;
}

static void object_free(struct ck_emu_object *object)
{
	free(object);
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources_in,
				   unsigned int nbResources)
{
	struct resources *desc;
	struct origin first, origin;
	unsigned int count = 0;
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!phDesc || !resources_in || nbResources == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < nbResources; i++) {
		if (!origin_of(&resources_in[i], &origin))
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		if (i == 0)
			first = origin;
		if (memcmp(&first, &origin, sizeof(first)) != 0 || (i > 0 && !origin.split))
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		count += resources_in[i].sm.smCount;
	}
	desc = calloc(1, sizeof(*desc));
	if (!desc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&desc->base, CK_EMU_RESOURCES, NULL, object_free);
	desc->device = first.device;
	desc->count = count;
	result = ck_emu_object_publish(&desc->base);
	if (result == CUDA_SUCCESS)
		*phDesc = (CUdevResourceDesc)desc;
	else
		ck_emu_object_put(&desc->base);
	return result;
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

static CUresult create_green_context(CUgreenCtx *out, const struct resources *desc)
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
	struct resources *resources;

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
	result = get_sm_resource(resource, type, green->device, green->count);
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
