/*
 * emu/ptx/ops/op_warp.c - executors that pass values between the lanes of a warp.
 *
 * By the time they run, the lanes of @mask are together; of a .sync form they are the members.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

/* Source lane of @l and whether it lies in the segment. */
static bool shfl_source(unsigned int mode, uint32_t l, uint32_t b, uint32_t c, uint32_t *from)
{
	uint32_t clamp = c & 31, segment = c >> 8 & 31;
	uint32_t top = (l & segment) | (clamp & ~segment), bottom = l & segment;
	int32_t j;

	b &= 31;
	switch (mode) {
	case CK_PTX_SHFL_UP:
		j = (int32_t)l - (int32_t)b;
		/* For up the clamp is the lowest lane. */
		*from = (uint32_t)(j < (int32_t)top ? (int32_t)l : j);
		return j >= (int32_t)top;
	case CK_PTX_SHFL_DOWN:
		*from = l + b;
		break;
	case CK_PTX_SHFL_BFLY:
		*from = l ^ b;
		break;
	default:
		*from = bottom | (b & ~segment);
		break;
	}
	if (*from <= top)
		return true;
	*from = l;
	return false;
}

EXECUTOR(shfl)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint64_t *rd = D(0), *rp = D(1), value[CK_PTX_LANES], hit[CK_PTX_LANES];
	unsigned int mode = in->mod[CK_PTX_MOD_MODE];

	EACH_LANE(mask, l, {
		uint32_t from;

		hit[l] = shfl_source(mode, l, (uint32_t)rb[l], (uint32_t)rc[l], &from);
		/* The value of a lane that does not take part is undefined: here its last value. */
		value[l] = (uint32_t)ra[from];
	});
	EACH_LANE(mask, l, rp[l] = hit[l]; rd[l] = value[l];);
	return 0;
}

ck_ptx_exec ck_ptx_pick_shfl(struct ck_ptx_insn *in, unsigned int operands)
{
	bool sync = in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_SYNC;

	if (!in->mod[CK_PTX_MOD_MODE] || sync != (operands == 5) ||
	    in->mod[CK_PTX_MOD_SYNC] > CK_PTX_BAR_SYNC)
		return NULL;
	if (sync) {
		in->kind = CK_PTX_CONVERGE;
		in->mask_at = 3;
	}
	return shfl;
}

