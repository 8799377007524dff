/*
 * emu/ptx/ops/op_int.c - executors of integer arithmetic.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

int64_t ck_ptx_signed(uint64_t bits, unsigned int type)
{
	switch (ck_ptx_type_bytes(type)) {
	case 1:
		return (int8_t)bits;
	case 2:
		return (int16_t)bits;
	case 4:
		return (int32_t)bits;
	default:
		return (int64_t)bits;
	}
}

uint64_t ck_ptx_unsigned(uint64_t bits, unsigned int type)
{
	switch (ck_ptx_type_bytes(type)) {
	case 1:
		return (uint8_t)bits;
	case 2:
		return (uint16_t)bits;
	case 4:
		return (uint32_t)bits;
	default:
		return bits;
	}
}

/*
 * One executor: the sources as values of type t in a, b, c; the expression is the result.
 * wide is an unsigned type in which the arithmetic wraps without being undefined.
 */
#define OP3(name, t, wide, result, ...)                                                            \
	EXECUTOR(name)                                                                             \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);                                 \
		uint64_t *rd = D(0);                                                               \
                                                                                                   \
		EACH_LANE(mask, l, const t a = (t)ra[l]; const t b = (t)rb[l];                     \
			  const t c = (t)rc[l]; (void)a; (void)b; (void)c;                         \
			  rd[l] = (uint64_t)(result)(__VA_ARGS__););                               \
		return 0;                                                                          \
	}

