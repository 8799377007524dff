/*
 * emu/ptx/run/run.c - a grid: its limits, its parameters, and its end.
 */
#include <stdlib.h>

#include "emu/ptx/run/team.h"

static CUresult check_grid(const struct ck_ptx_kernel *k, const struct ck_ptx_grid *g,
			   uint64_t *blocks)
{
	uint64_t threads = (uint64_t)g->block[0] * g->block[1];

	for (int i = 0; i < 3; i++)
		if (!g->grid[i] || !g->block[i] || g->block[i] > 1024 ||
		    (k->req[i] && k->req[i] != g->block[i]))
			return CUDA_ERROR_INVALID_VALUE;
	*blocks = (uint64_t)g->grid[0] * g->grid[1];
	if (threads * g->block[2] > 1024 || g->grid[0] > INT32_MAX || g->grid[1] > 65535 ||
	    g->grid[2] > 65535)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks *= g->grid[2];
	if (threads * g->block[2] > k->info.max_threads || g->dynamic_shared > CK_PTX_MAX_SHARED ||
	    (uint64_t)k->dynamic_offset + g->dynamic_shared > CK_PTX_MAX_SHARED)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (g->cooperative && *blocks > CK_PTX_MAX_RESIDENT)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

/* The clusters that the launch or the kernel asks for, or blocks of their own. */
static CUresult set_cluster(struct ck_ptx_run *run)
{
	const uint32_t *asked = run->grid->cluster, *required = run->kernel->info.cluster;
	const bool is_asked = asked[0] || asked[1] || asked[2];

	if (run->kernel->info.must_cluster && !is_asked && !required[0])
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	run->cluster_size = 1;
	for (int i = 0; i < 3; i++) {
		uint32_t size = is_asked ? asked[i] : ck_max(required[i], 1u);

		if (is_asked && required[0] && size != required[i])
			return CUDA_ERROR_INVALID_CLUSTER_SIZE;
		if (!size || size > CK_PTX_MAX_CLUSTER || run->grid->grid[i] % size)
			return CUDA_ERROR_INVALID_VALUE;
		run->cluster[i] = size;
		run->cluster_size *= size;
	}
	return run->cluster_size > CK_PTX_MAX_CLUSTER ? CUDA_ERROR_INVALID_CLUSTER_SIZE
						      : CUDA_SUCCESS;
}

CUresult ck_ptx_run(const struct ck_ptx_kernel *kernel, const struct ck_ptx_grid *grid,
		    const void *params, const struct ck_ptx_host *host)
{
	uint32_t threads = grid->block[0] * grid->block[1] * grid->block[2];
	struct ck_ptx_run run = {
		.module = kernel->module, .kernel = kernel, .grid = grid, .host = host};
	uint64_t workspace[2] __attribute__((aligned(16))) = {0}, blocks;
	CUresult result = check_grid(kernel, grid, &blocks);
	uint8_t *copy;

	if (!kernel->module->placed)
		return CUDA_ERROR_INVALID_HANDLE;
	if (kernel->info.refusal)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (result == CUDA_SUCCESS)
		result = set_cluster(&run);
	if (result != CUDA_SUCCESS)
		return result;
	/* The caller's block may lie anywhere; loads want their alignment. */
	copy = aligned_alloc(64, CK_ALIGN_UP((size_t)kernel->info.param_bytes + 1, 64));
	if (!copy)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (kernel->info.param_bytes > 0)
		memcpy(copy, params, kernel->info.param_bytes);
	run.params = copy;
	run.workspace = workspace;
	run.warps = (threads + CK_PTX_LANES - 1) / CK_PTX_LANES;
	run.user_shared = kernel->info.shared_bytes;
	if (grid->dynamic_shared)
		run.user_shared = kernel->dynamic_offset + grid->dynamic_shared;
	run.shared_bytes = run.user_shared;
	if (kernel->module->reserved_shared)
		run.shared_bytes = ck_ptx_reserved_begin(&run) + CK_PTX_RESERVED_SHARED;
	result = (CUresult)ck_ptx_team_run(&run, blocks / run.cluster_size, grid->cooperative);
	free(copy);
	return result;
}
