/*
 * emu/ptx/ops/op_async.c - executors of asynchronous copies and of mbarriers.
 *
 * A copy completes immediately: waiting for it is a no-op, and the barrier that it completes on is
 * notified at once.
 *
 * An mbarrier is 64 bits of shared memory, opaque to the program. Ours, from bit 0: the phase's
 * parity 1; arrivals expected in a phase 20; arrivals still pending 20; bytes still to come 23, a
 * signed number. A phase ends when no arrival is pending and no bytes are to come.
 */
#include "emu/ptx/memory/check.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

struct mbarrier {
	unsigned int parity;
	uint32_t expected, pending;
	int32_t bytes;
};

#define COUNT_MASK 0xfffffu

static struct mbarrier unpack_mbarrier(uint64_t word)
{
	return (struct mbarrier){
		.parity = word & 1,
		.expected = word >> 1 & COUNT_MASK,
		.pending = word >> 21 & COUNT_MASK,
		.bytes = (int32_t)((int64_t)word >> 41),
	};
}

static uint64_t pack_mbarrier(const struct mbarrier *b)
{
	return b->parity | (uint64_t)(b->expected & COUNT_MASK) << 1 |
	       (uint64_t)(b->pending & COUNT_MASK) << 21 | (uint64_t)b->bytes << 41;
}

/* A kernel may give any number; 23 bits of it are kept. */
static void add_expected_bytes(struct mbarrier *b, uint32_t bytes)
{
	b->bytes = (int32_t)((uint32_t)b->bytes + bytes);
}

static void end_of_phase(struct mbarrier *b)
{
	if (b->pending || b->bytes)
		return;
	b->parity ^= 1;
	b->pending = b->expected;
}

static int barrier_at(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t address,
		      unsigned int touch, uint64_t **word)
{
	uint8_t *at;
	int err = ck_ptx_translate_as(w, l, space, address, 8, touch, &at);

	*word = err ? NULL : (uint64_t *)(void *)at;
	return err;
}

/* @bytes have come in that the barrier at @address waits for. */
static int complete_bytes(struct ck_ptx_warp *w, uint32_t l, uint64_t address, uint32_t bytes)
{
	struct mbarrier b;
	uint64_t *word;
	int err = barrier_at(w, l, CK_PTX_SHARED, address, CK_PTX_TOUCH_CHANGE, &word);

	if (err)
		return err;
	b = unpack_mbarrier(*word);
	add_expected_bytes(&b, -bytes);
	end_of_phase(&b);
	if (unlikely(w->block->check != NULL))
		ck_ptx_check_mbarrier(w, l, word, CK_PTX_OP_CP_BULK, false,
				      b.parity != unpack_mbarrier(*word).parity);
	*word = pack_mbarrier(&b);
	return 0;
}

/* Arrive @count times, with more bytes to expect, maybe for the last time. */
static void arrive_at_mbarrier(struct mbarrier *b, uint32_t count, uint32_t bytes, bool drop)
{
	add_expected_bytes(b, bytes);
	b->pending -= ck_min(count, b->pending);
	if (drop)
		b->expected -= ck_min(count, b->expected);
	end_of_phase(b);
}

/* Carry out @in on @b for one lane; @value is its count, bytes, state or parity. */
static uint64_t execute_mbarrier_op(const struct ck_ptx_insn *in, struct mbarrier *b,
				    uint64_t value)
{
	uint64_t before = pack_mbarrier(b);
	bool drop = in->op >= CK_PTX_OP_MBAR_DROP && in->op <= CK_PTX_OP_MBAR_DROP_MORE;

	switch (in->op) {
	case CK_PTX_OP_MBAR_INIT:
		*b = (struct mbarrier){.expected = (uint32_t)value, .pending = (uint32_t)value};
		break;
	case CK_PTX_OP_MBAR_INVAL:
		*b = (struct mbarrier){0};
		break;
	case CK_PTX_OP_MBAR_ARRIVE_TX:
	case CK_PTX_OP_MBAR_DROP_TX:
		arrive_at_mbarrier(b, 1, (uint32_t)value, drop);
		break;
	case CK_PTX_OP_MBAR_EXPECT:
		add_expected_bytes(b, (uint32_t)value);
		break;
	case CK_PTX_OP_MBAR_COMPLETE:
		add_expected_bytes(b, -(uint32_t)value);
		end_of_phase(b);
		break;
	case CK_PTX_OP_MBAR_TEST: /* the state's parity is that of its phase */
	case CK_PTX_OP_MBAR_TRY:
	case CK_PTX_OP_MBAR_TEST_PARITY:
	case CK_PTX_OP_MBAR_TRY_PARITY:
		return (value & 1) != b->parity;
	case CK_PTX_OP_CP_ARRIVE:
		/* without .noinc the arrival is one that was not counted: nothing changes */
		if (in->mod[CK_PTX_MOD_BITS])
			arrive_at_mbarrier(b, 1, 0, false);
		break;
	default:
		arrive_at_mbarrier(b, (uint32_t)value, 0, drop);
		break;
	}
	return before;
}

