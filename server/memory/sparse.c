/*
 * server/memory/sparse.c - memory for arrays made without it.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/session.h"

/* Replace ids in @m by handles. */
static CUresult resolve_ids(struct cks_request *q, CUarrayMapInfo *m)
{
	uint64_t id;
	bool known;

	memcpy(&id, &m->resource, sizeof(id));
	switch (m->resourceType) {
	case CU_RESOURCE_TYPE_ARRAY:
		known = cks_array_find(q, id, &m->resource.array);
		break;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		known = cks_mipmap_find(q, id, &m->resource.mipmap);
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!known)
		return CUDA_ERROR_INVALID_HANDLE;
	if (m->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	id = m->memHandle.memHandle;
	switch (m->memOperationType) {
	case CU_MEM_OPERATION_TYPE_MAP:
		if (!cks_physical_find(q, id, &m->memHandle.memHandle))
			return CUDA_ERROR_INVALID_HANDLE;
		cks_memory_tie(q->session->memory, id, m->memHandle.memHandle);
		return CUDA_SUCCESS;
	case CU_MEM_OPERATION_TYPE_UNMAP:
		return id ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* All or none: check all before calling the driver. */
CUresult ck_serve_map_arrays(struct cks_request *q, ck_map_arrays_args *a, ck_map_arrays_res *res)
{
	size_t bytes = a->maps.maps_len, count = bytes / sizeof(CUarrayMapInfo);
	CUresult err = CUDA_SUCCESS;
	CUarrayMapInfo *maps;
	CUstream stream;

	(void)res;
	if (!ck_driver.cuMemMapArrayAsync)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (count == 0 || bytes % sizeof(*maps))
		return CUDA_ERROR_INVALID_VALUE;
	maps = malloc(bytes); /* a copy, because data in a message is unaligned */
	if (!maps)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(maps, a->maps.maps_val, bytes);
	for (size_t i = 0; i < count && !err; i++)
		err = resolve_ids(q, &maps[i]);
	if (!err)
		err = ck_driver.cuMemMapArrayAsync(maps, (unsigned int)count, stream);
	free(maps);
	return err;
}
