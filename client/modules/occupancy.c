/*
 * client/modules/occupancy.c - the block size with the highest occupancy, found by trying each.
 */
#include "client/link/client.h"

struct best {
	int block, blocks_per_sm, threads;
};

static CUresult try_block(struct best *best, CUfunction func, int block, size_t shared,
			  unsigned int flags)
{
	int blocks;
	CUresult err = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, func, block,
									    shared, flags);

	if (!err && blocks * block > best->threads)
		*best = (struct best){block, blocks, blocks * block};
	return err;
}

CK_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
	int *minGridSize, int *blockSize, CUfunction func,
	CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
	unsigned int flags)
{
	struct ckc_context *ctx;
	struct best best = {0};
	int limit, warp, full;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	err = cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func);
	if (err)
		return err;
	if (blockSizeLimit > 0 && blockSizeLimit < limit)
		limit = blockSizeLimit;
	warp = ckc_gpu_attribute(ctx->device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	full = ckc_gpu_attribute(ctx->device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	if (warp <= 0)
		warp = 32;
	/* downwards from the limit itself, even if it is no multiple of a warp */
	for (int block = limit; block > 0 && !err && best.threads < full;
	     block = (block - 1) / warp * warp) {
		size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(block)
							   : dynamicSMemSize;

		err = try_block(&best, func, block, shared, flags);
	}
	if (err)
		return err;
	*blockSize = best.block;
	*minGridSize = best.blocks_per_sm *
		       ckc_gpu_attribute(ctx->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize,
						    CUfunction func,
						    CUoccupancyB2DSize blockSizeToDynamicSMemSize,
						    size_t dynamicSMemSize, int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
							 blockSizeToDynamicSMemSize,
							 dynamicSMemSize, blockSizeLimit, 0);
}