EXECUTOR(mbarrier)
{
	const uint64_t *ra = S(0), *rb = S(1);
	bool waits = in->op >= CK_PTX_OP_MBAR_TEST && in->op <= CK_PTX_OP_MBAR_TRY_PARITY;
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, {
		struct mbarrier b;
		uint64_t *word;
		int err = barrier_at(w, l, in->space, ra[l] + (uint64_t)in->imm, 0, &word);

		if (err)
			return err;
		b = unpack_mbarrier(*word);
		rd[l] = execute_mbarrier_op(in, &b, in->vec ? rb[l] : 1);
		if (unlikely(w->block->check != NULL))
			ck_ptx_check_mbarrier(w, l, word, in->op, rd[l] != 0,
					      b.parity != unpack_mbarrier(*word).parity);
		*word = pack_mbarrier(&b);
		/* a waiting lane lets others run soon */
		if (waits && !rd[l])
			ck_ptx_spins(w);
	});
	return 0;
}

EXECUTOR(pending_count)
{
	const uint64_t *ra = S(0);
	uint64_t *rd = D(0);

	EACH_LANE(mask, l, rd[l] = unpack_mbarrier(ra[l]).pending;);
	return 0;
}

ck_ptx_exec ck_ptx_pick_mbarrier(struct ck_ptx_insn *in, unsigned int operands)
{
	bool has_result = in->op >= CK_PTX_OP_MBAR_ARRIVE && in->op <= CK_PTX_OP_MBAR_TRY_PARITY;

	if (in->op == CK_PTX_OP_MBAR_PENDING)
		return pending_count;
	if (in->space != CK_PTX_SHARED && in->space != CK_PTX_GENERIC)
		return NULL;
	in->vec = operands > (has_result ? 2 : 1); /* with a count or a state */
	return mbarrier;
}

/* Copy @size bytes, of which the source has @have, in units that must be aligned in both places. */
static int copy_units(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l, uint64_t to,
		      uint32_t size, uint32_t have, uint32_t unit)
{
	uint64_t from = S(1)[l];

	for (uint32_t at = 0; at < size; at += unit) {
		uint8_t *target, *source;
		uint32_t some = have > at ? ck_min(have - at, unit) : 0;
		int err = ck_ptx_translate(w, l, in->space, to + at, unit, &target);

		if (!err && some)
			err = ck_ptx_translate_as(w, l, in->mod[CK_PTX_MOD_SPACE2], from + at, unit,
						  CK_PTX_TOUCH_READ, &source);
		if (err)
			return err;
		if (some)
			memcpy(target, source, some);
		memset(target + some, 0, unit - some);
	}
	return 0;
}

