/*
 * emu/ptx/ops/op_cmp.c - executors of comparison and selection.
 */
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

/* The relations that a comparison accepts: less, equal, greater, unordered. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static unsigned int get_accepted_orders(unsigned int cmp)
{
	static const uint8_t sets[] = {
		[CK_PTX_EQ] = EQUAL,
		[CK_PTX_NE] = LESS | GREATER,
		[CK_PTX_LT] = LESS,
		[CK_PTX_LE] = LESS | EQUAL,
		[CK_PTX_GT] = GREATER,
		[CK_PTX_GE] = GREATER | EQUAL,
		[CK_PTX_EQU] = EQUAL | UNORDERED,
		[CK_PTX_NEU] = LESS | GREATER | UNORDERED,
		[CK_PTX_LTU] = LESS | UNORDERED,
		[CK_PTX_LEU] = LESS | EQUAL | UNORDERED,
		[CK_PTX_GTU] = GREATER | UNORDERED,
		[CK_PTX_GEU] = GREATER | EQUAL | UNORDERED,
		[CK_PTX_NUM] = LESS | EQUAL | GREATER,
		[CK_PTX_NAN] = UNORDERED,
	};

	return sets[cmp];
}

#define ORDER(a, b) ((a) < (b) ? LESS : (a) > (b) ? GREATER : (a) == (b) ? EQUAL : UNORDERED)

static double half_of(const struct ck_ptx_insn *in, uint64_t bits)
{
	double value = ck_ptx_half_to((uint16_t)bits);

	return in->mod[CK_PTX_MOD_FTZ] && fabs(value) < 0x1p-14 ? copysign(0, value) : value;
}

static unsigned int order_float(const struct ck_ptx_insn *in, unsigned int type, uint64_t a,
				uint64_t b)
{
	double x, y;

	switch (type) {
	case CK_PTX_F64:
		x = ck_ptx_f64(a);
		y = ck_ptx_f64(b);
		break;
	case CK_PTX_F32:
		x = (double)(in->mod[CK_PTX_MOD_FTZ] ? ck_ptx_flush(ck_ptx_f32(a)) : ck_ptx_f32(a));
		y = (double)(in->mod[CK_PTX_MOD_FTZ] ? ck_ptx_flush(ck_ptx_f32(b)) : ck_ptx_f32(b));
		break;
	case CK_PTX_BF16:
	case CK_PTX_BF16X2:
		x = ck_ptx_bfloat_to((uint16_t)a);
		y = ck_ptx_bfloat_to((uint16_t)b);
		break;
	default:
		x = half_of(in, a);
		y = half_of(in, b);
		break;
	}
	return ORDER(x, y);
}

static unsigned int order_operands(const struct ck_ptx_insn *in, unsigned int type, uint64_t a,
				   uint64_t b)
{
	if (ck_ptx_type_class(type) == CK_PTX_CLASS_FLOAT)
		return order_float(in, type, a, b);
	if (ck_ptx_type_class(type) == CK_PTX_CLASS_SINT)
		return ORDER(ck_ptx_signed(a, type), ck_ptx_signed(b, type));
	return ORDER(ck_ptx_unsigned(a, type), ck_ptx_unsigned(b, type));
}

static uint64_t combine_predicates(const struct ck_ptx_insn *in, uint64_t t, uint64_t c)
{
	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_AND:
		return t & c & 1;
	case CK_PTX_OR:
		return (t | c) & 1;
	case CK_PTX_XOR:
		return (t ^ c) & 1;
	default:
		return t;
	}
}

EXECUTOR(setp_any)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	unsigned int set = get_accepted_orders(in->mod[CK_PTX_MOD_CMP]);
	uint64_t *rp = D(0), *rq = D(1);

	EACH_LANE(mask, l, {
		uint64_t t = (order_operands(in, in->type, ra[l], rb[l]) & set) != 0;
		uint64_t c = rc[l];

		rq[l] = combine_predicates(in, !t, c);
		rp[l] = combine_predicates(in, t, c);
	});
	return 0;
}

/* Both halves: predicate p is of the low, q of the high one. */
EXECUTOR(setp_pair)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	unsigned int set = get_accepted_orders(in->mod[CK_PTX_MOD_CMP]);
	uint64_t *rp = D(0), *rq = D(1);

	EACH_LANE(mask, l, {
		uint64_t a = ra[l], b = rb[l], c = rc[l];

		rp[l] = combine_predicates(in, (order_operands(in, in->type, a, b) & set) != 0, c);
		rq[l] = combine_predicates(
			in, (order_operands(in, in->type, a >> 16, b >> 16) & set) != 0, c);
	});
	return 0;
}

