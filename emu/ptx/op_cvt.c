/*
 * emu/ptx/op_cvt.c - executors of cvt: between all integers and floats.
 */
#include <fenv.h>
#include <math.h>

#include "emu/ptx/exec.h"
#include "emu/ptx/half.h"
#include "emu/ptx/op_float.h"

static bool is_float(unsigned int type)
{
	return ck_ptx_type_class(type) == CK_PTX_CLASS_FLOAT;
}

static bool is_signed(unsigned int type)
{
	return ck_ptx_type_class(type) == CK_PTX_CLASS_SINT;
}

/* Every type fits a double exactly but 64-bit integers. */
static double real_of(const struct ck_ptx_insn *in, unsigned int type, uint64_t bits)
{
	float value;

	switch (type) {
	case CK_PTX_F16:
		return ck_ptx_half_to((uint16_t)bits);
	case CK_PTX_BF16:
		return ck_ptx_bfloat_to((uint16_t)bits);
	case CK_PTX_F32:
		value = ck_ptx_f32(bits);
		return (double)(in->mod[CK_PTX_MOD_FTZ] ? ck_ptx_flush(value) : value);
	default:
		return ck_ptx_f64(bits);
	}
}

/* @value as bits of the float type; the host's rounding direction is set for F32. */
static uint64_t real_to(const struct ck_ptx_insn *in, unsigned int type, double value)
{
	unsigned int round = in->mod[CK_PTX_MOD_ROUND];
	float single;

	if (in->mod[CK_PTX_MOD_SAT])
		value = value > 0 ? (value < 1 ? value : 1) : 0;
	if (in->mod[CK_PTX_MOD_RELU])
		value = value > 0 || isnan(value) ? value : 0;
	switch (type) {
	case CK_PTX_F16:
	case CK_PTX_F16X2:
		return ck_ptx_half_from(value, round);
	case CK_PTX_BF16:
	case CK_PTX_BF16X2:
		return ck_ptx_bfloat_from(value, round);
	case CK_PTX_F32:
		single = (float)value;
		if (in->mod[CK_PTX_MOD_FTZ])
			single = ck_ptx_flush(single);
		return isnan(single) ? 0x7fffffff : ck_ptx_u32(single);
	default:
		return ck_ptx_u64(value);
	}
}

/* To the limits of the type; nearbyint has rounded. */
static uint64_t clamp_real(const struct ck_ptx_insn *in, double value)
{
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8;
	double high = ldexp(1, (int)bits - is_signed(in->type));
	double low = is_signed(in->type) ? -high : 0;

	if (isnan(value)) {
		if (in->type2 != CK_PTX_F64 && bits < 64)
			return 0;
		return 1ull << (bits - 1);
	}
	if (value >= high)
		return is_signed(in->type) ? (1ull << (bits - 1)) - 1 : ~0ull >> (64 - bits);
	if (value <= low)
		return is_signed(in->type) ? ~0ull << (bits - 1) : 0;
	return is_signed(in->type) ? (uint64_t)(int64_t)value : (uint64_t)value;
}

static uint64_t clamp_integer(const struct ck_ptx_insn *in, uint64_t bits)
{
	unsigned int width = ck_ptx_type_bytes(in->type) * 8;
	uint64_t umax = ~0ull >> (64 - width);
	int64_t smax = (int64_t)(umax >> 1), value;

	if (!is_signed(in->type2)) {
		uint64_t u = ck_ptx_unsigned(bits, in->type2);
		uint64_t top = is_signed(in->type) ? (uint64_t)smax : umax;

		return ck_min(u, top);
	}
	value = ck_ptx_signed(bits, in->type2);
	if (!is_signed(in->type))
		return value < 0 ? 0 : ck_min((uint64_t)value, umax);
	return (uint64_t)ck_max(ck_min(value, smax), -smax - 1);
}

