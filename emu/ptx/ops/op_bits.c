/*
 * emu/ptx/ops/op_bits.c - executors of bits, bytes and logic.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

#define OP(name, t, ...)                                                                           \
	EXECUTOR(name)                                                                             \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1), *rc = S(2), *re = S(3);                     \
		uint64_t *rd = D(0);                                                               \
                                                                                                   \
		EACH_LANE(mask, l, const t a = (t)ra[l]; const uint64_t b = rb[l];                 \
			  const uint64_t c = rc[l]; const uint64_t e = re[l]; (void)a; (void)b;    \
			  (void)c; (void)e; rd[l] = (uint64_t)(__VA_ARGS__););                     \
		return 0;                                                                          \
	}

#define PICK(name)                                                                                 \
	ck_ptx_exec ck_ptx_pick_##name(struct ck_ptx_insn *in __attribute__((unused)),             \
				       unsigned int operands __attribute__((unused)))

#define BY_SIZE(in, narrow, wide) (ck_ptx_type_bytes((in)->type) == 8 ? wide : narrow)

OP(and64, uint64_t, a &b)
OP(or64, uint64_t, a | b)
OP(xor64, uint64_t, a ^ b)
OP(not64, uint64_t, ~a)
OP(not_pred, uint64_t, ~a & 1)
OP(cnot16, uint16_t, a == 0)
OP(cnot32, uint32_t, a == 0)
OP(cnot64, uint64_t, a == 0)
OP(popc32, uint32_t, __builtin_popcount(a))
OP(popc64, uint64_t, __builtin_popcountll(a))
OP(clz32, uint32_t, a ? __builtin_clz(a) : 32)
OP(clz64, uint64_t, a ? __builtin_clzll(a) : 64)

PICK(and)
{
	return and64;
}

PICK(or)
{
	return or64;
}

PICK(xor)
{
	return xor64;
}

PICK(not )
{
	return in->type == CK_PTX_PRED ? not_pred : not64;
}

PICK(cnot)
{
	return ck_ptx_type_bytes(in->type) == 2 ? cnot16 : BY_SIZE(in, cnot32, cnot64);
}

PICK(popc)
{
	return BY_SIZE(in, popc32, popc64);
}

PICK(clz)
{
	return BY_SIZE(in, clz32, clz64);
}

static uint32_t find_high(uint64_t v, const struct ck_ptx_insn *in)
{
	unsigned int bits = ck_ptx_type_bytes(in->type) * 8;
	uint32_t at;

	/* For signed types the highest bit that differs from the sign. */
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT && ck_ptx_signed(v, in->type) < 0)
		v = ~v;
	v = ck_ptx_unsigned(v, in->type);
	if (v == 0)
		return UINT32_MAX;
	at = 63 - (uint32_t)__builtin_clzll(v);
	return in->mod[CK_PTX_MOD_SHIFTAMT] ? bits - 1 - at : at;
}

OP(bfind, uint64_t, find_high(a, in))

PICK(bfind)
{
	return bfind;
}

/* The @n-th set bit of @v, counted from bit @base up (n > 0) or down; 0 is the base itself. */
static uint32_t find_nth(uint32_t v, uint32_t base, int32_t n)
{
	int step = n < 0 ? -1 : 1;
	int64_t left = n < 0 ? -(int64_t)n : n;

	if (base > 31)
		return UINT32_MAX;
	if (n == 0)
		return v >> base & 1 ? base : UINT32_MAX;
	for (int at = (int)base; at >= 0 && at < 32; at += step)
		if (v >> at & 1 && --left == 0)
			return (uint32_t)at;
	return UINT32_MAX;
}

OP(fns, uint32_t, find_nth(a, (uint32_t)b, (int32_t)c))

PICK(fns)
{
	return fns;
}

static uint64_t reverse_bits(uint64_t v)
{
	v = (v >> 1 & 0x5555555555555555ull) | (v & 0x5555555555555555ull) << 1;
	v = (v >> 2 & 0x3333333333333333ull) | (v & 0x3333333333333333ull) << 2;
	v = (v >> 4 & 0x0f0f0f0f0f0f0f0full) | (v & 0x0f0f0f0f0f0f0f0full) << 4;
	return __builtin_bswap64(v);
}

OP(brev32, uint32_t, reverse_bits(a) >> 32)
OP(brev64, uint64_t, reverse_bits(a))

PICK(brev)
{
	return BY_SIZE(in, brev32, brev64);
}

/* Place and length count 8 bits; of 64-bit values the hardware takes all of them. */
static void field_limits(uint32_t msb, uint32_t *pos, uint32_t *len)
{
	*pos = msb == 63 ? ck_min(*pos, 255u) : *pos & 0xff;
	*len = msb == 63 ? ck_min(*len, 255u) : *len & 0xff;
}

