/*
 * emu/ptx/parse/layout.c - after the last line of a text: the needs of each kernel.
 *
 * A .shared variable has one offset for the whole module, as functions that name it are shared. It
 * is placed above all variables so far of the kernels that can reach it. So no two variables of one
 * kernel overlap, and kernels that share nothing all start at 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/language/module.h"
#include "util/util.h"

enum { UNSEEN, OPEN, DONE };

struct walk {
	struct ck_ptx_module *m;
	uint64_t *depth; /* local bytes of a function's deepest call chain */
	uint32_t *stack, top;
	uint32_t *order, order_count;
	bool unbounded; /* recursion, calls through registers, alloca */
};

/* The i-th function that @f may call: those by name, then any whose address is taken. */
static uint32_t callee_at(const struct ck_ptx_module *m, const struct ck_ptx_func *f, uint32_t i)
{
	if (i < f->call_count)
		return f->calls[i];
	i -= f->call_count;
	return f->indirect && i < m->func_count ? i : CK_PTX_NONE;
}

static bool is_callee(const struct ck_ptx_module *m, const struct ck_ptx_func *f, uint32_t i,
		      uint32_t callee)
{
	return i < f->call_count || m->funcs[callee].address_taken;
}

/* Visit what kernel @root reaches, depth first without recursion; order is by completion. */
static void walk_from(struct walk *w, uint32_t root, uint32_t *next)
{
	struct ck_ptx_module *m = w->m;

	for (uint32_t i = 0; i < m->func_count; i++)
		m->funcs[i].mark = UNSEEN;
	w->order_count = w->top = 0;
	w->unbounded = false;
	w->stack[w->top++] = root;
	m->funcs[root].mark = OPEN;
	next[root] = 0;
	w->depth[root] = 0;
	while (w->top > 0) {
		uint32_t at = w->stack[w->top - 1];
		struct ck_ptx_func *f = &m->funcs[at];
		uint32_t i = next[at]++, callee = callee_at(m, f, i);

		if (callee == CK_PTX_NONE) {
			f->mark = DONE;
			w->unbounded |= f->own_stack;
			w->depth[at] += f->local_bytes;
			w->order[w->order_count++] = at;
			if (--w->top > 0) {
				uint64_t *up = &w->depth[w->stack[w->top - 1]];

				*up = ck_max(*up, w->depth[at]);
			}
		} else if (is_callee(m, f, i, callee)) {
			w->unbounded |= f->indirect || m->funcs[callee].mark == OPEN;
			if (m->funcs[callee].mark == DONE)
				w->depth[at] = ck_max(w->depth[at], w->depth[callee]);
			if (m->funcs[callee].mark != UNSEEN)
				continue;
			m->funcs[callee].mark = OPEN;
			next[callee] = 0;
			w->depth[callee] = 0;
			w->stack[w->top++] = callee;
		}
	}
}

/* Note for each .shared variable that kernel @k can reach it. */
static void note_shared(struct walk *w, uint8_t *uses, uint32_t k)
{
	for (uint32_t i = 0; i < w->order_count; i++) {
		const struct ck_ptx_func *f = &w->m->funcs[w->order[i]];

		for (uint32_t j = 0; j < f->shared_count; j++)
			uses[(size_t)f->shared[j] * w->m->kernel_count + k] = 1;
	}
}