static uint64_t extend(unsigned int type, uint64_t bits)
{
	return is_signed(type) ? (uint64_t)ck_ptx_signed(bits, type) : ck_ptx_unsigned(bits, type);
}

EXECUTOR(int_to_int)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = extend(in->type, extend(in->type2, ra[l])););
	return 0;
}

EXECUTOR(int_to_int_sat)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = clamp_integer(in, ra[l]););
	return 0;
}

EXECUTOR(float_to_int)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	fesetround(ck_ptx_host_round(in->mod[CK_PTX_MOD_ROUND]));
	EACH_LANE(mask, l, rd[l] = clamp_real(in, nearbyint(real_of(in, in->type2, ra[l]))););
	fesetround(FE_TONEAREST);
	return 0;
}

/* 64-bit integers go to single precision directly: by way of a double they would round twice. */
EXECUTOR(int_to_float)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);
	bool s = is_signed(in->type2);

	fesetround(ck_ptx_host_round(in->mod[CK_PTX_MOD_ROUND]));
	EACH_LANE(mask, l, {
		uint64_t a = extend(in->type2, ra[l]);
		float single = s ? (float)(int64_t)a : (float)a;

		if (in->type == CK_PTX_F32 && !in->mod[CK_PTX_MOD_SAT])
			rd[l] = ck_ptx_u32(single);
		else
			rd[l] = real_to(in, in->type, s ? (double)(int64_t)a : (double)a);
	});
	fesetround(FE_TONEAREST);
	return 0;
}

EXECUTOR(float_to_float)
{
	const uint64_t *ra = S(0);
	unsigned int round = in->mod[CK_PTX_MOD_ROUND];
	uint64_t *rd = D(0);

	fesetround(ck_ptx_host_round(round));
	EACH_LANE(mask, l, {
		double value = real_of(in, in->type2, ra[l]);

		if (round >= CK_PTX_RNI)
			value = nearbyint(value);
		rd[l] = real_to(in, in->type, value);
	});
	fesetround(FE_TONEAREST);
	return 0;
}

/* cvt.f16x2.f32 d, a, b: a is the upper half. */
EXECUTOR(pack_pair)
{
	const uint64_t *ra = S(0), *rb = S(1);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t high = real_to(in, in->type, real_of(in, in->type2, ra[l]));

		rd[l] = high << 16 | real_to(in, in->type, real_of(in, in->type2, rb[l]));
	});
	return 0;
}

/* Widening needs no rounding, narrowing must name one, within a type it is to an integer. */
static bool round_known(const struct ck_ptx_insn *in)
{
	unsigned int round = in->mod[CK_PTX_MOD_ROUND];
	bool to_int = round >= CK_PTX_RNI;

	if (!is_float(in->type))
		return is_float(in->type2) ? to_int : !round;
	if (!is_float(in->type2))
		return round && round <= CK_PTX_RP;
	if (in->type == in->type2)
		return !round || to_int;
	if (ck_ptx_type_bytes(in->type) > ck_ptx_type_bytes(in->type2))
		return !round || to_int || round == CK_PTX_RN;
	return round && round != CK_PTX_RNA ? !to_int || in->type == CK_PTX_F32 : false;
}

ck_ptx_exec ck_ptx_pick_cvt(struct ck_ptx_insn *in, unsigned int operands)
{
	bool pair = in->type == CK_PTX_F16X2 || in->type == CK_PTX_BF16X2;

	if (pair)
		return operands == 3 && in->type2 == CK_PTX_F32 && in->mod[CK_PTX_MOD_ROUND] &&
				       in->mod[CK_PTX_MOD_ROUND] <= CK_PTX_RP
			       ? pack_pair
			       : NULL;
	if (operands == 3 || !round_known(in))
		return NULL;
	if (is_float(in->type))
		return is_float(in->type2) ? float_to_float : int_to_float;
	if (is_float(in->type2))
		return float_to_int;
	return in->mod[CK_PTX_MOD_SAT] ? int_to_int_sat : int_to_int;
}
