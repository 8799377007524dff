/*
 * emu/ptx/run/grid.h - the run of a grid: clusters, blocks, warps; stops and moves of lanes.
 */
#ifndef CK_EMU_PTX_RUN_GRID_H
#define CK_EMU_PTX_RUN_GRID_H

#include "emu/ptx/memory/exec.h"

/*
 * A block (block.c): memory for it, also when that fails; it begins, at its place in the cluster; a
 * slice for each warp that can run (*@ran: there was one), then 0 or the error that ends the grid;
 * its memory goes.
 */
int ck_ptx_block_init(struct ck_ptx_block *block, struct ck_ptx_run *run);
void ck_ptx_block_start(struct ck_ptx_block *block, struct ck_ptx_cluster *cluster, uint32_t rank);
int ck_ptx_block_turn(struct ck_ptx_block *block, bool *ran);
void ck_ptx_block_fini(struct ck_ptx_block *block);

/* The same of a cluster, the @number-th of the grid (cluster.c). */
int ck_ptx_cluster_init(struct ck_ptx_cluster *cluster, struct ck_ptx_run *run);
void ck_ptx_cluster_start(struct ck_ptx_cluster *cluster, uint64_t number);
int ck_ptx_cluster_turn(struct ck_ptx_cluster *cluster);
void ck_ptx_cluster_fini(struct ck_ptx_cluster *cluster);

/* Its threads that have not exited. */
static inline uint32_t ck_ptx_cluster_live(const struct ck_ptx_cluster *cluster)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < cluster->run->cluster_size; i++)
		live += cluster->blocks[i].live;
	return live;
}

/* vprintf, __assertfail, malloc, free: arguments and result in the caller's slots (builtin.c). */
int ck_ptx_builtin(struct ck_ptx_warp *w, const struct ck_ptx_call *call, enum ck_ptx_builtin id,
		   uint32_t mask);
/* The text of printf for lane @l (print.c). *@count: arguments, or -1. */
int ck_ptx_printf(struct ck_ptx_warp *w, uint32_t l, uint64_t format, uint64_t args,
		  int32_t *count);

/* Report on stderr the error @err of the grid at @in, and give @err back (fault.c). */
int ck_ptx_fault(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask, int err);

/* Run @w for a slice (warp.c): 0 or the error that ends the grid. */
int ck_ptx_warp_run(struct ck_ptx_warp *w);

/* Barriers (barrier.c). Arrive: the lanes of @mask are at a barrier instruction. */
int ck_ptx_barrier_arrive(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
/* Release waiting lanes, if possible, after an arrival or an exit. */
void ck_ptx_barrier_check(struct ck_ptx_block *block);

/* Lanes of @mask are at an instruction with a member mask (converge.c). */
int ck_ptx_converge(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
int ck_ptx_converge_check(struct ck_ptx_warp *w);

/* Calls and returns (call.c) of the running group's lanes of @mask. */
int ck_ptx_call_enter(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
int ck_ptx_call_leave(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
int ck_ptx_rows_reserve(struct ck_ptx_warp *w, size_t rows);
void ck_ptx_lanes_exit(struct ck_ptx_warp *w, uint32_t mask);

#endif
