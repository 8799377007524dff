/*
 * emu/ptx/ops/op_cvt.c - executors of cvt: between all integers and floats.
 */
#include <fenv.h>
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

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
	case CK_PTX_F16X2:
		return ck_ptx_half_to((uint16_t)bits);
	case CK_PTX_BF16:
		return ck_ptx_bfloat_to((uint16_t)bits);
	case CK_PTX_E4M3X2:
		return ck_ptx_small_to((uint8_t)bits, CK_PTX_E4M3);
	case CK_PTX_E5M2X2:
		return ck_ptx_small_to((uint8_t)bits, CK_PTX_E5M2);
	case CK_PTX_F32:
		value = ck_ptx_f32(bits);
		if (!in->mod[CK_PTX_MOD_FTZ] || in->type == CK_PTX_F16)
			return (double)value;
		return (double)(isnan(value) ? ck_ptx_f32(0x7fffffff) : ck_ptx_flush(value));
	default:
		return ck_ptx_f64(bits);
	}
}

/* @value as bits of the float type; the host's rounding direction is set for F32. */
static uint64_t real_to(const struct ck_ptx_insn *in, unsigned int type, double value)
{
	unsigned int round = in->mod[CK_PTX_MOD_ROUND];
	bool finite = in->mod[CK_PTX_MOD_SATFINITE];
	float single;

	if (in->mod[CK_PTX_MOD_SAT])
		value = value > 0 ? (value < 1 ? value : 1) : 0;
	if (in->mod[CK_PTX_MOD_RELU])
		value = value > 0 || isnan(value) ? value : 0;
	switch (type) {
	case CK_PTX_F16:
	case CK_PTX_F16X2:
		return ck_ptx_small_from(value, CK_PTX_F16, round, finite);
	case CK_PTX_BF16:
	case CK_PTX_BF16X2:
		return ck_ptx_small_from(value, CK_PTX_BF16, round, finite);
	case CK_PTX_TF32:
		return ck_ptx_small_from(value, CK_PTX_TF32, round, finite);
	case CK_PTX_E4M3X2:
		return ck_ptx_small_from(value, CK_PTX_E4M3, round, true);
	case CK_PTX_E5M2X2:
		return ck_ptx_small_from(value, CK_PTX_E5M2, round, true);
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
		return is_signed(in->type) ? ~0ull << (bits - 1) : 1ull << (bits - 1);
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

static uint64_t extend_integer(unsigned int type, uint64_t bits)
{
	return is_signed(type) ? (uint64_t)ck_ptx_signed(bits, type) : ck_ptx_unsigned(bits, type);
}

EXECUTOR(int_to_int)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = extend_integer(in->type, extend_integer(in->type2, ra[l])););
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
		uint64_t a = extend_integer(in->type2, ra[l]);
		float single = s ? (float)(int64_t)a : (float)a;

		if (in->type == CK_PTX_F32 && !in->mod[CK_PTX_MOD_SAT])
			rd[l] = ck_ptx_u32(single);
		else
			rd[l] = real_to(in, in->type, s ? (double)(int64_t)a : (double)a);
	});
	fesetround(FE_TONEAREST);
	return 0;
}

/*
 * NaNs that keep as many of their bits as possible: to and from double, and where a single is only
 * the longer form of the same value. Others are the one NaN of their format.
 */
static bool nan_kept(const struct ck_ptx_insn *in, uint64_t a, uint64_t *result)
{
	uint64_t wide;

	if (in->type == CK_PTX_F32 && in->type2 == CK_PTX_BF16) {
		*result = (uint64_t)(uint16_t)a << 16;
		return true;
	}
	if (in->type == CK_PTX_F64 && in->type2 == CK_PTX_F16) {
		*result = (a & 0x8000) << 48 | 0x7ff8ull << 48 | (a & 0x3ff) << 42;
		return true;
	}
	if (in->type2 != CK_PTX_F64 || in->type == CK_PTX_F64)
		return false;
	wide = a | 1ull << 51;
	if (in->type == CK_PTX_F32)
		*result = (wide >> 32 & 1ull << 31) | 0x7f800000 | (wide >> 29 & 0x7fffff);
	else if (in->type == CK_PTX_F16)
		*result = (wide >> 48 & 1ull << 15) | 0x7c00 | (wide >> 42 & 0x3ff);
	else
		*result = (wide >> 48 & 1ull << 15) | 0x7f80 | (wide >> 45 & 0x7f);
	return true;
}

/* cvt.rna.tf32: half of a unit is added to the bits and the rest cut off; a NaN's is only cut. */
EXECUTOR(to_tf32)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint32_t bits = (uint32_t)ra[l], half = isnan(ck_ptx_f32(bits)) ? 0 : 0x1000;

		bits = (bits + half) & ~0x1fffu;

		if (in->mod[CK_PTX_MOD_SATFINITE] && (bits & 0x7f800000) == 0x7f800000)
			bits -= 0x2000;
		rd[l] = bits;
	});
	return 0;
}

/* cvt.f32.f32 and the like, without a modifier: the same bits. */
EXECUTOR(same)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = ra[l];);
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
		if (!isnan(value) || in->mod[CK_PTX_MOD_SAT] || !nan_kept(in, ra[l], &rd[l]))
			rd[l] = real_to(in, in->type, value);
	});
	fesetround(FE_TONEAREST);
	return 0;
}

