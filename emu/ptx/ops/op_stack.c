/*
 * emu/ptx/ops/op_stack.c - executors of alloca, of addresses in a cluster, of cache policies.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

/* A frame's allocations lie behind its variables, up to the start of a callee's frame. */
EXECUTOR(stack)
{
	const struct ck_ptx_func *f = &w->block->run->module->funcs[in->target];
	const uint64_t *base = ck_ptx_row(w, CK_PTX_ROW_LOCAL), *ra = S(0);
	uint64_t *used = ck_ptx_row(w, CK_PTX_ROW_STACK), *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t size = CK_ALIGN_UP((uint64_t)(uint32_t)ra[l], 16);
		uint64_t top = CK_ALIGN_UP(base[l] + f->local_bytes + used[l], 16);

		if (in->op == CK_PTX_OP_STACKSAVE) {
			rd[l] = used[l];
		} else if (in->op == CK_PTX_OP_STACKRESTORE) {
			used[l] = ck_min(ra[l], (uint64_t)w->local_bytes);
		} else {
			if (!ck_ptx_fits(top, size, w->local_bytes))
				return CUDA_ERROR_HARDWARE_STACK_ERROR;
			rd[l] = top;
			used[l] = top + size - base[l] - f->local_bytes;
		}
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_stack(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	/* nothing is aligned to more than 16 bytes */
	return in->imm <= 16 ? stack : NULL;
}

/* The same place in another block's shared memory; the own block's addresses have no number. */
EXECUTOR(mapa)
{
	const uint64_t *ra = S(0), *rank = S(1);
	const uint64_t field = (uint64_t)UINT8_MAX << CK_PTX_RANK_SHIFT;
	uint32_t own = w->block->rank;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t block = (uint32_t)rank[l];

		if (block >= w->block->run->cluster_size)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		rd[l] = (ra[l] & ~field) | (block == own ? 0 : (block + 1) << CK_PTX_RANK_SHIFT);
	});
	return 0;
}

EXECUTOR(getctarank)
{
	const uint64_t *ra = S(0);
	uint32_t own = w->block->rank;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t number = ra[l] >> CK_PTX_RANK_SHIFT & UINT8_MAX;

		rd[l] = number ? number - 1 : own;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_mapa(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return in->op == CK_PTX_OP_MAPA ? mapa : getctarank;
}

EXECUTOR(policy)
{
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = 0;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_policy(struct ck_ptx_insn *in __attribute__((unused)),
			       unsigned int operands __attribute__((unused)))
{
	return policy;
}
