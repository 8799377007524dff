/*
 * client/memory.c - device memory: getting it, giving it back, and where a block begins.
 *
 * Getting memory waits for the server, for its address and because a program must learn at once
 * that there is no more. Giving it back does not wait.
 */
#include "client/client.h"

/* Note memory that the server has given; where that fails the memory goes back. */
static CUresult note(struct ck_context *context, CUdeviceptr dptr, size_t size)
{
	CUresult err = ck_allocation_add(dptr, size, CK_MEMORY_DEVICE, context, 0, false);

	if (err)
		ck_wire_cuMemFree_v2(context->object.id, dptr);
	return err;
}

CK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);
	CUdeviceptr memory = 0;

	if (err)
		return err;
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_cuMemAlloc_v2(context->object.id, &memory, bytesize);
	if (!err)
		err = note(context, memory, bytesize);
	if (!err)
		*dptr = memory;
	return err;
}

CK_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				      size_t Height, unsigned int ElementSizeBytes)
{
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);
	CUdeviceptr memory = 0;
	size_t pitch = 0, size;

	if (err)
		return err;
	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_cuMemAllocPitch_v2(context->object.id, &memory, &pitch, WidthInBytes, Height,
					 ElementSizeBytes);
	if (err)
		return err;
	if (ck_mul_overflow(pitch, Height, &size))
		return CUDA_ERROR_UNKNOWN;
	err = note(context, memory, size);
	if (err)
		return err;
	*dptr = memory;
	*pPitch = pitch;
	return CUDA_SUCCESS;
}

/* The message names the memory's own context, which need not be the current one. */
CK_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err || dptr == 0)
		return err;
	if (!ck_allocation_find(dptr, &a) || a.variable ||
	    !ck_allocation_remove(dptr, CK_MEMORY_DEVICE, &a))
		return CUDA_ERROR_INVALID_VALUE;
	return ck_wire_cuMemFree_v2(a.context ? a.context->object.id : ctx, dptr);
}

/* Pinned memory of the host has an address range as well. */
CK_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!ck_allocation_find(dptr, &a))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = a.base;
	if (psize)
		*psize = a.size;
	return CUDA_SUCCESS;
}