static uint64_t extract_field(const struct ck_ptx_insn *in, uint64_t a, uint32_t pos, uint32_t len)
{
	uint32_t msb = ck_ptx_type_bytes(in->type) * 8 - 1;
	uint64_t v = ck_ptx_unsigned(a, in->type), sign = 0;

	field_limits(msb, &pos, &len);
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT && len > 0)
		sign = v >> ck_min(pos + len - 1, msb) & 1;
	v = pos > msb ? 0 : v >> pos;
	/* The bits above the value are filled with the sign of the field. */
	if (pos <= msb && sign && pos + len > msb + 1)
		v |= pos ? ~0ull << (msb + 1 - pos) : 0;
	else if (pos > msb)
		v = sign ? ~0ull : 0;
	if (len < 64)
		v &= (1ull << len) - 1;
	if (sign && len < 64)
		v |= ~0ull << len;
	return ck_ptx_unsigned(v, in->type);
}

OP(bfe, uint64_t, extract_field(in, a, (uint32_t)b, (uint32_t)c))

PICK(bfe)
{
	return bfe;
}

/* The low @len bits of @a put into @b at @pos; bits beyond the width are dropped. */
static uint64_t insert_field(uint32_t msb, uint64_t a, uint64_t b, uint32_t pos, uint32_t len)
{
	uint64_t field;

	field_limits(msb, &pos, &len);
	if (len == 0 || pos > 63)
		return b;
	field = len > 63 ? ~0ull : (1ull << len) - 1;
	return (b & ~(field << pos)) | (a & field) << pos;
}

OP(bfi32, uint32_t, (uint32_t)insert_field(31, a, b, (uint32_t)c, (uint32_t)e))
OP(bfi64, uint64_t, insert_field(63, a, b, (uint32_t)c, (uint32_t)e))

PICK(bfi)
{
	return BY_SIZE(in, bfi32, bfi64);
}

static uint32_t bit_mask(uint32_t pos, uint32_t len, bool wrap)
{
	if (wrap) {
		pos &= 31;
		len &= 31;
	}
	return (uint32_t)insert_field(31, ~0ull, 0, ck_min(pos, 64u), ck_min(len, 64u));
}

OP(bmsk, uint32_t, bit_mask(a, (uint32_t)b, in->mod[CK_PTX_MOD_WRAP] == 1))

PICK(bmsk)
{
	return in->mod[CK_PTX_MOD_WRAP] ? bmsk : NULL;
}

static uint32_t extend_low_bits(uint32_t a, uint32_t n, bool wrap, bool negative)
{
	if (wrap)
		n &= 31;
	if (n == 0)
		return 0;
	if (n > 31)
		return a;
	a <<= 32 - n;
	return negative ? (uint32_t)((int32_t)a >> (32 - n)) : a >> (32 - n);
}

OP(szext, uint32_t,
   extend_low_bits(a, (uint32_t)b, in->mod[CK_PTX_MOD_WRAP] == 1, in->type == CK_PTX_S32))

PICK(szext)
{
	return in->mod[CK_PTX_MOD_WRAP] ? szext : NULL;
}

static int64_t part_of(uint64_t v, unsigned int index, unsigned int bits, bool negative)
{
	v >>= index * bits;
	if (bits == 8)
		return negative ? (int64_t)(int8_t)v : (int64_t)(uint8_t)v;
	return negative ? (int64_t)(int16_t)v : (int64_t)(uint16_t)v;
}

static uint32_t compute_dot_product(const struct ck_ptx_insn *in, uint64_t a, uint64_t b,
				    uint64_t c)
{
	bool sa = in->type == CK_PTX_S32, sb = in->type2 == CK_PTX_S32;
	bool four = in->op == CK_PTX_OP_DP4A;
	unsigned int first = in->mod[CK_PTX_MOD_PART] == CK_PTX_HI ? 2 : 0;
	int64_t sum = (int64_t)(uint32_t)c;

	for (unsigned int i = 0; i < (four ? 4u : 2u); i++)
		sum += part_of(a, i, four ? 8 : 16, sa) * part_of(b, first + i, 8, sb);
	return (uint32_t)sum;
}

OP(dp, uint64_t, compute_dot_product(in, a, b, c))

PICK(dp4a)
{
	return dp;
}

PICK(dp2a)
{
	unsigned int part = in->mod[CK_PTX_MOD_PART];

	return part == CK_PTX_LO || part == CK_PTX_HI ? dp : NULL;
}

static uint32_t compute_lop3(uint32_t a, uint32_t b, uint32_t c, unsigned int table)
{
	uint32_t r = 0;

	for (unsigned int i = 0; i < 8; i++)
		if (table >> i & 1)
			r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	return r;
}

OP(lop3, uint32_t, compute_lop3(a, (uint32_t)b, (uint32_t)c, (unsigned int)in->imm))

