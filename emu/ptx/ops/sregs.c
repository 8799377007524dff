/*
 * emu/ptx/ops/sregs.c - values of the special registers.
 */
#include <time.h>

#include "emu/ptx/language/sregs.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"
#include "util/until.h"

/* Threads of a block, and blocks of a cluster, are numbered x first. */
static uint64_t read_indexed_sreg(const struct ck_ptx_warp *w, unsigned int id, unsigned int axis,
				  uint32_t l)
{
	const struct ck_ptx_grid *grid = w->block->run->grid;
	uint32_t thread = w->index * CK_PTX_LANES + l;

	if (axis > 2)
		return 0;
	switch (id) {
	case CK_PTX_SREG_TID:
		if (axis == 0)
			return thread % grid->block[0];
		thread /= grid->block[0];
		return axis == 1 ? thread % grid->block[1] : thread / grid->block[1];
	case CK_PTX_SREG_NTID:
		return grid->block[axis];
	case CK_PTX_SREG_CTAID:
		return w->block->id[axis];
	case CK_PTX_SREG_NCTAID:
		return grid->grid[axis];
	case CK_PTX_SREG_CLUSTERID:
		return w->block->cluster->id[axis];
	case CK_PTX_SREG_NCLUSTERID:
		return grid->grid[axis] / w->block->run->cluster[axis];
	case CK_PTX_SREG_CLUSTER_CTAID:
		return w->block->id[axis] % w->block->run->cluster[axis];
	default: /* CK_PTX_SREG_CLUSTER_NCTAID */
		return w->block->run->cluster[axis];
	}
}

static uint64_t lane_mask(unsigned int id, uint32_t l)
{
	uint32_t bit = 1u << l;

	switch (id) {
	case CK_PTX_SREG_LANEMASK_EQ:
		return bit;
	case CK_PTX_SREG_LANEMASK_LE:
		return bit | (bit - 1);
	case CK_PTX_SREG_LANEMASK_LT:
		return bit - 1;
	case CK_PTX_SREG_LANEMASK_GE:
		return ~(bit - 1);
	default:
		return ~(bit | (bit - 1));
	}
}

/* Cooperative groups expect the workspace of the grid's barrier in %envreg1:%envreg2. */
static uint64_t read_envreg(const struct ck_ptx_run *run, unsigned int number)
{
	uint64_t workspace = run->grid->cooperative ? (uint64_t)(uintptr_t)run->workspace : 0;

	return number == 1 ? workspace >> 32 : number == 2 ? (uint32_t)workspace : 0;
}

/* Those that are the same in all lanes. */
static uint64_t read_uniform_sreg(const struct ck_ptx_warp *w, unsigned int id, unsigned int index)
{
	const struct ck_ptx_run *run = w->block->run;

	switch (id) {
	case CK_PTX_SREG_WARPID:
		return w->index;
	case CK_PTX_SREG_NWARPID:
		return run->warps;
	case CK_PTX_SREG_NSMID:
		return 1;
	case CK_PTX_SREG_CLUSTER_CTARANK:
		return w->block->rank;
	case CK_PTX_SREG_CLUSTER_NCTARANK:
		return run->cluster_size;
	case CK_PTX_SREG_IS_EXPLICIT_CLUSTER:
		return run->grid->cluster[0] || run->kernel->info.cluster[0];
	case CK_PTX_SREG_CLOCK:
	case CK_PTX_SREG_CLOCK64:
	case CK_PTX_SREG_GLOBALTIMER:
		return ck_now_ns();
	case CK_PTX_SREG_GLOBALTIMER_LO:
		return (uint32_t)ck_now_ns();
	case CK_PTX_SREG_CLOCK_HI:
	case CK_PTX_SREG_GLOBALTIMER_HI:
		return ck_now_ns() >> 32;
	case CK_PTX_SREG_TOTAL_SMEM:
		return run->user_shared;
	case CK_PTX_SREG_AGGR_SMEM:
		return run->shared_bytes;
	case CK_PTX_SREG_RESERVED_BEGIN:
	case CK_PTX_SREG_RESERVED_0:
		return ck_ptx_reserved_begin(run);
	case CK_PTX_SREG_RESERVED_1: /* cooperative groups have 288 bytes from here on */
		return ck_ptx_reserved_begin(run) + CK_PTX_RESERVED_SHARED / 2;
	case CK_PTX_SREG_RESERVED_END:
		return run->shared_bytes;
	case CK_PTX_SREG_RESERVED_CAP:
		return CK_PTX_RESERVED_SHARED;
	case CK_PTX_SREG_DYNAMIC_SMEM:
		return run->grid->dynamic_shared;
	case CK_PTX_SREG_DYNAMIC_BASE:
		return run->kernel->dynamic_offset;
	case CK_PTX_SREG_ENVREG:
		return read_envreg(run, index);
	default:
		return 0;
	}
}

int ck_ptx_exec_sreg(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	unsigned int id = (unsigned int)in->imm % CK_PTX_SREG_STRIDE;
	unsigned int index = (unsigned int)in->imm / CK_PTX_SREG_STRIDE;
	bool vector = ck_ptx_sreg_is_vector(id);
	bool masks = id >= CK_PTX_SREG_LANEMASK_EQ && id <= CK_PTX_SREG_LANEMASK_GT;
	uint64_t *rd = D(0), same = vector || masks ? 0 : read_uniform_sreg(w, id, index);

	if (vector && id != CK_PTX_SREG_TID) {
		same = read_indexed_sreg(w, id, index, 0);
		vector = false;
	}
	/* a warp is in one row of a block whose rows are whole warps */
	if (vector && index == 0 && w->block->run->grid->block[0] % CK_PTX_LANES == 0) {
		same = read_indexed_sreg(w, id, 0, 0);
		EACH_LANE(mask, l, rd[l] = same + l;);
		return 0;
	}
	EACH_LANE(mask, l,
		  rd[l] = vector		     ? read_indexed_sreg(w, id, index, l)
			  : masks		     ? lane_mask(id, l)
			  : id == CK_PTX_SREG_LANEID ? l
						     : same;);
	return 0;
}