EXECUTOR(copy_small)
{
	const uint64_t *size = S(2), *other = S(3);

	EACH_LANE(mask, l, {
		uint32_t bytes = (uint32_t)size[l], have = bytes;
		int err;

		if (bytes != 4 && bytes != 8 && bytes != 16)
			return CUDA_ERROR_ILLEGAL_INSTRUCTION;
		if (in->vec > 1)
			have = in->mod[CK_PTX_MOD_BITS] ? (other[l] & 1 ? 0 : bytes)
							: ck_min((uint32_t)other[l], bytes);
		err = copy_units(w, in, l, S(0)[l] + (uint64_t)in->imm, bytes, have, bytes);
		if (err)
			return err;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_copy(struct ck_ptx_insn *in, unsigned int operands)
{
	if (in->mod[CK_PTX_MOD_SPACE] != CK_PTX_SHARED ||
	    in->mod[CK_PTX_MOD_SPACE2] != CK_PTX_GLOBAL)
		return NULL;
	operands -= in->mod[CK_PTX_MOD_HINT];
	in->vec = operands == 4 ? 2 : 1;
	return operands >= 3 ? copy_small : NULL;
}

/* cp.reduce: the source's elements into the target's, one after the other. */
static int reduce_elements(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			   uint64_t to, uint32_t size)
{
	uint64_t from = S(1)[l];
	uint32_t unit = ck_ptx_type_bytes(in->type);

	for (uint32_t at = 0; at < size; at += unit) {
		uint8_t *target, *source;
		uint64_t value = 0;
		int err = ck_ptx_translate(w, l, in->space, to + at, unit, &target);

		if (!err)
			err = ck_ptx_translate_as(w, l, CK_PTX_SHARED, from + at, unit,
						  CK_PTX_TOUCH_READ, &source);
		if (err)
			return err;
		memcpy(&value, source, unit);
		ck_ptx_atomic(in, target, value);
	}
	return 0;
}

/* One copy or reduction, in the block of number @rank (+ 1) if there is one: then its mbarrier's.
 */
static int transfer_bulk(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			 uint64_t rank)
{
	const uint64_t field = (uint64_t)UINT8_MAX << CK_PTX_RANK_SHIFT;
	uint64_t to = S(0)[l] + (uint64_t)in->imm, from = S(1)[l], barrier = S(3)[l];
	uint32_t bytes = (uint32_t)S(2)[l];
	int err;

	if ((to | from | bytes) & 15)
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	if (rank) {
		uint64_t place = rank - 1 == w->block->rank ? 0 : rank << CK_PTX_RANK_SHIFT;

		to = (to & ~field) | place;
		barrier = (barrier & ~field) | place;
	}
	err = in->op == CK_PTX_OP_CP_REDUCE ? reduce_elements(w, in, l, to, bytes)
					    : copy_units(w, in, l, to, bytes, bytes, 16);
	if (!err && in->mod[CK_PTX_MOD_TRACKED] == CK_PTX_TRACK_MBARRIER)
		err = complete_bytes(w, l, barrier, bytes);
	return err;
}

EXECUTOR(copy_bulk)
{
	EACH_LANE(mask, l, {
		int err = transfer_bulk(w, in, l, 0);

		if (err)
			return err;
	});
	return 0;
}

/* To the same place in each block of the cluster that the mask names. */
EXECUTOR(copy_multicast)
{
	const uint64_t *blocks = S(4);

	EACH_LANE(mask, l, {
		for (uint32_t left = (uint16_t)blocks[l]; left; left &= left - 1) {
			int err = transfer_bulk(w, in, l, (uint64_t)__builtin_ctz(left) + 1);

			if (err)
				return err;
		}
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_bulk(struct ck_ptx_insn *in, unsigned int operands)
{
	unsigned int to = in->mod[CK_PTX_MOD_SPACE], from = in->mod[CK_PTX_MOD_SPACE2];
	bool tracked = in->mod[CK_PTX_MOD_TRACKED] == CK_PTX_TRACK_MBARRIER;

	if (!in->mod[CK_PTX_MOD_TRACKED] ||
	    operands - in->mod[CK_PTX_MOD_HINT] - in->mod[CK_PTX_MOD_MULTICAST] !=
		    (tracked ? 4u : 3u))
		return NULL;
	if (to == CK_PTX_SHARED ? !tracked || (from != CK_PTX_GLOBAL && from != CK_PTX_SHARED)
				: tracked || to != CK_PTX_GLOBAL || from != CK_PTX_SHARED)
		return NULL;
	if (in->op == CK_PTX_OP_CP_REDUCE && !ck_ptx_atomic_known(in))
		return NULL;
	if (in->mod[CK_PTX_MOD_MULTICAST])
		return to == CK_PTX_SHARED && from == CK_PTX_GLOBAL ? copy_multicast : NULL;
	return copy_bulk;
}

/*
 * Each element is stored or added by itself; then the mbarrier beside it is notified of all bytes.
 */
EXECUTOR(store_async)
{
	const uint64_t *ra = S(0), *barrier = S(1 + in->vec);
	uint32_t size = ck_ptx_type_bytes(in->type);

	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = ck_ptx_translate(w, l, CK_PTX_SHARED, ra[l] + (uint64_t)in->imm,
					   size * in->vec, &at);

		for (unsigned int i = 0; !err && i < in->vec; i++) {
			uint64_t value = S(1 + i)[l];

			if (in->op == CK_PTX_OP_RED_ASYNC)
				ck_ptx_atomic(in, at, value);
			else
				memcpy(at + i * size, &value, size);
		}
		if (!err)
			err = complete_bytes(w, l, barrier[l], size * in->vec);
		if (err)
			return err;
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_st_async(struct ck_ptx_insn *in, unsigned int operands)
{
	if (operands != 3 || in->mod[CK_PTX_MOD_TRACKED] != CK_PTX_TRACK_MBARRIER ||
	    (in->space != CK_PTX_SHARED && in->space != CK_PTX_GENERIC) ||
	    ck_ptx_type_bytes(in->type) * in->vec > 16)
		return NULL;
	if (in->op == CK_PTX_OP_RED_ASYNC && (in->vec != 1 || !ck_ptx_atomic_known(in)))
		return NULL;
	return store_async;
}