static int place_shared(struct ck_ptx_module *m, const uint8_t *uses)
{
	for (uint32_t v = 0; v < m->var_count; v++) {
		struct ck_ptx_var *var = &m->vars[v];
		const uint8_t *used = uses + (size_t)v * m->kernel_count;
		uint64_t top = 0;

		if (var->space != CK_PTX_SHARED || var->dynamic)
			continue;
		for (uint32_t k = 0; k < m->kernel_count; k++)
			if (used[k])
				top = ck_max(top, (uint64_t)m->kernels[k].info.shared_bytes);
		var->address = CK_ALIGN_UP(top, var->align);
		if (!ck_ptx_fits(var->address, var->size, CK_PTX_MAX_SHARED))
			return -EINVAL;
		for (uint32_t k = 0; k < m->kernel_count; k++)
			if (used[k])
				m->kernels[k].info.shared_bytes =
					(uint32_t)(var->address + var->size);
	}
	for (uint32_t k = 0; k < m->kernel_count; k++) {
		uint64_t align = 16;

		for (uint32_t v = 0; v < m->var_count; v++)
			if (m->vars[v].dynamic && uses[(size_t)v * m->kernel_count + k])
				align = ck_max(align, m->vars[v].align);
		m->kernels[k].dynamic_offset =
			(uint32_t)CK_ALIGN_UP((uint64_t)m->kernels[k].info.shared_bytes, align);
	}
	return 0;
}

/*
 * So few registers that the largest blocks can be launched, as many on a multiprocessor as the
 * kernel asks for: a quarter of it has 16384 for its warps, and gives a warp multiples of 256. And
 * no more than were asked for.
 */
static uint32_t most_registers(const struct ck_ptx_module *m, const struct ck_ptx_kernel *k)
{
	uint32_t asked = k->max_registers ? k->max_registers : m->max_registers;
	uint32_t warps = (k->info.max_threads + CK_PTX_LANES - 1) / CK_PTX_LANES;
	uint32_t quarter = (ck_min(warps * k->min_blocks, 64u) + 3) / 4;

	return ck_min(16384 / quarter / 256 * 256 / CK_PTX_LANES,
		      asked ? ck_min(asked, 255u) : 255u);
}

/* Why the kernel that the walk began at cannot run, or NULL. */
static const char *refusal_of(const struct walk *w)
{
	const char *refusal = NULL;

	for (uint32_t i = 0; i < w->order_count && !refusal; i++)
		refusal = w->m->funcs[w->order[i]].refusal;
	return refusal;
}

static void finish_kernel(struct walk *w, struct ck_ptx_kernel *k)
{
	struct ck_ptx_func *f = &w->m->funcs[k->func];
	uint64_t local = w->depth[k->func] + (w->unbounded ? CK_PTX_STACK_RESERVE : 0);

	k->module = w->m;
	k->info.name = f->name;
	k->info.params = k->params;
	k->info.refusal = refusal_of(w);
	k->info.local_bytes = f->local_bytes;
	k->unbounded = w->unbounded;
	k->info.registers = ck_min(ck_max(f->rows, 8u), most_registers(w->m, k));
	k->local_bytes = (uint32_t)CK_ALIGN_UP(ck_min(local, (uint64_t)2 * CK_PTX_MAX_LOCAL), 16);
	for (uint32_t v = 0; v < w->m->var_count; v++)
		if (w->m->vars[v].space == CK_PTX_CONST)
			k->info.const_bytes += (uint32_t)w->m->vars[v].size;
}

/*
 * Whether a call agrees with its callee. A call of another unit's function may expect a result
 * where there is none, and the other way round: linkers accept this, and the result is not used
 * (Numba declares C functions that return nothing in this way).
 */
static bool call_matches_callee(const struct ck_ptx_module *m, const struct ck_ptx_call *call)
{
	const struct ck_ptx_func *f = &m->funcs[call->callee];
	bool linked = f->defined && f->origin.unit != m->funcs[call->caller].origin.unit;
	bool lax = linked && (call->ret_count == 0 || f->ret_count == 0);
	uint32_t count = call->arg_count + (lax ? 0 : call->ret_count);
	bool same = call->arg_count == f->param_count && (lax || call->ret_count == f->ret_count);

	for (uint32_t i = 0; same && i < count; i++)
		same = call->args[i].size == f->params[i].size ||
		       (call->args[i].size == 0 && i >= call->arg_count);
	return same;
}

