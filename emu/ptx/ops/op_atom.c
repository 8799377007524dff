/*
 * emu/ptx/ops/op_atom.c - executors of atom and red.
 *
 * Kernels of several streams run on several threads: every operation is a compare-and-swap loop
 * on the host's memory, sequentially consistent, which is stronger than any .sem asks.
 */
#include <math.h>

#include "emu/ptx/language/half.h"
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

static double half_of(const struct ck_ptx_insn *in, uint64_t bits)
{
	bool bfloat = in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;

	return bfloat ? ck_ptx_bfloat_to((uint16_t)bits) : ck_ptx_half_to((uint16_t)bits);
}

static uint64_t half_add(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	bool bfloat = in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;
	double sum = ck_ptx_half_fma(half_of(in, a), 1, half_of(in, b));

	return bfloat ? ck_ptx_bfloat_from(sum) : ck_ptx_half_from(sum);
}

static uint64_t pack_float_sum(float sum)
{
	return isnan(sum) ? 0x7fffffff : ck_ptx_u32(sum);
}

static uint64_t float_add(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	switch (in->type) {
	case CK_PTX_F32:
		/* the form for vectors has no subnormal numbers */
		if (in->vec > 1)
			return pack_float_sum(ck_ptx_flush(ck_ptx_flush(ck_ptx_f32(a)) +
							   ck_ptx_flush(ck_ptx_f32(b))));
		return pack_float_sum(ck_ptx_f32(a) + ck_ptx_f32(b));
	case CK_PTX_F64:
		return ck_ptx_u64(ck_ptx_f64(a) + ck_ptx_f64(b));
	case CK_PTX_F16:
	case CK_PTX_BF16:
		return half_add(in, a, b);
	default:
		return half_add(in, a, b) | half_add(in, a >> 16, b >> 16) << 16;
	}
}

/* The smaller or the larger of two halves, or of pairs of them. */
static uint64_t half_extreme(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	bool bfloat = in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;
	bool pair = ck_ptx_type_bytes(in->type) == 4;
	uint64_t result = 0;

	for (unsigned int shift = 0; shift < (pair ? 32u : 16u); shift += 16) {
		double x = half_of(in, a >> shift), y = half_of(in, b >> shift);
		double r = ck_ptx_least(x, y, in->mod[CK_PTX_MOD_AOP] == CK_PTX_MAX);
		uint64_t half = bfloat ? ck_ptx_bfloat_from(r) : ck_ptx_half_from(r);

		result |= half << shift;
	}
	return result;
}

static bool operand_is_less(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT)
		return ck_ptx_signed(a, in->type) < ck_ptx_signed(b, in->type);
	return ck_ptx_unsigned(a, in->type) < ck_ptx_unsigned(b, in->type);
}

/* The new value of memory that holds @old. */
static uint64_t compute_new_value(const struct ck_ptx_insn *in, uint64_t old, uint64_t b,
				  uint64_t c)
{
	uint32_t o = (uint32_t)old, limit = (uint32_t)b;

	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
		return in->mod[CK_PTX_MOD_AOP] == CK_PTX_ADD ? float_add(in, old, b)
							     : half_extreme(in, old, b);
	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_AND:
		return old & b;
	case CK_PTX_OR:
		return old | b;
	case CK_PTX_XOR:
		return old ^ b;
	case CK_PTX_ADD:
		return old + b;
	case CK_PTX_MIN:
		return operand_is_less(in, b, old) ? b : old;
	case CK_PTX_MAX:
		return operand_is_less(in, old, b) ? b : old;
	case CK_PTX_INC:
		return o >= limit ? 0 : o + 1;
	case CK_PTX_DEC:
		return o == 0 || o > limit ? limit : o - 1;
	case CK_PTX_CAS:
		return ck_ptx_unsigned(old, in->type) == ck_ptx_unsigned(b, in->type) ? c : old;
	default:
		return b;
	}
}

