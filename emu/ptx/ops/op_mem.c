/*
 * emu/ptx/ops/op_mem.c - executors of mov, address conversion and fences.
 */
#include "emu/ptx/language/sregs.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

EXECUTOR(mov)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = ra[l];);
	return 0;
}

/* {a, b, ...} into one register, the first element lowest. */
EXECUTOR(mov_pack)
{
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8 / in->vec;
	uint64_t *rd = D(0), field = ~0ull >> (64 - bits);

	EACH_LANE(mask, l, {
		uint64_t value = 0;

		for (unsigned int i = 0; i < in->vec; i++)
			value |= (S(i)[l] & field) << (i * bits);
		rd[l] = value;
	});
	return 0;
}

EXECUTOR(mov_unpack)
{
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8 / in->vec;
	const uint64_t *ra = S(0);
	uint64_t field = ~0ull >> (64 - bits);

	EACH_LANE(mask, l, {
		uint64_t value = ra[l];

		for (unsigned int i = 0; i < in->vec; i++)
			D(i)[l] = value >> (i * bits) & field;
	});
	return 0;
}

/* 128 bits: between registers, or to and from two of 64 bits. */
EXECUTOR(mov_wide)
{
	const uint64_t *low = S(0), *high = S(1);
	uint64_t *to_low = D(0), *to_high = D(1);

	EACH_LANE(mask, l, {
		uint64_t upper = high[l];

		to_low[l] = low[l];
		to_high[l] = upper;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_mov(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	if (in->type == CK_PTX_B128)
		return in->space == 0 || in->vec == 2 ? mov_wide : NULL;
	if (in->space == 0)
		return mov;
	if (in->type == CK_PTX_PRED || (in->vec != 2 && in->vec != 4) ||
	    ck_ptx_type_bytes(in->type) < in->vec)
		return NULL;
	return in->space == CK_PTX_PACK ? mov_pack : mov_unpack;
}

/* The frame's local address + a constant: the name of a .local or .param. */
EXECUTOR(frame_address)
{
	const uint64_t *base = ck_ptx_row(w, CK_PTX_ROW_LOCAL);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = base[l] + (uint64_t)in->imm;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_hidden(struct ck_ptx_insn *in,
			       unsigned int operands __attribute__((unused)))
{
	return in->op == CK_PTX_OP_HIDDEN_SREG ? ck_ptx_exec_sreg : frame_address;
}

EXECUTOR(nop)
{
	return 0;
}

ck_ptx_exec ck_ptx_pick_nop(struct ck_ptx_insn *in __attribute__((unused)),
			    unsigned int operands __attribute__((unused)))
{
	return nop;
}

/* The warp's loop carries these out itself; the pointer only marks them as known. */
ck_ptx_exec ck_ptx_pick_flow(struct ck_ptx_insn *in __attribute__((unused)),
			     unsigned int operands __attribute__((unused)))
{
	return nop;
}

ck_ptx_exec ck_ptx_pick_prefetch(struct ck_ptx_insn *in __attribute__((unused)),
				 unsigned int operands __attribute__((unused)))
{
	return nop;
}

EXECUTOR(fence)
{
	if (mask)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return 0;
}

ck_ptx_exec ck_ptx_pick_fence(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int sem = in->mod[CK_PTX_MOD_SEM];

	if (!in->mod[CK_PTX_MOD_SCOPE] || sem == CK_PTX_WEAK || sem == CK_PTX_VOLATILE ||
	    sem == CK_PTX_RELAXED)
		return NULL;
	return fence;
}

EXECUTOR(trap)
{
	return mask ? CUDA_ERROR_LAUNCH_FAILED : 0;
}

ck_ptx_exec ck_ptx_pick_trap(struct ck_ptx_insn *in __attribute__((unused)),
			     unsigned int operands __attribute__((unused)))
{
	return trap;
}

static uint64_t window_of(unsigned int space)
{
	switch (space) {
	case CK_PTX_SHARED:
		return CK_PTX_SHARED_WINDOW;
	case CK_PTX_LOCAL:
		return CK_PTX_LOCAL_WINDOW;
	default:
		return 0;
	}
}

/* Parameters' addresses are generic already, global and constant ones are the same in both. */
EXECUTOR(cvta)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0), base = window_of(in->mod[CK_PTX_MOD_SPACE]);
	bool to = in->mod[CK_PTX_MOD_TO];

	EACH_LANE(mask, l,
		  rd[l] = !base ? ra[l]
			  : to	? ra[l] & CK_PTX_OFFSET_MASK
				: base + (ra[l] & CK_PTX_OFFSET_MASK););
	return 0;
}

ck_ptx_exec ck_ptx_pick_cvta(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return in->type == CK_PTX_U64 && in->mod[CK_PTX_MOD_SPACE] ? cvta : NULL;
}

static bool is_const(const struct ck_ptx_module *m, uint64_t address)
{
	for (uint32_t i = 0; i < m->var_count; i++)
		if (m->vars[i].space == CK_PTX_CONST && address >= m->vars[i].address &&
		    address - m->vars[i].address < m->vars[i].size)
			return true;
	return false;
}

EXECUTOR(isspacep)
{
	const struct ck_ptx_module *m = w->block->run->module;
	unsigned int space = in->mod[CK_PTX_MOD_SPACE];
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t window = ra[l] & ~CK_PTX_OFFSET_MASK;
		bool other = (ra[l] & CK_PTX_OFFSET_MASK) >> CK_PTX_RANK_SHIFT;

		if (in->mod[CK_PTX_MOD_CLUSTER])
			rd[l] = window == CK_PTX_SHARED_WINDOW;
		else if (space == CK_PTX_SHARED)
			rd[l] = window == CK_PTX_SHARED_WINDOW && !other;
		else if (space == CK_PTX_GLOBAL)
			rd[l] = window == 0 && !is_const(m, ra[l]);
		else if (space == CK_PTX_CONST)
			rd[l] = window == 0 && is_const(m, ra[l]);
		else if (space == CK_PTX_PARAM)
			rd[l] = window == CK_PTX_PARAM_WINDOW;
		else
			rd[l] = window == window_of(space);
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_isspacep(struct ck_ptx_insn *in,
				 unsigned int operands __attribute__((unused)))
{
	return in->mod[CK_PTX_MOD_SPACE] || in->mod[CK_PTX_MOD_CLUSTER] ? isspacep : NULL;
}
