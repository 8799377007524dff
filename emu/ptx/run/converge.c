/*
 * emu/ptx/run/converge.c - lanes that wait for the members of a mask.
 */
#include "emu/ptx/memory/check.h"
#include "emu/ptx/run/grid.h"

/* Whether the live members that lane @l wants are all waiting, for the same members. */
static bool is_complete(const struct ck_ptx_warp *w, uint32_t l)
{
	uint32_t need = w->want[l] & w->live;

	if (need & ~w->syncing)
		return false;
	EACH_LANE(need, o, {
		if ((w->want[o] & w->live) != need)
			return false;
	});
	return true;
}

static bool is_sync(const struct ck_ptx_insn *in)
{
	return in->op == CK_PTX_OP_BAR || in->op == CK_PTX_OP_BARRIER;
}

/* Run the instructions at which the lanes of @need wait; usually one and the same. */
static int release_lanes(struct ck_ptx_warp *w, uint32_t need)
{
	const struct ck_ptx_insn *code = w->block->run->module->code;
	uint64_t *frame = w->frame;
	int err = 0;

	w->syncing &= ~need;
	if (unlikely(w->block->check != NULL) && is_sync(&code[w->pc[__builtin_ctz(need)]]))
		ck_ptx_check_warp(w, need);
	while (need && !err) {
		uint32_t first = (uint32_t)__builtin_ctz(need), mask = 0;
		const struct ck_ptx_insn *in = &code[w->pc[first]];

		EACH_LANE(need, l, {
			if (w->pc[l] == w->pc[first] && w->fp[l] == w->fp[first])
				mask |= 1u << l;
		});
		w->frame = w->rows + (size_t)w->fp[first] * CK_PTX_LANES;
		if (unlikely(w->block->check != NULL))
			ck_ptx_check_insn(w, in, mask);
		err = in->fn(w, in, mask);
		EACH_LANE(mask, l, w->pc[l]++;);
		need &= ~mask;
	}
	w->frame = frame;
	return err;
}

int ck_ptx_converge_check(struct ck_ptx_warp *w)
{
	uint32_t left = w->syncing;

	while (left) {
		uint32_t l = (uint32_t)__builtin_ctz(left);
		int err;

		left &= left - 1;
		if (!is_complete(w, l))
			continue;
		err = release_lanes(w, w->want[l] & w->live);
		if (err)
			return err;
		left = w->syncing;
	}
	return 0;
}

int ck_ptx_converge(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	EACH_LANE(mask, l, w->want[l] = ck_ptx_members(w, in, l); w->pc[l] = w->group_pc;);
	w->syncing |= mask;
	return ck_ptx_converge_check(w);
}
