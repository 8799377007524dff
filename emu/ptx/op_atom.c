/*
 * emu/ptx/op_atom.c - executors of atom and red.
 *
 * Kernels of several streams run on several threads: every operation is a compare-and-swap loop
 * on the host's memory, sequentially consistent, which is stronger than any .sem asks.
 */
#include <math.h>

#include "emu/ptx/exec.h"
#include "emu/ptx/half.h"

static double half_of(const struct ck_ptx_insn *in, uint64_t bits)
{
	bool bfloat = in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;

	return bfloat ? ck_ptx_bfloat_to((uint16_t)bits) : ck_ptx_half_to((uint16_t)bits);
}

static uint64_t half_add(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	bool bfloat = in->type == CK_PTX_BF16 || in->type == CK_PTX_BF16X2;
	double sum = ck_ptx_half_fma(half_of(in, a), 1, half_of(in, b));

	return bfloat ? ck_ptx_bfloat_from(sum, CK_PTX_RN) : ck_ptx_half_from(sum, CK_PTX_RN);
}

static uint64_t float_add(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	switch (in->type) {
	case CK_PTX_F32:
		return ck_ptx_u32(ck_ptx_f32(a) + ck_ptx_f32(b));
	case CK_PTX_F64:
		return ck_ptx_u64(ck_ptx_f64(a) + ck_ptx_f64(b));
	case CK_PTX_F16:
	case CK_PTX_BF16:
		return half_add(in, a, b);
	default:
		return half_add(in, a, b) | half_add(in, a >> 16, b >> 16) << 16;
	}
}

static bool less(const struct ck_ptx_insn *in, uint64_t a, uint64_t b)
{
	if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT)
		return ck_ptx_signed(a, in->type) < ck_ptx_signed(b, in->type);
	return ck_ptx_unsigned(a, in->type) < ck_ptx_unsigned(b, in->type);
}

/* The new value of memory that holds @old. */
static uint64_t apply(const struct ck_ptx_insn *in, uint64_t old, uint64_t b, uint64_t c)
{
	uint32_t o = (uint32_t)old, limit = (uint32_t)b;

	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_AND:
		return old & b;
	case CK_PTX_OR:
		return old | b;
	case CK_PTX_XOR:
		return old ^ b;
	case CK_PTX_ADD:
		if (ck_ptx_type_class(in->type) == CK_PTX_CLASS_FLOAT)
			return float_add(in, old, b);
		return old + b;
	case CK_PTX_MIN:
		return less(in, b, old) ? b : old;
	case CK_PTX_MAX:
		return less(in, old, b) ? b : old;
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
		while (!__atomic_compare_exchange_n(p, &old, (uint##bits##_t)apply(in, old, b, c), \
						    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))    \
			;                                                                          \
		return old;                                                                        \
	}

SWAP(16)
SWAP(32)
SWAP(64)

/* The sources after the address are the same in atom and red. */
EXECUTOR(atomic)
{
	const uint64_t *ra = S(0), *rb = S(1), *rc = S(2);
	uint32_t size = ck_ptx_type_bytes(in->type);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t b = rb[l], c = rc[l];
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm, size, &at);

		if (unlikely(err))
			return err;
		rd[l] = size == 2   ? swap16(in, at, b, c)
			: size == 4 ? swap32(in, at, b, c)
				    : swap64(in, at, b, c);
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
		return class == CK_PTX_CLASS_BITS && size >= 4;
	case CK_PTX_EXCH:
		return class == CK_PTX_CLASS_BITS && size >= 4;
	case CK_PTX_CAS:
		return class == CK_PTX_CLASS_BITS;
	case CK_PTX_ADD:
		return class == CK_PTX_CLASS_FLOAT || (class != CK_PTX_CLASS_BITS && size >= 4);
	case CK_PTX_MIN:
	case CK_PTX_MAX:
		return (class == CK_PTX_CLASS_UINT || class == CK_PTX_CLASS_SINT) && size >= 4;
	case CK_PTX_INC:
	case CK_PTX_DEC:
		return in->type == CK_PTX_U32;
	default:
		return false;
	}
}

ck_ptx_exec ck_ptx_pick_atom(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int sem = in->mod[CK_PTX_MOD_SEM], space = in->mod[CK_PTX_MOD_SPACE];
	bool cas = in->mod[CK_PTX_MOD_AOP] == CK_PTX_CAS;

	if (!type_known(in) || sem == CK_PTX_WEAK || sem == CK_PTX_VOLATILE || sem == CK_PTX_SC ||
	    (space != CK_PTX_GENERIC && space != CK_PTX_GLOBAL && space != CK_PTX_SHARED))
		return NULL;
	if (in->op == CK_PTX_OP_ATOM && operands != (cas ? 4u : 3u))
		return NULL;
	return atomic;
}

ck_ptx_exec ck_ptx_pick_red(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int aop = in->mod[CK_PTX_MOD_AOP];

	return aop == CK_PTX_CAS || aop == CK_PTX_EXCH ? NULL : ck_ptx_pick_atom(in, operands);
}
