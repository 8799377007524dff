/*
 * emu/ptx/run/block.c - one block: its memory, its start, and the scheduling of its warps.
 */
#include <stdlib.h>

#include "emu/ptx/memory/check.h"
#include "emu/ptx/run/team.h"

void ck_ptx_block_fini(struct ck_ptx_block *block)
{
	for (uint32_t i = 0; block->warps && i < block->run->warps; i++) {
		free(block->warps[i].rows);
		free(block->warps[i].local);
	}
	free(block->warps);
	free(block->shared);
	if (block->check)
		atomic_fetch_add(&block->run->team->instructions, block->check->instructions);
	ck_ptx_check_destroy(block->check);
}

/* Local memory of a lane: a deep recursion needs as much as the limit on stacks allows. */
static uint32_t local_bytes(const struct ck_ptx_run *run)
{
	uint32_t stack = (uint32_t)CK_ALIGN_UP(ck_min(run->host->stack, CK_PTX_MAX_LOCAL), 16u);

	return run->kernel->unbounded ? ck_max(run->kernel->local_bytes, stack)
				      : run->kernel->local_bytes;
}

static int warp_init(struct ck_ptx_block *block, uint32_t index)
{
	struct ck_ptx_run *run = block->run;
	struct ck_ptx_warp *w = &block->warps[index];
	const struct ck_ptx_func *f = &run->module->funcs[run->kernel->func];

	w->block = block;
	w->index = index;
	w->pool = run->module->pool;
	w->local_bytes = local_bytes(run);
	w->local = calloc(CK_PTX_LANES, ck_max(w->local_bytes, 16u));
	if (!w->local)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return ck_ptx_rows_reserve(w, f->rows);
}

/* Which block it is, ck_ptx_block_start() says. */
int ck_ptx_block_init(struct ck_ptx_block *block, struct ck_ptx_run *run)
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
	if (!err && run->host->check) {
		block->check = ck_ptx_check_create(block, run->host->check);
		if (!block->check)
			err = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	}
	return err;
}

void ck_ptx_block_start(struct ck_ptx_block *block, struct ck_ptx_cluster *cluster, uint32_t rank)
{
	const struct ck_ptx_run *run = block->run;
	const struct ck_ptx_grid *grid = run->grid;
	uint32_t threads = grid->block[0] * grid->block[1] * grid->block[2];
	const uint32_t *size = run->cluster;

	block->cluster = cluster;
	block->rank = rank;
	block->id[0] = cluster->id[0] * size[0] + rank % size[0];
	block->id[1] = cluster->id[1] * size[1] + rank / size[0] % size[1];
	block->id[2] = cluster->id[2] * size[2] + rank / size[0] / size[1];
	block->live = threads;
	memset(block->barriers, 0, sizeof(block->barriers));
	memset(block->shared, 0, run->shared_bytes);
	if (block->check)
		ck_ptx_check_start(block->check);
	for (uint32_t i = 0; i < run->warps; i++) {
		struct ck_ptx_warp *w = &block->warps[i];
		uint32_t lanes = ck_min(threads - i * CK_PTX_LANES, (uint32_t)CK_PTX_LANES);

		w->live = lanes == CK_PTX_LANES ? UINT32_MAX : (1u << lanes) - 1;
		w->fault_lane = CK_PTX_NONE;
		w->waiting = w->syncing = w->stale = w->group_fp = 0;
		for (uint32_t l = 0; l < CK_PTX_LANES; l++) {
			w->pc[l] = run->module->funcs[run->kernel->func].first;
			w->fp[l] = 0;
			w->cluster_phase[l] = CK_PTX_NONE;
			w->rows[CK_PTX_ROW_RETURN * CK_PTX_LANES + l] = CK_PTX_NONE;
			w->rows[CK_PTX_ROW_LOCAL * CK_PTX_LANES + l] = 0;
			w->rows[CK_PTX_ROW_STACK * CK_PTX_LANES + l] = 0;
		}
	}
}

int ck_ptx_block_turn(struct ck_ptx_block *block, bool *ran)
{
	struct ck_ptx_run *run = block->run;

	for (uint32_t i = 0; i < run->warps; i++) {
		struct ck_ptx_warp *w = &block->warps[i];
		int err;

		if (!(w->live & ~w->waiting & ~w->syncing))
			continue;
		*ran = true;
		err = ck_ptx_warp_run(w);
		if (err)
			return err;
		if (run->host->cancelled && run->host->cancelled(run->host->opaque))
			return CUDA_ERROR_LAUNCH_TIMEOUT;
	}
	return 0;
}
