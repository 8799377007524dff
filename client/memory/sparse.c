/*
 * client/memory/sparse.c - memory for arrays made without it: sparse ones, mapped tile by tile, and
 * those with deferred mapping.
 *
 * The mapping is in stream order. The driver checks the tiles, and the call waits for its answer;
 * handles, devices and structures are checked here.
 */
#include <stdlib.h>
#include <string.h>

#include "client/memory/array.h"
#include "client/link/client.h"
#include "client/memory/share.h"

#define COLLECT 256u /* operations in one message */

/* Id of an array made without memory. A level belongs to its mipmapped array, which is to be mapped
 * instead. */
static CUresult array_id(CUarray handle, uint64_t *id)
{
	const struct ckc_inmate *a = ckc_object_check(handle, CK_OBJECT_ARRAY);
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUresult err = ckc_array_describe(handle, &desc, id);

	if (err)
		return err;
	return a->parent || !(desc.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

static CUresult resource_id(const CUarrayMapInfo *m, uint64_t *id)
{
	switch (m->resourceType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return array_id(m->resource.array, id);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return ckc_mipmap_id(m->resource.mipmap, id);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A map operation uses a tile pool on the same device; an unmap operation names no memory. */
static CUresult memory_id(const CUarrayMapInfo *m, CUdevice device, uint64_t *id)
{
	const struct ckc_physical *p;

	*id = 0;
	if (m->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
		return m->memHandle.memHandle ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (m->memOperationType != CU_MEM_OPERATION_TYPE_MAP ||
	    m->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	p = ckc_object_check((const void *)(uintptr_t)m->memHandle.memHandle, CK_OBJECT_PHYSICAL);
	if (!p || p->prop.location.id != device ||
	    !(p->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL))
		return CUDA_ERROR_INVALID_VALUE;
	*id = p->object.id;
	return CUDA_SUCCESS;
}

/* Encode @m: ids for handles, and the server's device number. */
static CUresult pack_map_info(const CUarrayMapInfo *m, CUdevice device, CUarrayMapInfo *out)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);
	uint64_t array = 0, memory = 0;
	CUresult err;

	if (!gpu || device >= 32 || gpu->server_ordinal >= 32 || m->deviceBitMask != 1u << device ||
	    m->flags || m->reserved[0] || m->reserved[1] ||
	    (unsigned)m->subresourceType > CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		return CUDA_ERROR_INVALID_VALUE;
	err = resource_id(m, &array);
	if (!err)
		err = memory_id(m, device, &memory);
	if (err)
		return err;
	*out = *m;
	memcpy(&out->resource, &array, sizeof(array));
	out->memHandle.memHandle = memory;
	out->deviceBitMask = 1u << gpu->server_ordinal;
	return CUDA_SUCCESS;
}

static bool has_such_arrays(CUdevice device)
{
	return ckc_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED) ||
	       ckc_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
}

CK_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count,
				      CUstream hStream)
{
	CUarrayMapInfo one, *packed;
	struct ckc_context *ctx;
	uint64_t stream;
	CUdevice device;
	CUresult err = ckc_stream_uncaptured(hStream, &ctx, &stream, &device);

	if (!err && !has_such_arrays(device))
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (err)
		return err;
	if (!mapInfoList || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && !err; i++) /* check all before sending one */
		err = pack_map_info(&mapInfoList[i], device, &one);
	if (err)
		return err;
	packed = malloc(ck_min(count, COLLECT) * sizeof(*packed)); /* more than a small stack has */
	if (!packed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0, n = 0; i < count && !err; i++) {
		err = pack_map_info(&mapInfoList[i], device, &packed[n++]);
		if (!err && (n == COLLECT || i + 1 == count)) {
			err = ck_wire_map_arrays(ctx->object.id, stream, packed,
						 n * sizeof(packed[0]));
			ckc_command_called();
			n = 0;
		}
	}
	free(packed);
	return err;
}