#define SWAP(bits)                                                                                 \
	static uint64_t swap##bits(const struct ck_ptx_insn *in, uint8_t *at, uint64_t b,          \
				   uint64_t c)                                                     \
	{                                                                                          \
		uint##bits##_t *p = (uint##bits##_t *)(void *)at;                                  \
		uint##bits##_t old = __atomic_load_n(p, __ATOMIC_RELAXED);                         \
                                                                                                   \
		while (!__atomic_compare_exchange_n(                                               \
			p, &old, (uint##bits##_t)compute_new_value(in, old, b, c), false,          \
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))                                       \
			;                                                                          \
		return old;                                                                        \
	}

SWAP(16)
SWAP(32)
SWAP(64)

static uint64_t swap_memory_value(const struct ck_ptx_insn *in, uint32_t size, uint8_t *at,
				  uint64_t b, uint64_t c)
{
	return size == 2   ? swap16(in, at, b, c)
	       : size == 4 ? swap32(in, at, b, c)
			   : swap64(in, at, b, c);
}

uint64_t ck_ptx_atomic(const struct ck_ptx_insn *in, uint8_t *at, uint64_t value)
{
	return swap_memory_value(in, ck_ptx_type_bytes(in->type), at, value, 0);
}

/* The sources after the address are the same in atom and red. */
EXECUTOR(atomic)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint32_t size = ck_ptx_type_bytes(in->type);
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];
	bool failed = false;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t b = rb[l], c = rc[l];
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm, size, &at);

		if (unlikely(err))
			return err;
		rd[l] = swap_memory_value(in, size, at, b, c);
		failed |= aop == CK_PTX_CAS ? rd[l] != b : aop == CK_PTX_EXCH && rd[l] == b;
	});
	if (failed)
		ck_ptx_spins(w);
	return 0;
}

/* Several values that lie together; each by itself is indivisible. */
EXECUTOR(atomic_vector)
{
	const uint64_t *ra = S(0);
	uint32_t size = ck_ptx_type_bytes(in->type);

	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm,
					   size * in->vec, &at);

		if (unlikely(err))
			return err;
		for (unsigned int i = 0; i < in->vec; i++)
			D(i)[l] = swap_memory_value(in, size, at + i * size, S(1 + i)[l], 0);
	});
	return 0;
}

static bool type_known(const struct ck_ptx_insn *in)
{
	unsigned int size = ck_ptx_type_bytes(in->type);
	enum ck_ptx_class class = ck_ptx_type_class(in->type);

	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_AND:
	case CK_PTX_OR:
	case CK_PTX_XOR:
		return class == CK_PTX_CLASS_BITS && (size == 4 || size == 8);
	case CK_PTX_EXCH:
		return class == CK_PTX_CLASS_BITS && size >= 4;
	case CK_PTX_CAS:
		return class == CK_PTX_CLASS_BITS;
	case CK_PTX_ADD:
		return class == CK_PTX_CLASS_FLOAT || (class != CK_PTX_CLASS_BITS && size >= 4);
	case CK_PTX_MIN:
	case CK_PTX_MAX:
		if (class == CK_PTX_CLASS_FLOAT)
			return in->vec > 1 && size < 8 && in->type != CK_PTX_F32;
		return (class == CK_PTX_CLASS_UINT || class == CK_PTX_CLASS_SINT) && size >= 4;
	case CK_PTX_INC:
	case CK_PTX_DEC:
		return in->type == CK_PTX_U32;
	default:
		return false;
	}
}

bool ck_ptx_atomic_known(const struct ck_ptx_insn *in)
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	return aop != CK_PTX_CAS && aop != CK_PTX_EXCH && type_known(in);
}

ck_ptx_exec ck_ptx_pick_atom(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int sem = in->mod[CK_PTX_MOD_SEM], space = in->mod[CK_PTX_MOD_SPACE];
	bool cas = in->mod[CK_PTX_MOD_AOP] == CK_PTX_CAS;

	if (!type_known(in) || sem == CK_PTX_WEAK || sem == CK_PTX_VOLATILE || sem == CK_PTX_SC ||
	    (space != CK_PTX_GENERIC && space != CK_PTX_GLOBAL && space != CK_PTX_SHARED))
		return NULL;
	if (in->op == CK_PTX_OP_ATOM && operands - in->mod[CK_PTX_MOD_HINT] != (cas ? 4u : 3u))
		return NULL;
	if (in->type == CK_PTX_B128)
		return in->vec == 1 ? ck_ptx_atomic_wide : NULL;
	if (in->vec == 1)
		return atomic;
	return ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT && space != CK_PTX_SHARED &&
			       ck_ptx_type_bytes(in->type) * in->vec <= 16
		       ? atomic_vector
		       : NULL;
}

ck_ptx_exec ck_ptx_pick_red(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	return aop == CK_PTX_CAS || aop == CK_PTX_EXCH ? NULL : ck_ptx_pick_atom(in, operands);
}
