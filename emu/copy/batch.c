/*
 * emu/copy/batch.c - many copies in one call: here they are queued one by one, which is one of the
 * orders that a batch allows.
 */
#include "emu/core/emu.h"
#include "libcuda/batch.h"
#include "libcuda/libcuda.h"

/* @fail: the index of the copy that is refused, SIZE_MAX when it is none of them. */
static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			   const CUmemcpyAttributes *attrs, const size_t *first, size_t attr_count,
			   size_t *fail, CUstream stream)
{
	CUresult result = ck_libcuda_takes_batch(stream);

	*fail = SIZE_MAX;
	if (result != CUDA_SUCCESS)
		return result;
	if (!dsts || !srcs || !sizes || count == 0 ||
	    !ck_batch_attributes_ok(attrs, first, attr_count, count))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = sizes[i] ? cuMemcpyAsync(dsts[i], srcs[i], sizes[i], stream)
				  : CUDA_ERROR_INVALID_VALUE;
		if (result != CUDA_SUCCESS)
			*fail = i;
	}
	return result;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
			    size_t *failIdx, CUstream hStream)
{
	size_t fail;
	CUresult result =
		copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &fail, hStream);

	if (result != CUDA_SUCCESS && failIdx)
		*failIdx = fail;
	return result;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
			       CUstream hStream)
{
	size_t fail;

	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &fail, hStream);
}
