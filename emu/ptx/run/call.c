/*
 * emu/ptx/run/call.c - calls and returns: frames of registers and of local memory.
 */
#include <stdlib.h>

#include "emu/ptx/run/grid.h"

int ck_ptx_rows_reserve(struct ck_ptx_warp *w, size_t rows)
{
	size_t room = w->room ? w->room : 64;
	uint64_t *grown;

	if (rows <= w->room)
		return 0;
	if (rows > CK_PTX_MAX_ROWS)
		return CUDA_ERROR_HARDWARE_STACK_ERROR;
	while (room < rows)
		room *= 2;
	grown = calloc(room * CK_PTX_LANES, sizeof(*grown));
	if (!grown)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (w->rows)
		memcpy(grown, w->rows, w->room * CK_PTX_LANES * sizeof(*grown));
	free(w->rows);
	w->rows = grown;
	w->room = room;
	w->frame = w->rows + (size_t)w->group_fp * CK_PTX_LANES;
	return 0;
}

/* Arguments of the caller's frame at @from into the callee's at @to. */
static void copy_args(const struct ck_ptx_call *call, const struct ck_ptx_func *f, uint8_t *from,
		      uint8_t *to)
{
	for (uint32_t i = 0; i < call->arg_count; i++)
		memcpy(to + f->params[i].offset, from + call->args[i].offset, call->args[i].size);
}

static bool is_callable(const struct ck_ptx_call *call, const struct ck_ptx_func *f)
{
	if (!f->defined || f->entry || f->param_count != call->arg_count)
		return false;
	for (uint32_t i = 0; i < call->arg_count; i++)
		if (call->args[i].size != f->params[i].size)
			return false;
	return true;
}

static int enter_function(struct ck_ptx_warp *w, const struct ck_ptx_call *call,
			  const struct ck_ptx_func *f, uint32_t mask)
{
	const struct ck_ptx_func *caller = &w->block->run->module->funcs[call->caller];
	uint32_t fp = w->group_fp + caller->rows;
	const uint64_t *base, *stack;
	uint64_t *frame;
	int err;

	if (f->builtin && !f->defined)
		return ck_ptx_builtin(w, call, f->builtin, mask);
	if (!is_callable(call, f))
		return CUDA_ERROR_INVALID_PC;
	err = ck_ptx_rows_reserve(w, (size_t)fp + f->rows);
	if (err)
		return err;
	base = ck_ptx_row(w, CK_PTX_ROW_LOCAL);
	stack = ck_ptx_row(w, CK_PTX_ROW_STACK);
	frame = w->rows + (size_t)fp * CK_PTX_LANES;
	EACH_LANE(mask, l, {
		uint64_t local = base[l] + caller->local_bytes + stack[l];
		uint8_t *memory = w->local + (size_t)l * w->local_bytes;

		if (!ck_ptx_fits(local, f->local_bytes, w->local_bytes))
			return CUDA_ERROR_HARDWARE_STACK_ERROR;
		copy_args(call, f, memory + base[l], memory + local);
		frame[CK_PTX_ROW_RETURN * CK_PTX_LANES + l] = w->group_pc + 1;
		frame[CK_PTX_ROW_CALLER * CK_PTX_LANES + l] = w->group_fp;
		frame[CK_PTX_ROW_LOCAL * CK_PTX_LANES + l] = local;
		frame[CK_PTX_ROW_STACK * CK_PTX_LANES + l] = 0;
		w->pc[l] = f->first;
		w->fp[l] = fp;
	});
	return 0;
}

int ck_ptx_call_enter(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const struct ck_ptx_module *m = w->block->run->module;
	const struct ck_ptx_call *call = &m->calls[in->target];

	if (call->callee != CK_PTX_NONE)
		return enter_function(w, call, &m->funcs[call->callee], mask);
	/* Through a register: lanes may call different functions. */
	while (mask) {
		uint64_t address = S(0)[__builtin_ctz(mask)];
		uint64_t index = address - CK_PTX_CODE_WINDOW;
		uint32_t same = 0;
		int err;

		if (index >= m->func_count)
			return CUDA_ERROR_INVALID_PC;
		EACH_LANE(mask, l, same |= (uint32_t)(S(0)[l] == address) << l;);
		err = enter_function(w, call, &m->funcs[index], same);
		if (err)
			return err;
		mask &= ~same;
	}
	return 0;
}

static void copy_results(const struct ck_ptx_call *call, const struct ck_ptx_func *f, uint8_t *from,
			 uint8_t *to)
{
	uint32_t count = ck_min(call->ret_count, f->ret_count);

	for (uint32_t i = 0; i < count; i++) {
		const struct ck_ptx_slot *source = &f->params[f->param_count + i];
		const struct ck_ptx_slot *target = &call->args[call->arg_count + i];

		memcpy(to + target->offset, from + source->offset,
		       ck_min(source->size, target->size));
	}
}

int ck_ptx_call_leave(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const struct ck_ptx_module *m = w->block->run->module;
	const struct ck_ptx_func *f = &m->funcs[in->target];
	const uint64_t *back = ck_ptx_row(w, CK_PTX_ROW_RETURN);
	const uint64_t *caller = ck_ptx_row(w, CK_PTX_ROW_CALLER);
	const uint64_t *local = ck_ptx_row(w, CK_PTX_ROW_LOCAL);
	uint32_t leaving = 0;

	EACH_LANE(mask, l, {
		uint32_t pc = (uint32_t)back[l], fp = (uint32_t)caller[l];
		uint8_t *memory = w->local + (size_t)l * w->local_bytes;

		if (pc == CK_PTX_NONE) {
			leaving |= 1u << l;
		} else {
			const uint64_t *up = w->rows + (size_t)fp * CK_PTX_LANES;

			copy_results(&m->calls[m->code[pc - 1].target], f, memory + local[l],
				     memory + up[CK_PTX_ROW_LOCAL * CK_PTX_LANES + l]);
			w->pc[l] = pc;
			w->fp[l] = fp;
		}
	});
	if (!leaving)
		return 0;
	ck_ptx_lanes_exit(w, leaving);
	return ck_ptx_converge_check(w);
}

void ck_ptx_lanes_exit(struct ck_ptx_warp *w, uint32_t mask)
{
	struct ck_ptx_cluster *cluster = w->block->cluster;

	/* the cluster's barrier waits for them no more, so that they have arrived says nothing */
	if (unlikely(cluster->arrived > 0))
		EACH_LANE(mask, l, cluster->arrived -= w->cluster_phase[l] == cluster->phase;);
	w->live &= ~mask;
	w->block->live -= (uint32_t)__builtin_popcount(mask);
	ck_ptx_barrier_check(w->block);
}
