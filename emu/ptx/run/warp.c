/*
 * emu/ptx/run/warp.c - the loop of a warp: which lanes run, one instruction after the other.
 */
#include "emu/ptx/memory/check.h"
#include "emu/ptx/run/grid.h"

/*
 * Choose the next group; false if no lane is ready. *@stop is the pc at which lanes of the same
 * frame wait ahead: to run on beyond it would miss meeting them.
 */
static bool group_choose(struct ck_ptx_warp *w, uint32_t *stop)
{
	uint32_t ready = w->live & ~w->waiting & ~w->syncing, fresh = ready & ~w->stale;
	uint32_t pc = UINT32_MAX, fp = 0;

	if (!ready)
		return false;
	if (!fresh) {
		w->stale = 0;
		fresh = ready;
	}
	EACH_LANE(fresh, l, {
		if (pc == UINT32_MAX || w->fp[l] > fp || (w->fp[l] == fp && w->pc[l] < pc)) {
			pc = w->pc[l];
			fp = w->fp[l];
		}
	});
	w->group = 0;
	*stop = UINT32_MAX;
	EACH_LANE(ready, l, {
		if (w->fp[l] == fp && w->pc[l] == pc)
			w->group |= 1u << l;
		else if (w->fp[l] == fp && w->pc[l] > pc)
			*stop = ck_min(*stop, w->pc[l]);
	});
	w->group_pc = pc;
	w->group_fp = fp;
	w->frame = w->rows + (size_t)fp * CK_PTX_LANES;
	return true;
}

static void lanes_to(struct ck_ptx_warp *w, uint32_t mask, uint32_t pc)
{
	EACH_LANE(mask, l, w->pc[l] = pc;);
}

static uint32_t guard_mask(struct ck_ptx_warp *w, const struct ck_ptx_insn *in)
{
	const uint64_t *p = ck_ptx_row(w, in->guard);
	uint32_t mask = 0;

	EACH_LANE(w->group, l, mask |= (uint32_t)((p[l] ^ in->guard_not) & 1) << l;);
	return mask;
}

/* brx.idx: an index outside the table is undefined; here it is an error. */
static int branch_table(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const struct ck_ptx_table *table = &w->block->run->module->tables[in->target];
	const uint64_t *index = S(0);

	EACH_LANE(mask, l, {
		if ((uint32_t)index[l] >= table->count)
			return CUDA_ERROR_INVALID_PC;
		w->pc[l] = table->targets[(uint32_t)index[l]];
	});
	return 0;
}

/* An instruction after which the lanes have pcs of their own; the group's are set before. */
static int run_flow(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	lanes_to(w, w->group, w->group_pc + 1);
	if (!mask)
		return 0;
	switch (in->kind) {
	case CK_PTX_BRANCH:
		lanes_to(w, mask, in->target);
		return 0;
	case CK_PTX_BRANCH_TABLE:
		return branch_table(w, in, mask);
	case CK_PTX_CALL:
		return ck_ptx_call_enter(w, in, mask);
	case CK_PTX_RETURN:
		return ck_ptx_call_leave(w, in, mask);
	case CK_PTX_EXIT:
		ck_ptx_lanes_exit(w, mask);
		return ck_ptx_converge_check(w);
	case CK_PTX_CONVERGE:
		return ck_ptx_converge(w, in, mask);
	case CK_PTX_BARRIER:
		return ck_ptx_barrier_arrive(w, in, mask);
	default:
		w->budget = 0;
		return 0;
	}
}

/* All members of the mask are here: no need to wait, nor to leave the loop. */
static bool is_together(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	EACH_LANE(mask, l, {
		if ((ck_ptx_members(w, in, l) & w->live) != mask)
			return false;
	});
	return mask != 0;
}

/*
 * Run the chosen group until it diverges, stops, meets others or has used up the budget. There are
 * two copies of it, so that the check for races costs nothing when it is off.
 */
static inline __attribute__((always_inline)) int group_run(struct ck_ptx_warp *w, uint32_t stop,
							   const bool checked)
{
	const struct ck_ptx_insn *code = w->block->run->module->code;
	int err = 0;

	while (w->budget > 0) {
		const struct ck_ptx_insn *in = &code[w->group_pc];
		uint32_t mask = w->group;

		w->budget--;
		if (checked)
			w->block->check->instructions += (uint64_t)__builtin_popcount(w->group);
		if (in->guard != CK_PTX_NO_GUARD)
			mask = guard_mask(w, in);
		if (likely(in->kind == CK_PTX_PLAIN) ||
		    (in->kind == CK_PTX_CONVERGE && is_together(w, in, mask))) {
			if (checked && mask)
				ck_ptx_check_insn(w, in, mask);
			if (likely(mask))
				err = in->fn(w, in, mask);
			if (unlikely(err))
				return ck_ptx_fault(w, in, mask, err);
			w->group_pc++;
		} else if (in->kind == CK_PTX_BRANCH && (mask == w->group || mask == 0)) {
			w->group_pc = mask ? in->target : w->group_pc + 1;
		} else {
			if (checked && in->kind == CK_PTX_CALL)
				ck_ptx_check_insn(w, in, mask);
			err = run_flow(w, in, mask);
			return unlikely(err) ? ck_ptx_fault(w, in, mask, err) : 0;
		}
		if (w->group_pc >= stop)
			break;
	}
	lanes_to(w, w->group, w->group_pc);
	return 0;
}

static __attribute__((noinline)) int group_checked(struct ck_ptx_warp *w, uint32_t stop)
{
	return group_run(w, stop, true);
}

int ck_ptx_warp_run(struct ck_ptx_warp *w)
{
	const bool checked = w->block->check != NULL;
	uint32_t stop;

	w->budget = CK_PTX_SLICE;
	while (w->budget > 0 && group_choose(w, &stop)) {
		int err = unlikely(checked) ? group_checked(w, stop) : group_run(w, stop, false);

		if (err)
			return err;
	}
	/* Lanes that spin must not keep those for whose sake they spin from running. */
	if (w->budget == 0)
		w->stale |= w->group;
	return 0;
}