/* The device runtime library's calls by which a kernel launches others, in CUDA 12 and before. */
static bool is_device_launch(const char *name)
{
	return strncmp(name, "__cudaCDP2", 10) == 0 ||
	       strncmp(name, "cudaGetParameterBuffer", 22) == 0 ||
	       strncmp(name, "cudaLaunchDevice", 16) == 0;
}

/* @caller, which starts kernels, cannot run: 0 or -ENOMEM. */
static int refuse_launches(struct ck_ptx_func *caller, const char *name)
{
	if (!caller->refusal &&
	    asprintf(&caller->refusal, "'%.80s': launches from kernels are not supported", name) <
		    0)
		caller->refusal = NULL;
	return caller->refusal ? 0 : -ENOMEM;
}

/* Every function that can be called has a body or is ours; calls agree with their callees. */
static int check_calls(struct ck_ptx_module *m, const char **culprit)
{
	static _Thread_local char text[160];

	for (uint32_t c = 0; c < m->call_count; c++) {
		const struct ck_ptx_call *call = &m->calls[c];
		const struct ck_ptx_func *f;
		bool same;

		if (call->callee == CK_PTX_NONE)
			continue;
		f = &m->funcs[call->callee];
		same = call_matches_callee(m, call);
		*culprit = text;
		snprintf(text, sizeof(text),
			 !same	    ? "a call of '%.80s' does not match its parameters"
			 : f->entry ? "a call of the kernel '%.80s'"
				    : "unresolved external function '%.80s'",
			 f->name);
		if (!same || f->entry)
			return -EINVAL;
		if (f->defined || f->builtin)
			continue;
		if (!is_device_launch(f->name))
			return -EINVAL;
		if (refuse_launches(&m->funcs[call->caller], f->name) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Shared memory of a known size needs no definition: LLVM declares all of it as .extern. */
static int check_external(const struct ck_ptx_module *m, uint32_t symbol, const char **culprit)
{
	static _Thread_local char text[160];
	const struct ck_ptx_var *var = &m->vars[symbol];

	if (!var->external || var->space == CK_PTX_SHARED)
		return 0;
	snprintf(text, sizeof(text), "unresolved external variable '%.80s'", var->name);
	*culprit = text;
	return -EINVAL;
}

/* Every variable that an instruction or an initialiser names is defined in some unit. */
static int check_externals(const struct ck_ptx_module *m, const char **culprit)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < m->reloc_count; i++)
		ret = check_external(m, m->relocs[i].symbol, culprit);
	for (uint32_t v = 0; v < m->var_count; v++)
		for (size_t i = 0; ret == 0 && i < m->vars[v].init_count; i++)
			if (!m->vars[v].inits[i].is_function)
				ret = check_external(m, m->vars[v].inits[i].symbol, culprit);
	return ret;
}

int ck_ptx_layout(struct ck_ptx_module *m, const char **culprit)
{
	uint32_t n = m->func_count + 1;
	struct walk w = {.m = m};
	uint32_t *next = calloc(n, sizeof(*next));
	uint8_t *uses = calloc((size_t)m->var_count * m->kernel_count + 1, 1);
	int ret;

	w.depth = calloc(n, sizeof(*w.depth));
	w.stack = calloc(n, sizeof(*w.stack));
	w.order = calloc(n, sizeof(*w.order));
	ret = next && uses && w.depth && w.stack && w.order ? 0 : -ENOMEM;
	if (ret == 0)
		ret = check_calls(m, culprit);
	if (ret == 0)
		ret = check_externals(m, culprit);
	for (uint32_t k = 0; ret == 0 && k < m->kernel_count; k++) {
		walk_from(&w, m->kernels[k].func, next);
		note_shared(&w, uses, k);
		finish_kernel(&w, &m->kernels[k]);
	}
	if (ret == 0) {
		*culprit = "too much shared memory";
		ret = place_shared(m, uses);
	}
	free(next);
	free(uses);
	free(w.depth);
	free(w.stack);
	free(w.order);
	return ret;
}
