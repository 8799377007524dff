/*
 * server/memory/memory.c - device memory from the driver: allocated, noted in the session's
 * table, freed; the handlers for that.
 */
#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/share.h"
#include "server/session/driver.h"
#include "server/session/session.h"

CUresult cks_memory_alloc(struct cks_memory *m, uint64_t ctx, size_t size, CUdeviceptr *out)
{
	CUdeviceptr address = 0;
	CUresult err;

	if (!ck_driver.cuMemAlloc_v2 || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemAlloc_v2(&address, size);
	if (!err)
		err = cks_memory_note(m, ctx, address, size);
	if (!err)
		*out = address;
	return err;
}

/* Allocate from a pool (NULL: the device's current one), in stream order. */
static CUresult alloc_async(struct cks_memory *m, size_t size, CUmemoryPool pool, CUstream stream,
			    CUdeviceptr *out)
{
	CUdeviceptr address = 0;
	CUresult err;

	if (!ck_driver.cuMemAllocAsync || !ck_driver.cuMemAllocFromPoolAsync ||
	    !ck_driver.cuMemFreeAsync || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = pool ? ck_driver.cuMemAllocFromPoolAsync(&address, size, pool, stream)
		   : ck_driver.cuMemAllocAsync(&address, size, stream);
	if (!err && cks_capture_graph(stream))
		cks_memory_graph(m, address, size);
	else if (!err)
		err = cks_memory_note(m, 0, address, size);
	if (!err)
		*out = address;
	return err;
}

CUresult cks_memory_free(struct cks_memory *m, CUdeviceptr address)
{
	if (address == 0)
		return CUDA_SUCCESS;
	return cks_memory_take(m, address) ? ck_driver.cuMemFree_v2(address)
					   : CUDA_ERROR_INVALID_VALUE;
}

CUresult ck_serve_cuMemAlloc_v2(struct cks_request *q, cuMemAlloc_v2_args *a,
				cuMemAlloc_v2_res *res)
{
	CUdeviceptr address = 0;
	CUresult err;

	cks_lease_await_thaw(q);
	err = cks_memory_alloc(q->session->memory, q->ctx, a->bytesize, &address);
	res->dptr = address;
	return err;
}

CUresult ck_serve_cuMemAllocPitch_v2(struct cks_request *q, cuMemAllocPitch_v2_args *a,
				     cuMemAllocPitch_v2_res *res)
{
	CUdeviceptr address = 0;
	size_t pitch = 0;
	CUresult err;

	if (!ck_driver.cuMemAllocPitch_v2 || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	cks_lease_await_thaw(q);
	err = ck_driver.cuMemAllocPitch_v2(&address, &pitch, a->WidthInBytes, a->Height,
					   a->ElementSizeBytes);
	if (!err)
		err = cks_memory_note(q->session->memory, q->ctx, address, pitch * a->Height);
	if (err)
		return err;
	res->dptr = address;
	res->pPitch = pitch;
	return CUDA_SUCCESS;
}

CUresult ck_serve_cuMemFree_v2(struct cks_request *q, cuMemFree_v2_args *a, void *res)
{
	(void)res;
	cks_share_freed(a->dptr);
	return cks_memory_free(q->session->memory, a->dptr);
}

CUresult ck_serve_cuMemAllocAsync(struct cks_request *q, cuMemAllocAsync_args *a,
				  cuMemAllocAsync_res *res)
{
	CUdeviceptr address = 0;
	CUstream stream;
	CUresult err = CUDA_ERROR_INVALID_HANDLE;

	cks_lease_await_thaw(q);
	if (cks_stream_find(q, a->hStream, &stream))
		err = alloc_async(q->session->memory, a->bytesize, NULL, stream, &address);
	res->dptr = address;
	return err;
}

CUresult ck_serve_cuMemAllocFromPoolAsync(struct cks_request *q, cuMemAllocFromPoolAsync_args *a,
					  cuMemAllocFromPoolAsync_res *res)
{
	CUdeviceptr address = 0;
	CUmemoryPool pool;
	CUstream stream;
	CUresult err = CUDA_ERROR_INVALID_HANDLE;

	cks_lease_await_thaw(q);
	if (cks_stream_find(q, a->hStream, &stream) && cks_pool_find(q, a->pool, &pool))
		err = alloc_async(q->session->memory, a->bytesize, pool, stream, &address);
	res->dptr = address;
	return err;
}

CUresult ck_serve_cuMemFreeAsync(struct cks_request *q, cuMemFreeAsync_args *a, void *res)
{
	CUstream stream;

	(void)res;
	if (!cks_stream_find(q, a->hStream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ck_driver.cuMemFreeAsync)
		return CUDA_ERROR_NOT_SUPPORTED;
	cks_share_freed(a->dptr);
	return cks_memory_take(q->session->memory, a->dptr)
		       ? ck_driver.cuMemFreeAsync(a->dptr, stream)
		       : CUDA_ERROR_INVALID_VALUE;
}