/* With the predicate beside it. */
EXECUTOR(lop3_test)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2), *rq = S(3);
	bool either = in->mod[CK_PTX_MOD_AOP] == CK_PTX_OR;
	uint64_t *rd = D(0), *rp = D(1);

	EACH_LANE(mask, l, {
		uint32_t r = compute_lop3((uint32_t)ra[l], (uint32_t)rb[l], (uint32_t)rc[l],
					  (unsigned int)in->imm);
		uint64_t q = rq[l] & 1;

		rd[l] = r;
		rp[l] = either ? (r != 0) | q : (r != 0) & q;
	});
	return 0;
}

PICK(lop3)
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	if (!aop)
		return operands == 5 ? lop3 : NULL;
	return operands == 6 && (aop == CK_PTX_OR || aop == CK_PTX_AND) ? lop3_test : NULL;
}

OP(shl16, uint16_t, (uint32_t)b > 15 ? 0 : (uint16_t)(a << b))
OP(shl32, uint32_t, (uint32_t)b > 31 ? 0 : (uint32_t)(a << (b & 31)))
OP(shl64, uint64_t, (uint32_t)b > 63 ? 0 : a << (b & 63))
OP(shr16, uint16_t, (uint32_t)b > 15 ? 0 : a >> (b & 15))
OP(shr32, uint32_t, (uint32_t)b > 31 ? 0 : a >> (b & 31))
OP(shr64, uint64_t, (uint32_t)b > 63 ? 0 : a >> (b & 63))
OP(sar16, int16_t, (uint16_t)(a >> ((uint32_t)b > 15 ? 15 : (uint32_t)b)))
OP(sar32, int32_t, (uint32_t)(a >> ((uint32_t)b > 31 ? 31 : (uint32_t)b)))
OP(sar64, int64_t, a >> ((uint32_t)b > 63 ? 63 : (uint32_t)b))

PICK(shl)
{
	return ck_ptx_type_bytes(in->type) == 2 ? shl16 : BY_SIZE(in, shl32, shl64);
}

PICK(shr)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT)
		return ck_ptx_type_bytes(in->type) == 2 ? sar16 : BY_SIZE(in, sar32, sar64);
	return ck_ptx_type_bytes(in->type) == 2 ? shr16 : BY_SIZE(in, shr32, shr64);
}

static uint32_t funnel_shift(const struct ck_ptx_insn *in, uint64_t a, uint64_t b, uint32_t c)
{
	uint64_t pair = (uint64_t)(uint32_t)b << 32 | (uint32_t)a;
	uint32_t n = in->mod[CK_PTX_MOD_WRAP] == 1 ? c & 31 : ck_min(c, 32u);

	if (in->mod[CK_PTX_MOD_SHIFT] == CK_PTX_LEFT)
		return (uint32_t)(pair << n >> 32);
	return (uint32_t)(pair >> n);
}

OP(shf, uint64_t, funnel_shift(in, a, b, (uint32_t)c))

PICK(shf)
{
	return in->mod[CK_PTX_MOD_SHIFT] && in->mod[CK_PTX_MOD_WRAP] ? shf : NULL;
}

/* The four selectors of a mode of prmt, lowest byte first. */
static uint32_t permute_control(unsigned int mode, uint32_t c)
{
	static const uint16_t f4e[] = {0x3210, 0x4321, 0x5432, 0x6543};
	static const uint16_t b4e[] = {0x5670, 0x6701, 0x7012, 0x0123};
	static const uint16_t ecl[] = {0x3210, 0x3211, 0x3222, 0x3333};
	static const uint16_t ecr[] = {0x0000, 0x1110, 0x2210, 0x3210};
	static const uint16_t rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};

	switch (mode) {
	case CK_PTX_F4E:
		return f4e[c & 3];
	case CK_PTX_B4E:
		return b4e[c & 3];
	case CK_PTX_RC8:
		return (c & 3) * 0x1111;
	case CK_PTX_ECL:
		return ecl[c & 3];
	case CK_PTX_ECR:
		return ecr[c & 3];
	case CK_PTX_RC16:
		return rc16[c & 3];
	default:
		return c;
	}
}

static uint32_t permute_bytes(unsigned int mode, uint64_t a, uint64_t b, uint32_t c)
{
	uint64_t bytes = (uint64_t)(uint32_t)b << 32 | (uint32_t)a;
	uint32_t control = permute_control(mode, c), r = 0;

	for (unsigned int i = 0; i < 4; i++) {
		uint32_t select = control >> (4 * i) & 15;
		uint8_t byte = (uint8_t)(bytes >> (8 * (select & 7)));

		if (select & 8)
			byte = byte & 0x80 ? 0xff : 0;
		r |= (uint32_t)byte << (8 * i);
	}
	return r;
}

OP(prmt, uint64_t, permute_bytes(in->mod[CK_PTX_MOD_PRMT], a, b, (uint32_t)c))

PICK(prmt)
{
	return prmt;
}
