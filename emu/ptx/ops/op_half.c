/*
 * emu/ptx/ops/op_half.c - executors of f16, bf16 and pairs of them.
 *
 * One value is computed in double, in which sums and products of halves are exact enough, and
 * rounded once.
 */
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

#define OUT_OF_BOUNDS 0xffff /* the NaN that .oob takes for 0 */

static bool is_bfloat(const struct ck_ptx_insn *in)
{
	return in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;
}

static double flush_subnormal(const struct ck_ptx_insn *in, double value)
{
	return fabs(value) < (is_bfloat(in) ? 0x1p-126 : 0x1p-14) ? copysign(0, value) : value;
}

static double unpack_operand(const struct ck_ptx_insn *in, uint16_t bits)
{
	double value = is_bfloat(in) ? ck_ptx_bfloat_to(bits) : ck_ptx_half_to(bits);

	return in->mod[CK_PTX_MOD_FTZ] ? flush_subnormal(in, value) : value;
}

static double compute_half_op(const struct ck_ptx_insn *in, double a, double b, double c)
{
	switch (in->op) {
	case CK_PTX_OP_ADD:
		return ck_ptx_half_fma(a, 1, b);
	case CK_PTX_OP_SUB:
		return ck_ptx_half_fma(a, 1, -b);
	case CK_PTX_OP_MUL:
		return a * b;
	case CK_PTX_OP_FMA:
		return ck_ptx_half_fma(a, b, c);
	case CK_PTX_OP_MIN:
	case CK_PTX_OP_MAX:
		return ck_ptx_extreme(in, a, b);
	case CK_PTX_OP_ABS:
		return fabs(a);
	case CK_PTX_OP_NEG:
		return -a;
	case CK_PTX_OP_EX2:
		return exp2(a);
	default:
		return tanh(a);
	}
}

static uint16_t execute_element(const struct ck_ptx_insn *in, uint16_t a, uint16_t b, uint16_t c)
{
	double value;

	if (in->mod[CK_PTX_MOD_OOB] && (a == OUT_OF_BOUNDS || b == OUT_OF_BOUNDS))
		return 0;
	value = compute_half_op(in, unpack_operand(in, a), unpack_operand(in, b),
				unpack_operand(in, c));
	if (in->mod[CK_PTX_MOD_SAT])
		value = value > 0 ? (value < 1 ? value : 1) : 0;
	if (in->mod[CK_PTX_MOD_RELU] && value <= 0)
		value = 0;
	if (in->mod[CK_PTX_MOD_FTZ])
		value = flush_subnormal(in, value);
	return is_bfloat(in) ? ck_ptx_bfloat_from(value) : ck_ptx_half_from(value);
}

EXECUTOR(half)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	bool pair = ck_ptx_type_bytes(in->type) == 4;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t a = ra[l], b = rb[l], c = rc[l];
		uint64_t r = execute_element(in, (uint16_t)a, (uint16_t)b, (uint16_t)c);

		if (pair)
			r |= (uint64_t)execute_element(in, (uint16_t)(a >> 16), (uint16_t)(b >> 16),
						       (uint16_t)(c >> 16))
			     << 16;
		rd[l] = r;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_half(struct ck_ptx_insn *in)
{
	return in->mod[CK_PTX_MOD_ROUND] > CK_PTX_RN ? NULL : half;
}
