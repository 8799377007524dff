/*
 * emu/ptx/run.c - a grid on the calling thread: its blocks, and which of them are resident.
 *
 * Blocks run one after the other in the order of their numbers, as a device with one slot would
 * run them. A block that takes very long may be waiting for a later one: then the next block is
 * started beside it. All blocks of a cooperative grid are resident from the start.
 */
#include <stdlib.h>

#include "emu/ptx/exec.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

#define PATIENCE 64 /* turns of a block before another is started beside it */
#define MAX_RESIDENT 4096

static void block_fini(struct ck_ptx_block *block)
{
	for (uint32_t i = 0; block->warps && i < block->run->warps; i++) {
		free(block->warps[i].rows);
		free(block->warps[i].local);
	}
	free(block->warps);
	free(block->shared);
}

static int warp_init(struct ck_ptx_block *block, uint32_t index)
{
	struct ck_ptx_run *run = block->run;
	struct ck_ptx_warp *w = &block->warps[index];
	const struct ck_ptx_func *f = &run->module->funcs[run->kernel->func];

	w->block = block;
	w->index = index;
	w->pool = run->module->pool;
	w->local_bytes = run->kernel->local_bytes;
	w->local = calloc(CK_PTX_LANES, ck_max(w->local_bytes, 16u));
	if (!w->local)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return ck_ptx_rows_reserve(w, f->rows);
}

/* Memory for a block; which one it is, block_start() says. */
static int block_init(struct ck_ptx_block *block, struct ck_ptx_run *run)
{
	int err = 0;

	memset(block, 0, sizeof(*block));
	block->run = run;
	block->shared = calloc(1, run->shared_bytes + 16);
	block->warps = calloc(run->warps, sizeof(*block->warps));
	if (!block->shared || !block->warps)
		err = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	for (uint32_t i = 0; !err && i < run->warps; i++)
		err = warp_init(block, i);
	return err;
}

static void block_start(struct ck_ptx_block *block, uint64_t number)
{
	const struct ck_ptx_run *run = block->run;
	const struct ck_ptx_grid *grid = run->grid;
	uint32_t threads = grid->block[0] * grid->block[1] * grid->block[2];

	block->id[0] = (uint32_t)(number % grid->grid[0]);
	block->id[1] = (uint32_t)(number / grid->grid[0] % grid->grid[1]);
	block->id[2] = (uint32_t)(number / grid->grid[0] / grid->grid[1]);
	block->live = threads;
	block->turns = 0;
	memset(block->barriers, 0, sizeof(block->barriers));
	block->cluster_arrived = block->cluster_phase = 0;
	memset(block->shared, 0, run->shared_bytes);
	for (uint32_t i = 0; i < run->warps; i++) {
		struct ck_ptx_warp *w = &block->warps[i];
		uint32_t lanes = ck_min(threads - i * CK_PTX_LANES, (uint32_t)CK_PTX_LANES);

		w->live = lanes == CK_PTX_LANES ? UINT32_MAX : (1u << lanes) - 1;
		w->waiting = w->syncing = w->stale = w->group_fp = 0;
		for (uint32_t l = 0; l < CK_PTX_LANES; l++) {
			w->pc[l] = run->module->funcs[run->kernel->func].first;
			w->fp[l] = 0;
			w->rows[CK_PTX_ROW_RETURN * CK_PTX_LANES + l] = CK_PTX_NONE;
			w->rows[CK_PTX_ROW_LOCAL * CK_PTX_LANES + l] = 0;
			w->rows[CK_PTX_ROW_STACK * CK_PTX_LANES + l] = 0;
		}
	}
}

/* A slice for each warp that can run. */
static int block_turn(struct ck_ptx_block *block)
{
	struct ck_ptx_run *run = block->run;
	bool ran = false;

	for (uint32_t i = 0; i < run->warps; i++) {
		struct ck_ptx_warp *w = &block->warps[i];
		int err;

		if (!(w->live & ~w->waiting & ~w->syncing))
			continue;
		ran = true;
		err = ck_ptx_warp_run(w);
		if (err)
			return err;
		if (run->host->cancelled && run->host->cancelled(run->host->opaque))
			return CUDA_ERROR_LAUNCH_TIMEOUT;
	}
	block->turns++;
	if (!ran && block->live > 0) {
		ck_err("kernel %s: all %u threads of block %u,%u,%u wait for each other",
		       run->kernel->info.name, block->live, block->id[0], block->id[1],
		       block->id[2]);
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	}
	return 0;
}

/* Blocks of @run that have memory; those with live > 0 are running. */
struct residents {
	struct ck_ptx_block **blocks;
	uint32_t count, room;
};

static int residents_add(struct residents *r, struct ck_ptx_run *run)
{
	struct ck_ptx_block *block;
	int err;

	if (ck_ptx_room(&r->blocks, &r->room, r->count, sizeof(struct ck_ptx_block *)) < 0)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	block = malloc(sizeof(*block));
	if (!block)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	r->blocks[r->count++] = block;
	err = block_init(block, run);
	return err;
}

static int grid_run(struct residents *r, struct ck_ptx_run *run, uint64_t blocks)
{
	uint64_t next = 0, done = 0, limit = run->grid->cooperative ? blocks : 1;
	int err;

	while (done < blocks) {
		bool slow = r->count > 0;

		while (r->count < limit) {
			err = residents_add(r, run);
			if (err)
				return err;
		}
		for (uint32_t i = 0; i < r->count; i++) {
			struct ck_ptx_block *block = r->blocks[i];

			if (block->live == 0) {
				slow = false;
				if (next == blocks)
					continue;
				block_start(block, next++);
			}
			err = block_turn(block);
			if (err)
				return err;
			done += block->live == 0;
			slow &= block->live > 0 && block->turns > PATIENCE;
		}
		if (slow && next < blocks && limit < MAX_RESIDENT)
			limit = r->count + 1;
	}
	return 0;
}

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
	if (g->cooperative && *blocks > MAX_RESIDENT)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

CUresult ck_ptx_run(const struct ck_ptx_kernel *kernel, const struct ck_ptx_grid *grid,
		    const void *params, const struct ck_ptx_host *host)
{
	uint32_t threads = grid->block[0] * grid->block[1] * grid->block[2];
	struct ck_ptx_run run = {
		.module = kernel->module, .kernel = kernel, .grid = grid, .host = host};
	uint64_t workspace[2] __attribute__((aligned(16))) = {0}, blocks;
	struct residents r = {0};
	CUresult result = check_grid(kernel, grid, &blocks);
	uint8_t *copy;

	if (!kernel->module->placed)
		return CUDA_ERROR_INVALID_HANDLE;
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
	run.shared_bytes = kernel->info.shared_bytes;
	if (grid->dynamic_shared)
		run.shared_bytes = kernel->dynamic_offset + grid->dynamic_shared;
	result = (CUresult)grid_run(&r, &run, blocks);
	for (uint32_t i = 0; i < r.count; i++) {
		block_fini(r.blocks[i]);
		free(r.blocks[i]);
	}
	free(r.blocks);
	free(copy);
	return result;
}
