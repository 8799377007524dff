/*
 * emu/objects/resource.c - parts of a device's multiprocessors.
 *
 * Multiprocessors are counted and split as on a GPU of compute capability 9.0; kernels run as fast
 * in a part as in the whole.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/objects/resource.h"

#define MAGIC 0x63736552u
#define PARTITION 8 /* multiprocessors: least part, and alignment */
#define PARTITION_MAX 32
#define PARTITION_ALONE 2 /* the same without co-scheduling */

/* The padding of a resource. */
struct origin {
	uint32_t magic;
	int32_t device;
	uint32_t split; /* which split made it; 0: none, it can be split */
};

static _Atomic uint32_t splits; /* their number, from 1 */

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

CUresult ck_emu_resource_get(CUdevResource *resource, CUdevResourceType type, int device,
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

	return ck_emu_resource_get(resource, type, device->ordinal, (unsigned int)count);
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
		result = ck_emu_resource_get(resource, type, view->under->device->ordinal,
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

/*
 * The multiprocessors of a group that @params describe, of @left ones; 0: there are not as many, or
 * their number does not suit.
 */
static unsigned int group_size(const CU_DEV_SM_RESOURCE_GROUP_PARAMS *params, unsigned int left)
{
	unsigned int unit = params->coscheduledSmCount ? params->coscheduledSmCount : PARTITION;

	if (unit % PARTITION_ALONE || unit > PARTITION_MAX ||
	    params->flags & ~(unsigned int)CU_DEV_SM_RESOURCE_GROUP_BACKFILL)
		return 0;
	if (params->smCount == 0)
		return left - left % unit;
	if (params->smCount > left || params->smCount < unit)
		return 0;
	if (params->smCount % unit && !(params->flags & CU_DEV_SM_RESOURCE_GROUP_BACKFILL))
		return 0;
	return params->smCount;
}

CUresult cuDevSmResourceSplit(CUdevResource *result, unsigned int nbGroups,
			      const CUdevResource *input, CUdevResource *remainder,
			      unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *groupParams)
{
	struct origin origin;
	unsigned int left;
	CUresult err = ck_emu_enter_bare();

	if (err != CUDA_SUCCESS)
		return err;
	if (!input || !groupParams || nbGroups == 0 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!origin_of(input, &origin))
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (origin.split)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	left = input->sm.smCount;
	for (unsigned int i = 0; i < nbGroups; i++) {
		unsigned int count = group_size(&groupParams[i], left);

		/* without results, a program may find that there is none */
		if (count == 0 && (result || groupParams[i].smCount))
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		left -= count;
	}
	left = input->sm.smCount;
	origin.split = ++splits;
	for (unsigned int i = 0; i < nbGroups; i++) {
		groupParams[i].smCount = group_size(&groupParams[i], left);
		left -= groupParams[i].smCount;
		if (result)
			result[i] = make_sm_resource(origin.device, origin.split,
						     groupParams[i].smCount);
	}
	if (remainder)
		*remainder = make_sm_resource(origin.device, origin.split, left);
	return CUDA_SUCCESS;
}

static void object_free(struct ck_emu_object *object)
{
	free(object);
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources_in,
				   unsigned int nbResources)
{
	struct ck_emu_resources *desc;
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
