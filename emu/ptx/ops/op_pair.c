/*
 * emu/ptx/ops/op_pair.c - the executor of add, min and max of pairs of 16-bit integers, and of
 * .relu.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"

bool ck_ptx_is_pair(const struct ck_ptx_insn *in)
{
	return in->type == CK_PTX_U16X2 || in->type == CK_PTX_S16X2;
}

/* One value of a pair, or a 32-bit value that .relu keeps from being negative. */
static int64_t of_pair(const struct ck_ptx_insn *in, int64_t a, int64_t b)
{
	int64_t r = in->op == CK_PTX_OP_ADD ? a + b : (in->op == CK_PTX_OP_MIN) == (a < b) ? a : b;

	return in->mod[CK_PTX_MOD_RELU] && r < 0 ? 0 : r;
}

static int64_t extend_16bit(uint64_t bits, unsigned int type)
{
	return type == CK_PTX_S16 ? (int64_t)(int16_t)bits : (int64_t)(uint16_t)bits;
}

int ck_ptx_pair(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const uint64_t *ra = S(0), *rb = S(1);
	unsigned int half = in->type == CK_PTX_U16X2 ? CK_PTX_U16 : CK_PTX_S16;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		uint64_t a = ra[l], b = rb[l];

		if (in->type == CK_PTX_S32)
			rd[l] = (uint64_t)of_pair(in, (int32_t)a, (int32_t)b);
		else
			rd[l] = (uint16_t)of_pair(in, extend_16bit(a, half),
						  extend_16bit(b, half)) |
				(uint64_t)(uint16_t)of_pair(in, extend_16bit(a >> 16, half),
							    extend_16bit(b >> 16, half))
					<< 16;
	});
	return 0;
}