/* The six types of most integer instructions. */
#define OP_ALL(name, ...)                                                                          \
	OP3(name##_u16, uint16_t, uint32_t, uint16_t, __VA_ARGS__)                                 \
	OP3(name##_s16, int16_t, uint32_t, int16_t, __VA_ARGS__)                                   \
	OP3(name##_u32, uint32_t, uint32_t, uint32_t, __VA_ARGS__)                                 \
	OP3(name##_s32, int32_t, uint32_t, int32_t, __VA_ARGS__)                                   \
	OP3(name##_u64, uint64_t, uint64_t, uint64_t, __VA_ARGS__)                                 \
	OP3(name##_s64, int64_t, uint64_t, int64_t, __VA_ARGS__)

#define PICK_ALL(name)                                                                             \
	switch (in->type) {                                                                        \
	case CK_PTX_U16:                                                                           \
		return name##_u16;                                                                 \
	case CK_PTX_S16:                                                                           \
		return name##_s16;                                                                 \
	case CK_PTX_U32:                                                                           \
	case CK_PTX_B32:                                                                           \
		return name##_u32;                                                                 \
	case CK_PTX_S32:                                                                           \
		return name##_s32;                                                                 \
	case CK_PTX_U64:                                                                           \
	case CK_PTX_B64:                                                                           \
		return name##_u64;                                                                 \
	case CK_PTX_S64:                                                                           \
		return name##_s64;                                                                 \
	default:                                                                                   \
		return NULL;                                                                       \
	}

/* Sums and products modulo 2^n do not depend on the sign. */
#define OP_WRAP(name, ...)                                                                         \
	OP3(name##_16, uint16_t, uint32_t, uint16_t, __VA_ARGS__)                                  \
	OP3(name##_32, uint32_t, uint32_t, uint32_t, __VA_ARGS__)                                  \
	OP3(name##_64, uint64_t, uint64_t, uint64_t, __VA_ARGS__)

#define PICK_WRAP(name)                                                                            \
	return ck_ptx_type_bytes(in->type) == 2	  ? name##_16                                      \
	       : ck_ptx_type_bytes(in->type) == 4 ? name##_32                                      \
						  : name##_64

OP_WRAP(add, (uint64_t)a + b)
OP_WRAP(sub, (uint64_t)a - b)
OP_WRAP(mul, (uint64_t)a *b)
OP_WRAP(mad, (uint64_t)a *b + c)

static int32_t clamp_s32(int64_t v)
{
	return (int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

OP3(add_sat, int32_t, , int32_t, clamp_s32((int64_t)a + b))
OP3(sub_sat, int32_t, , int32_t, clamp_s32((int64_t)a - b))

/*
 * With the carry: a + b + CC.CF, the carry out of the type's width in CC.CF again. Subtraction
 * adds the complement, so after it CC.CF is 1 when there was no borrow: nvcc's 128-bit division
 * reads it with addc.
 */
static u128 multiply_operands(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8;
	u128 p;

	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT)
		p = (u128)((s128)ck_ptx_signed(a, in->type) * ck_ptx_signed(b, in->type));
	else
		p = (u128)ck_ptx_unsigned(a, in->type) * ck_ptx_unsigned(b, in->type);
	return in->mod[CK_PTX_MOD_PART] == CK_PTX_HI ? p >> bits : p;
}

static void add_with_carry(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask,
			   bool take, bool minus, bool multiply)
{
	uint64_t *cf = ck_ptx_row(w, CK_PTX_ROW_CARRY), *rd = D(0);
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8;

	EACH_LANE(mask, l, {
		uint64_t x = ra[l], y = rb[l];
		u128 sum;

		if (multiply) {
			x = (uint64_t)multiply_operands(in, x, y);
			y = rc[l];
		}
		x = ck_ptx_unsigned(x, in->type);
		y = ck_ptx_unsigned(y, in->type);
		if (minus)
			y = ck_ptx_unsigned(~y, in->type);
		sum = (u128)x + y + (take ? cf[l] & 1 : minus);
		if (in->mod[CK_PTX_MOD_CC])
			cf[l] = (uint64_t)(sum >> bits) & 1;
		rd[l] = ck_ptx_unsigned((uint64_t)sum, in->type);
	});
}

#define OP_CARRY(name, take, minus, multiply)                                                      \
	EXECUTOR(name)                                                                             \
	{                                                                                          \
		add_with_carry(w, in, mask, take, minus, multiply);                                \
		return 0;                                                                          \
	}

OP_CARRY(add_cc, false, false, false)
OP_CARRY(sub_cc, false, true, false)
OP_CARRY(addc, true, false, false)
OP_CARRY(subc, true, true, false)
OP_CARRY(mad_cc, false, false, true)
OP_CARRY(madc, true, false, true)

static bool only_float(const struct ck_ptx_insn *in)
{
	return in->mod[CK_PTX_MOD_ROUND] || in->mod[CK_PTX_MOD_FTZ];
}

static bool has_carry(const struct ck_ptx_insn *in)
{
	return ck_ptx_type_bytes(in->type) >= 4;
}

static bool bad_extreme(const struct ck_ptx_insn *in)
{
	return only_float(in) || in->mod[CK_PTX_MOD_NANS] || in->mod[CK_PTX_MOD_XORSIGN] ||
	       in->mod[CK_PTX_MOD_ABS] ||
	       (in->mod[CK_PTX_MOD_RELU] && in->type != CK_PTX_S32 && in->type != CK_PTX_S16X2);
}

ck_ptx_exec ck_ptx_pick_add(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_add(in, operands);
	if (only_float(in))
		return NULL;
	if (in->mod[CK_PTX_MOD_CC])
		return has_carry(in) && !in->mod[CK_PTX_MOD_SAT] ? add_cc : NULL;
	if (in->mod[CK_PTX_MOD_SAT])
		return in->type == CK_PTX_S32 ? add_sat : NULL;
	if (ck_ptx_is_pair(in))
		return ck_ptx_pair;
	PICK_WRAP(add);
}

ck_ptx_exec ck_ptx_pick_sub(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_sub(in, operands);
	if (only_float(in))
		return NULL;
	if (in->mod[CK_PTX_MOD_CC])
		return has_carry(in) && !in->mod[CK_PTX_MOD_SAT] ? sub_cc : NULL;
	if (in->mod[CK_PTX_MOD_SAT])
		return in->type == CK_PTX_S32 ? sub_sat : NULL;
	PICK_WRAP(sub);
}

ck_ptx_exec ck_ptx_pick_addc(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return has_carry(in) ? addc : NULL;
}

ck_ptx_exec ck_ptx_pick_subc(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return has_carry(in) ? subc : NULL;
}

OP3(mulhi_u16, uint16_t, , uint16_t, (uint32_t)a *b >> 16)
OP3(mulhi_s16, int16_t, , int16_t, (int32_t)a *b >> 16)
OP3(mulhi_u32, uint32_t, , uint32_t, (uint64_t)a *b >> 32)
OP3(mulhi_s32, int32_t, , int32_t, (int64_t)a *b >> 32)
OP3(mulhi_u64, uint64_t, , uint64_t, (u128)a *b >> 64)
OP3(mulhi_s64, int64_t, , int64_t, (s128)a *b >> 64)
OP3(mulwide_u16, uint16_t, , uint32_t, (uint32_t)a *b)
OP3(mulwide_s16, int16_t, , int32_t, (int32_t)a *b)
OP3(mulwide_u32, uint32_t, , uint64_t, (uint64_t)a *b)
OP3(mulwide_s32, int32_t, , int64_t, (int64_t)a *b)

ck_ptx_exec ck_ptx_pick_mul(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return in->mod[CK_PTX_MOD_PART] ? NULL : ck_ptx_pick_float_mul(in, operands);
	if (only_float(in) || in->mod[CK_PTX_MOD_SAT])
		return NULL;
	if (in->mod[CK_PTX_MOD_PART] == CK_PTX_HI)
		PICK_ALL(mulhi)
	if (in->mod[CK_PTX_MOD_PART] == CK_PTX_WIDE)
		return in->type == CK_PTX_U16	? mulwide_u16
		       : in->type == CK_PTX_S16 ? mulwide_s16
		       : in->type == CK_PTX_U32 ? mulwide_u32
		       : in->type == CK_PTX_S32 ? mulwide_s32
						: NULL;
	if (!in->mod[CK_PTX_MOD_PART])
		return NULL;
	PICK_WRAP(mul);
}

/* The addend is as wide as the result. */
EXECUTOR(mad_wide)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = (uint64_t)multiply_operands(in, ra[l], rb[l]) + rc[l];);
	return 0;
}

EXECUTOR(mad_hi)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t high = (uint64_t)multiply_operands(in, ra[l], rb[l]);

		rd[l] = in->mod[CK_PTX_MOD_SAT]
				? (uint64_t)clamp_s32((int64_t)(int32_t)high + (int32_t)rc[l])
				: high + rc[l];
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_mad(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int part = in->mod[CK_PTX_MOD_PART];

	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return part ? NULL : ck_ptx_pick_fma(in, operands);
	if (only_float(in) || !part)
		return NULL;
	if (in->mod[CK_PTX_MOD_SAT])
		return part == CK_PTX_HI && in->type == CK_PTX_S32 ? mad_hi : NULL;
	if (in->mod[CK_PTX_MOD_CC])
		return part != CK_PTX_WIDE && has_carry(in) ? mad_cc : NULL;
	if (part == CK_PTX_WIDE)
		return ck_ptx_type_bytes(in->type) < 8 ? mad_wide : NULL;
	if (part == CK_PTX_HI)
		return mad_hi;
	PICK_WRAP(mad);
}

ck_ptx_exec ck_ptx_pick_madc(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int part = in->mod[CK_PTX_MOD_PART];

	return has_carry(in) && (part == CK_PTX_LO || part == CK_PTX_HI) ? madc : NULL;
}

static int64_t extract_low24(uint64_t bits, bool negative)
{
	int64_t v = (int64_t)(bits & 0xffffff);

	return negative && (v & 0x800000) ? v - 0x1000000 : v;
}

EXECUTOR(mad24)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	bool s = in->type == CK_PTX_S32, add = in->op == CK_PTX_OP_MAD24;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t p = (uint64_t)(extract_low24(ra[l], s) * extract_low24(rb[l], s));

		if (in->mod[CK_PTX_MOD_PART] == CK_PTX_HI)
			p = s ? (uint64_t)((int64_t)p >> 16) : p >> 16;
		if (in->mod[CK_PTX_MOD_SAT])
			p = (uint64_t)clamp_s32((int32_t)p + (int64_t)(int32_t)rc[l]) - rc[l];
		rd[l] = (uint32_t)(p + (add ? rc[l] : 0));
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_mul24(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int part = in->mod[CK_PTX_MOD_PART];

	if (in->mod[CK_PTX_MOD_SAT] && (part != CK_PTX_HI || in->type != CK_PTX_S32))
		return NULL;
	return part == CK_PTX_LO || part == CK_PTX_HI ? mad24 : NULL;
}

ck_ptx_exec ck_ptx_pick_mad24(struct ck_ptx_insn *in, unsigned int operands)
{
	return ck_ptx_pick_mul24(in, operands);
}

OP_ALL(sad, (uint64_t)c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b))

ck_ptx_exec ck_ptx_pick_sad(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	PICK_ALL(sad)
}

/* By zero: all ones. The most negative number by -1: itself, and 0. */
#define OP_DIVIDE(bits)                                                                            \
	OP3(div_u##bits, uint##bits##_t, , uint##bits##_t, b ? a / b : UINT64_MAX)                 \
	OP3(div_s##bits, int##bits##_t, , int##bits##_t,                                           \
	    !b	      ? UINT64_MAX                                                                 \
	    : b == -1 ? 0 - (uint64_t)a                                                            \
		      : (uint64_t)(a / b))                                                         \
	OP3(rem_u##bits, uint##bits##_t, , uint##bits##_t, b ? a % b : UINT64_MAX)                 \
	OP3(rem_s##bits, int##bits##_t, , int##bits##_t, !b ? -1 : b == -1 ? 0 : a % b)

OP_DIVIDE(16)
OP_DIVIDE(32)
OP_DIVIDE(64)

ck_ptx_exec ck_ptx_pick_div(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_div(in, operands);
	if (only_float(in) || in->mod[CK_PTX_MOD_SAT] || in->mod[CK_PTX_MOD_APPROX])
		return NULL;
	PICK_ALL(div)
}

ck_ptx_exec ck_ptx_pick_rem(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	PICK_ALL(rem)
}

#define OP_ABS(bits)                                                                               \
	OP3(abs_##bits, int##bits##_t, , int##bits##_t, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)

OP_ABS(16)
OP_ABS(32)
OP_ABS(64)
OP_ALL(neg, 0 - (uint64_t)a)
OP_ALL(min, a < b ? a : b)
OP_ALL(max, a > b ? a : b)

static bool is_unsigned(const struct ck_ptx_insn *in)
{
	return ck_ptx_type_class(in->type) == CK_PTX_CLASS_UINT;
}

ck_ptx_exec ck_ptx_pick_abs(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_abs(in, operands);
	if (is_unsigned(in) || only_float(in))
		return NULL;
	PICK_WRAP(abs);
}

ck_ptx_exec ck_ptx_pick_neg(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_neg(in, operands);
	if (is_unsigned(in) || only_float(in))
		return NULL;
	PICK_ALL(neg)
}

ck_ptx_exec ck_ptx_pick_min(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_min(in, operands);
	if (bad_extreme(in))
		return NULL;
	if (ck_ptx_is_pair(in) || in->mod[CK_PTX_MOD_RELU])
		return ck_ptx_pair;
	PICK_ALL(min)
}

ck_ptx_exec ck_ptx_pick_max(struct ck_ptx_insn *in, unsigned int operands)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return ck_ptx_pick_float_max(in, operands);
	if (bad_extreme(in))
		return NULL;
	if (ck_ptx_is_pair(in) || in->mod[CK_PTX_MOD_RELU])
		return ck_ptx_pair;
	PICK_ALL(max)
}
