/*
 * emu/modules/occupancy.c - how many blocks one multiprocessor holds, by the rules of compute
 * capability 9.0 (CUDA C++ Programming Guide, "Compute Capabilities").
 */
#include "emu/core/emu.h"
#include "emu/modules/function.h"

#define WARP 32u
#define WARPS_MAX 64u /* of one multiprocessor */
#define BLOCKS_MAX 32u
#define REGISTERS 65536u
#define PARTS 4u /* of a multiprocessor: each has a quarter of its registers, for its own warps */
#define REGISTER_UNIT 256u /* a warp's registers are handed out in these */
#define SHARED_UNIT 128u   /* bytes; a block's shared memory likewise */
#define THREADS_MAX 1024u

/*
 * Blocks of @warps whose registers one multiprocessor has. A block must fit when its warps are
 * spread over all parts evenly; how many do is counted in warps of each part.
 */
static uint32_t by_registers(uint32_t registers, uint32_t warps)
{
	uint32_t each = CK_ALIGN_UP(registers * WARP, REGISTER_UNIT);

	if (!each)
		return BLOCKS_MAX;
	if (each * CK_ALIGN_UP(warps, PARTS) > REGISTERS)
		return 0;
	return REGISTERS / PARTS / each * PARTS / warps;
}

unsigned int ck_emu_occupancy(const struct ck_emu_function *function, uint32_t threads,
			      size_t dynamic_shared)
{
	const struct ck_ptx_kernel_info *info = &function->info;
	uint32_t warps = (threads + WARP - 1) / WARP, blocks;
	size_t shared;

	if (!threads || threads > ck_min(info->max_threads, THREADS_MAX) ||
	    dynamic_shared > ck_emu_function_max_dynamic(function))
		return 0;
	blocks = ck_min(BLOCKS_MAX, WARPS_MAX / warps);
	blocks = ck_min(blocks, by_registers(info->registers, warps));
	shared = CK_ALIGN_UP(info->shared_bytes + dynamic_shared + CK_EMU_SHARED_RESERVED,
			     SHARED_UNIT);
	return ck_min(blocks, (uint32_t)(CK_EMU_SHARED_SM / shared));
}

static CUresult begin_occupancy_query(CUfunction handle, const void *output,
				      struct ck_emu_function **function)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS && !output)
		result = CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? ck_emu_function_get(handle, context, function) : result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
							      int blockSize, size_t dynamicSMemSize,
							      unsigned int flags)
{
	struct ck_emu_function *function;
	CUresult result = begin_occupancy_query(func, numBlocks, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (blockSize <= 0 || flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		*numBlocks = (int)ck_emu_occupancy(function, (uint32_t)blockSize, dynamicSMemSize);
	ck_emu_object_put(&function->base);
	return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
						     size_t dynamicSMemSize)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, func, blockSize, dynamicSMemSize, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
						   CUfunction func,
						   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
						   size_t dynamicSMemSize, int blockSizeLimit,
						   unsigned int flags)
{
	struct ck_emu_function *function;
	CUresult result = begin_occupancy_query(func, minGridSize, &function);
	unsigned int best = 0, blocks;
	uint32_t size, limit;

	if (result != CUDA_SUCCESS)
		return result;
	if (!blockSize || blockSizeLimit < 0 ||
	    flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
		ck_emu_object_put(&function->base);
		return CUDA_ERROR_INVALID_VALUE;
	}
	limit = ck_min(function->info.max_threads, THREADS_MAX);
	if (blockSizeLimit)
		limit = ck_min(limit, (uint32_t)blockSizeLimit);
	*blockSize = *minGridSize = 0;
	/* from large to small, so that the largest of equally good sizes wins */
	for (size = CK_ALIGN_UP(limit, WARP); size; size -= WARP) {
		uint32_t threads = ck_min(size, limit);

		if (blockSizeToDynamicSMemSize)
			dynamicSMemSize = blockSizeToDynamicSMemSize((int)threads);
		blocks = ck_emu_occupancy(function, threads, dynamicSMemSize);
		if (blocks * threads > best) {
			best = blocks * threads;
			*blockSize = (int)threads;
			*minGridSize = (int)(blocks * CK_EMU_SM_COUNT);
		}
	}
	ck_emu_object_put(&function->base);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
					  size_t dynamicSMemSize, int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(
		minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
		blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						 int numBlocks, int blockSize)
{
	struct ck_emu_function *function;
	CUresult result = begin_occupancy_query(func, dynamicSmemSize, &function);
	size_t share, fixed;

	if (result != CUDA_SUCCESS)
		return result;
	if (numBlocks <= 0 || blockSize <= 0 ||
	    ck_emu_occupancy(function, (uint32_t)blockSize, 0) < (unsigned int)numBlocks) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		share = CK_EMU_SHARED_SM / (unsigned int)numBlocks & ~(size_t)(SHARED_UNIT - 1);
		share = ck_min(share - CK_EMU_SHARED_RESERVED, (size_t)CK_EMU_SHARED_OPTIN);
		fixed = function->info.shared_bytes;
		*dynamicSmemSize = share - ck_min(share, fixed);
	}
	ck_emu_object_put(&function->base);
	return result;
}

/* The function, its blocks of one multiprocessor, and the clusters in its configuration. */
static CUresult begin_cluster(CUfunction handle, const void *output, const CUlaunchConfig *config,
			      struct ck_emu_function **function, struct ck_ptx_grid *grid,
			      unsigned int *blocks)
{
	CUresult result = begin_occupancy_query(handle, output, function);

	if (result != CUDA_SUCCESS)
		return result;
	if (!config || (config->numAttrs && !config->attrs)) {
		ck_emu_object_put(&(*function)->base);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*grid = (struct ck_ptx_grid){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ}};
	for (unsigned int i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttributeValue *value = &config->attrs[i].value;

		if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			continue;
		grid->cluster[0] = value->clusterDim.x;
		grid->cluster[1] = value->clusterDim.y;
		grid->cluster[2] = value->clusterDim.z;
	}
	*blocks = ck_emu_occupancy(*function,
				   config->blockDimX * config->blockDimY * config->blockDimZ,
				   config->sharedMemBytes);
	return CUDA_SUCCESS;
}

/* All multiprocessors are of one group: blocks of a cluster may lie on any of them. */
CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
				      const CUlaunchConfig *config)
{
	struct ck_emu_function *function;
	struct ck_ptx_grid grid;
	unsigned int blocks;
	CUresult result = begin_cluster(func, numClusters, config, &function, &grid, &blocks);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_cluster_check(function, &grid);
	if (result == CUDA_SUCCESS)
		*numClusters = (int)(blocks * CK_EMU_SM_COUNT / ck_max(grid.cluster[0], 1u) /
				     ck_max(grid.cluster[1], 1u) / ck_max(grid.cluster[2], 1u));
	ck_emu_object_put(&function->base);
	return result;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
					    const CUlaunchConfig *config)
{
	struct ck_emu_function *function;
	struct ck_ptx_grid grid;
	unsigned int blocks, most;
	CUresult result = begin_cluster(func, clusterSize, config, &function, &grid, &blocks);

	if (result != CUDA_SUCCESS)
		return result;
	most = ck_min(blocks * CK_EMU_SM_COUNT, ck_emu_function_max_cluster(function));
	*clusterSize = (int)most;
	ck_emu_object_put(&function->base);
	return CUDA_SUCCESS;
}