EXECUTOR(vote)
{
	const uint64_t *ra = S(0);
	uint32_t yes = 0;
	uint64_t *rd = D(0), result;

	EACH_LANE(mask, l, yes |= (uint32_t)(ra[l] & 1) << l;);
	switch (in->mod[CK_PTX_MOD_VOTE]) {
	case CK_PTX_ALL:
		result = yes == mask;
		break;
	case CK_PTX_ANY:
		result = yes != 0;
		break;
	case CK_PTX_UNI:
		result = yes == 0 || yes == mask;
		break;
	default:
		result = yes;
		break;
	}
	EACH_LANE(mask, l, rd[l] = result;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_vote(struct ck_ptx_insn *in, unsigned int operands)
{
	bool sync = in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_SYNC;
	bool ballot = in->mod[CK_PTX_MOD_VOTE] == CK_PTX_BALLOT;

	if (!in->mod[CK_PTX_MOD_VOTE] || sync != (operands == 3) ||
	    in->mod[CK_PTX_MOD_SYNC] > CK_PTX_BAR_SYNC || ballot != (in->type == CK_PTX_B32))
		return NULL;
	if (sync) {
		in->kind = CK_PTX_CONVERGE;
		in->mask_at = 1;
	}
	return vote;
}

EXECUTOR(match)
{
	const uint64_t *ra = S(0);
	bool all = in->mod[CK_PTX_MOD_VOTE] == CK_PTX_ALL;
	uint64_t *rd = D(0), *rp = D(1), result[CK_PTX_LANES];

	EACH_LANE(mask, l, {
		uint64_t mine = ck_ptx_unsigned(ra[l], in->type);

		result[l] = 0;
		for (uint32_t o = 0; o < CK_PTX_LANES; o++)
			if (mask >> o & 1 && ck_ptx_unsigned(ra[o], in->type) == mine)
				result[l] |= 1u << o;
	});
	EACH_LANE(mask, l, {
		bool same = result[l] == mask;

		rp[l] = same;
		rd[l] = all && !same ? 0 : result[l];
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_match(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int vote = in->mod[CK_PTX_MOD_VOTE];

	in->mask_at = 1;
	return in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_SYNC &&
			       (vote == CK_PTX_ALL || vote == CK_PTX_ANY)
		       ? match
		       : NULL;
}

static uint32_t combine_values(const struct ck_ptx_insn *in, uint32_t a, uint32_t b)
{
	bool s = in->type == CK_PTX_S32;
	bool less = s ? (int32_t)a < (int32_t)b : a < b;

	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_ADD:
		return a + b;
	case CK_PTX_MIN:
		return less ? a : b;
	case CK_PTX_MAX:
		return less ? b : a;
	case CK_PTX_AND:
		return a & b;
	case CK_PTX_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

EXECUTOR(redux)
{
	const uint64_t *ra = S(0);
	uint32_t result = 0;
	bool first = true;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		result = first ? (uint32_t)ra[l] : combine_values(in, result, (uint32_t)ra[l]);
		first = false;
	});
	EACH_LANE(mask, l, rd[l] = result;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_redux(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];
	bool bits = aop >= CK_PTX_AND && aop <= CK_PTX_XOR;

	in->mask_at = 1;
	if (in->mod[CK_PTX_MOD_SYNC] != CK_PTX_BAR_SYNC || !aop || aop > CK_PTX_MAX ||
	    bits != (in->type == CK_PTX_B32))
		return NULL;
	return redux;
}

EXECUTOR(elect)
{
	uint64_t *rd = D(0), *rp = D(1);
	uint32_t leader = mask ? (uint32_t)__builtin_ctz(mask) : 0;

	EACH_LANE(mask, l, rd[l] = leader; rp[l] = l == leader;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_elect(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	in->mask_at = 0;
	return in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_SYNC ? elect : NULL;
}

EXECUTOR(activemask)
{
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = mask;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_activemask(struct ck_ptx_insn *in __attribute__((unused)),
				   unsigned int operands __attribute__((unused)))
{
	return activemask;
}

EXECUTOR(warp_sync)
{
	return 0;
}

/* bar.warp.sync waits within the warp; the others are of the block (barrier.c). */
ck_ptx_exec ck_ptx_pick_bar(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int sync = in->mod[CK_PTX_MOD_SYNC], aop = in->mod[CK_PTX_MOD_AOP];

	if (in->mod[CK_PTX_MOD_WARP]) {
		if (sync != CK_PTX_BAR_SYNC || operands != 1 || in->type)
			return NULL;
		in->kind = CK_PTX_CONVERGE;
		in->mask_at = 0;
		return warp_sync;
	}
	/* The count is s[1] and the predicate of .red is s[2]; absent, both are the sink. */
	if (sync == CK_PTX_BAR_RED) {
		if (operands < 3 || (aop == CK_PTX_POPC) != (in->type == CK_PTX_U32) ||
		    (aop != CK_PTX_POPC && aop != CK_PTX_AND && aop != CK_PTX_OR))
			return NULL;
		if (operands == 3) {
			in->s[2] = in->s[1];
			in->s[1] = CK_PTX_ROW_SINK;
		}
		in->vec = operands == 4;
		return warp_sync;
	}
	if (!sync || aop || in->type || operands > 2 ||
	    (sync == CK_PTX_BAR_ARRIVE && operands != 2))
		return NULL;
	in->vec = operands == 2;
	return warp_sync;
}