/* The plain form for the common types. */
#define SETP(name, t)                                                                              \
	EXECUTOR(setp_##name)                                                                      \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1);                                             \
		unsigned int set = get_accepted_orders(in->mod[CK_PTX_MOD_CMP]);                   \
		uint64_t *rp = D(0), *rq = D(1);                                                   \
                                                                                                   \
		EACH_LANE(mask, l, const t a = (t)ra[l]; const t b = (t)rb[l];                     \
			  const uint64_t hit =                                                     \
				  (((a < b) | (a == b) << 1 | (a > b) << 2) & set) != 0;           \
			  rq[l] = !hit; rp[l] = hit;);                                             \
		return 0;                                                                          \
	}

SETP(u32, uint32_t)
SETP(s32, int32_t)
SETP(u64, uint64_t)
SETP(s64, int64_t)

static bool bool_known(const struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	return in->mod[CK_PTX_MOD_CMP] && aop <= CK_PTX_XOR && !!aop == (operands == 4);
}

/* Order of bits does not exist, nor does unordered among integers. */
static bool cmp_known(const struct ck_ptx_insn *in, unsigned int type)
{
	unsigned int cmp = in->mod[CK_PTX_MOD_CMP];
	enum ck_ptx_class class = ck_ptx_type_class(type);

	if (class == CK_PTX_CLASS_BITS)
		return cmp <= CK_PTX_NE;
	return class == CK_PTX_CLASS_FLOAT || cmp <= CK_PTX_GE;
}

ck_ptx_exec ck_ptx_pick_setp(struct ck_ptx_insn *in, unsigned int operands)
{
	if (!bool_known(in, operands) || !cmp_known(in, in->type))
		return NULL;
	if (in->type == CK_PTX_F16X2 || in->type == CK_PTX_BF16X2)
		return setp_pair;
	if (operands == 4)
		return setp_any;
	switch (in->type) {
	case CK_PTX_U32:
	case CK_PTX_B32:
		return setp_u32;
	case CK_PTX_S32:
		return setp_s32;
	case CK_PTX_U64:
	case CK_PTX_B64:
		return setp_u64;
	case CK_PTX_S64:
		return setp_s64;
	default:
		return setp_any;
	}
}

/* True is all ones for an integer, 1.0 for a float. */
static uint64_t get_true_value(unsigned int type)
{
	switch (type) {
	case CK_PTX_F32:
		return 0x3f800000;
	case CK_PTX_F16:
	case CK_PTX_F16X2:
		return 0x3c00;
	case CK_PTX_BF16:
	case CK_PTX_BF16X2:
		return 0x3f80;
	case CK_PTX_U16:
	case CK_PTX_S16:
		return 0xffff;
	default:
		return 0xffffffff;
	}
}

EXECUTOR(set_any)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	unsigned int set = get_accepted_orders(in->mod[CK_PTX_MOD_CMP]);
	bool pair = in->type2 == CK_PTX_F16X2 || in->type2 == CK_PTX_BF16X2;
	uint64_t yes = get_true_value(in->type), *rd = D(0);

	if (pair)
		yes &= 0xffff;
	EACH_LANE(mask, l, {
		uint64_t a = ra[l], b = rb[l], c = rc[l];
		uint64_t r =
			combine_predicates(in, (order_operands(in, in->type2, a, b) & set) != 0, c)
				? yes
				: 0;

		if (pair &&
		    combine_predicates(
			    in, (order_operands(in, in->type2, a >> 16, b >> 16) & set) != 0, c))
			r |= yes << 16;
		rd[l] = r;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_set(struct ck_ptx_insn *in, unsigned int operands)
{
	return bool_known(in, operands) && cmp_known(in, in->type2) ? set_any : NULL;
}

EXECUTOR(selp)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = rc[l] & 1 ? ra[l] : rb[l];);
	return 0;
}

ck_ptx_exec ck_ptx_pick_selp(struct ck_ptx_insn *in __attribute__((unused)),
			     unsigned int operands __attribute__((unused)))
{
	return selp;
}

EXECUTOR(slct)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	bool real = in->type2 == CK_PTX_F32, flush = in->mod[CK_PTX_MOD_FTZ];
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		float c = ck_ptx_f32(rc[l]);
		bool first = real ? (flush ? ck_ptx_flush(c) : c) >= 0 : (int32_t)rc[l] >= 0;

		rd[l] = first ? ra[l] : rb[l];
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_slct(struct ck_ptx_insn *in __attribute__((unused)),
			     unsigned int operands __attribute__((unused)))
{
	return slct;
}
