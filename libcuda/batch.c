/*
 * libcuda/batch.c - many copies in one call: their checks, and batches of boxes; one copy with the
 * attributes that a batch has.
 */
#include <stdint.h>

#include "gen/api.h"
#include "libcuda/batch.h"
#include "libcuda/libcuda.h"
#include "util/util.h"

static bool order_ok(CUmemcpySrcAccessOrder order)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

bool ck_batch_attributes_ok(const CUmemcpyAttributes *attrs, const size_t *first, size_t count,
			    size_t copies)
{
	if (!attrs || !first || count == 0 || count > copies || first[0] != 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!order_ok(attrs[i].srcAccessOrder) || first[i] >= copies ||
		    (i > 0 && first[i] <= first[i - 1]))
			return false;
	}
	return true;
}

/* A box as a copy whose elements are bytes. */
static CUresult box_of(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *c)
{
	const CUmemcpy3DOperand *src = &op->src, *dst = &op->dst;

	if (!order_ok(op->srcAccessOrder) || !op->extent.width || !op->extent.height ||
	    !op->extent.depth)
		return CUDA_ERROR_INVALID_VALUE;
	if (src->type == CU_MEMCPY_OPERAND_TYPE_ARRAY || dst->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (src->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
	    dst->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return CUDA_ERROR_INVALID_VALUE;
	*c = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src->op.ptr.ptr,
		.srcPitch = src->op.ptr.rowLength,
		.srcHeight = src->op.ptr.layerHeight,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst->op.ptr.ptr,
		.dstPitch = dst->op.ptr.rowLength,
		.dstHeight = dst->op.ptr.layerHeight,
		.WidthInBytes = op->extent.width,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
					size_t *failIdx, unsigned long long flags, CUstream hStream)
{
	size_t fail = SIZE_MAX;
	CUdevice device;
	CUresult err = cuCtxGetDevice(&device); /* is there a context? */

	if (!err)
		err = ck_libcuda_takes_batch(hStream);
	if (!err && (numOps == 0 || !opList || flags))
		err = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numOps && !err; i++) {
		CUDA_MEMCPY3D c;

		err = box_of(&opList[i], &c);
		if (!err)
			err = cuMemcpy3DAsync_v2(&c, hStream);
		if (err)
			fail = i;
	}
	if (err && failIdx)
		*failIdx = fail;
	return err;
}

CK_EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
					   unsigned long long flags, CUstream hStream)
{
	return cuMemcpy3DBatchAsync(numOps, opList, NULL, flags, hStream);
}

CK_EXPORT CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
					       CUmemcpyAttributes *attr, CUstream hStream)
{
	if (!attr || !order_ok(attr->srcAccessOrder))
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemcpyAsync(dst, src, size, hStream);
}

CK_EXPORT CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op,
						 unsigned long long flags, CUstream hStream)
{
	CUDA_MEMCPY3D c;
	CUresult err = op && !flags ? box_of(op, &c) : CUDA_ERROR_INVALID_VALUE;

	return err ? err : cuMemcpy3DAsync_v2(&c, hStream);
}