/* Of the values of a pair: how many bits each. */
static unsigned int half_bits(unsigned int type)
{
	return ck_ptx_type_bytes(type) * 4;
}

/* cvt.f16x2.f32 d, a, b: a is the upper half. */
EXECUTOR(pack_pair)
{
	const uint64_t *ra = S(0), *rb = S(1);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t high = real_to(in, in->type, real_of(in, in->type2, ra[l]));

		rd[l] = high << half_bits(in->type) |
			real_to(in, in->type, real_of(in, in->type2, rb[l]));
	});
	return 0;
}

/* A pair to a pair. */
EXECUTOR(pair_to_pair)
{
	const uint64_t *ra = S(0);
	unsigned int from = half_bits(in->type2), to = half_bits(in->type);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t high = real_to(in, in->type, real_of(in, in->type2, ra[l] >> from));

		rd[l] = high << to | real_to(in, in->type, real_of(in, in->type2, ra[l]));
	});
	return 0;
}

static ck_ptx_exec pick_pair(const struct ck_ptx_insn *in, unsigned int operands)
{
	bool small = in->type == CK_PTX_E4M3X2 || in->type == CK_PTX_E5M2X2;
	unsigned int round = in->mod[CK_PTX_MOD_ROUND];

	if (in->mod[CK_PTX_MOD_SAT] || in->mod[CK_PTX_MOD_FTZ] ||
	    (round != CK_PTX_RN && (small || round != CK_PTX_RZ)) ||
	    (small && !in->mod[CK_PTX_MOD_SATFINITE]))
		return NULL;
	if (operands == 3)
		return in->type2 == CK_PTX_F32 ? pack_pair : NULL;
	if (small)
		return in->type2 == CK_PTX_F16X2 ? pair_to_pair : NULL;
	return in->type == CK_PTX_F16X2 && round == CK_PTX_RN &&
			       (in->type2 == CK_PTX_E4M3X2 || in->type2 == CK_PTX_E5M2X2)
		       ? pair_to_pair
		       : NULL;
}

/* cvt.pack.sat: a is the upper value. */
EXECUTOR(cvt_pack)
{
	static const uint8_t widths[CK_PTX_TYPES] = {
		[CK_PTX_U16] = 16, [CK_PTX_S16] = 16, [CK_PTX_U8] = 8, [CK_PTX_S8] = 8,
		[CK_PTX_U4] = 4,   [CK_PTX_S4] = 4,   [CK_PTX_U2] = 2, [CK_PTX_S2] = 2};
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	unsigned int bits = widths[in->type];
	bool s = is_signed(in->type);
	int32_t high = (1 << (bits - s)) - 1, low = s ? -high - 1 : 0;
	uint64_t *rd = D(0), field = (1u << bits) - 1;

	EACH_LANE(mask, l, {
		uint64_t a = (uint64_t)ck_max(ck_min((int32_t)ra[l], high), low) & field;
		uint64_t b = (uint64_t)ck_max(ck_min((int32_t)rb[l], high), low) & field;
		uint64_t kept = bits < 16 ? rc[l] << (2 * bits) : 0;

		rd[l] = (uint32_t)(kept | a << bits | b);
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_cvt_pack(struct ck_ptx_insn *in, unsigned int operands)
{
	bool wide = ck_ptx_type_bytes(in->type) == 2;

	if (!in->mod[CK_PTX_MOD_SAT] || in->type2 != CK_PTX_S32 || in->type4)
		return NULL;
	if (wide ? operands != 3 || in->type3 : operands != 4 || in->type3 != CK_PTX_B32)
		return NULL;
	return cvt_pack;
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
	if (in->type == CK_PTX_F16X2 || in->type == CK_PTX_BF16X2 || in->type == CK_PTX_E4M3X2 ||
	    in->type == CK_PTX_E5M2X2)
		return pick_pair(in, operands);
	if (in->type == CK_PTX_TF32) {
		unsigned int round = in->mod[CK_PTX_MOD_ROUND];

		if (operands != 2 || in->type2 != CK_PTX_F32)
			return NULL;
		return round == CK_PTX_RNA			  ? to_tf32
		       : round == CK_PTX_RN || round == CK_PTX_RZ ? float_to_float
								  : NULL;
	}
	if (operands == 3 || !round_known(in) ||
	    (in->mod[CK_PTX_MOD_SATFINITE] && in->type != CK_PTX_F16 && in->type != CK_PTX_BF16))
		return NULL;
	if (in->type == in->type2 && (in->type == CK_PTX_F32 || in->type == CK_PTX_F64) &&
	    !in->mod[CK_PTX_MOD_ROUND] && !in->mod[CK_PTX_MOD_FTZ] && !in->mod[CK_PTX_MOD_SAT] &&
	    !in->mod[CK_PTX_MOD_RELU])
		return same;
	if (is_float(in->type))
		return is_float(in->type2) ? float_to_float : int_to_float;
	if (is_float(in->type2))
		return float_to_int;
	return in->mod[CK_PTX_MOD_SAT] ? int_to_int_sat : int_to_int;
}
