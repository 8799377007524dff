/*
 * emu/ptx/parse/module.c - placing a module's variables, answering about its kernels, freeing it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/language/module.h"
#include "emu/ptx/memory/check.h"
#include "util/util.h"

void ck_ptx_destroy(struct ck_ptx_module *m)
{
	ck_ptx_hazards_free(m);
	ck_ptx_sources_free(m);
	for (uint32_t i = 0; i < m->var_count; i++) {
		free(m->vars[i].name);
		free(m->vars[i].data);
		free(m->vars[i].inits);
	}
	for (uint32_t i = 0; i < m->func_count; i++) {
		free(m->funcs[i].name);
		free(m->funcs[i].params);
		free(m->funcs[i].calls);
		free(m->funcs[i].shared);
		free(m->funcs[i].refusal);
	}
	for (uint32_t i = 0; i < m->kernel_count; i++)
		free(m->kernels[i].params);
	for (uint32_t i = 0; i < m->call_count; i++)
		free(m->calls[i].args);
	for (uint32_t i = 0; i < m->table_count; i++)
		free(m->tables[i].targets);
	free(m->vars);
	free(m->funcs);
	free(m->kernels);
	free(m->calls);
	free(m->tables);
	free(m->accesses);
	free(m->lists);
	free(m->relocs);
	free(m->spans);
	free(m->code);
	free(m->pool);
	free(m);
}

static bool is_placed(const struct ck_ptx_var *var)
{
	return (var->space == CK_PTX_GLOBAL || var->space == CK_PTX_CONST) && !var->external;
}

static int span_order(const void *a, const void *b)
{
	const struct ck_ptx_span *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

typedef uint64_t (*alloc_fn)(void *opaque, struct ck_ptx_room *room);

static int place_vars(struct ck_ptx_module *m, bool managed, alloc_fn alloc, void *opaque)
{
	m->spans = calloc(m->var_count + 1, sizeof(*m->spans));
	if (!m->spans)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->var_count; i++) {
		struct ck_ptx_var *var = &m->vars[i];
		struct ck_ptx_room room = {
			.name = var->name,
			.size = (size_t)ck_max(var->size, (uint64_t)1),
			.align = (size_t)ck_max(var->align, (uint64_t)1),
			.managed = var->managed,
		};

		if (!is_placed(var) || (managed && !var->managed))
			continue;
		var->address = alloc(opaque, &room);
		if (!var->address)
			return -ENOMEM;
		var->shared = room.shared;
		m->spans[m->span_count].lo = var->address;
		m->spans[m->span_count++].hi = var->address + var->size;
	}
	qsort(m->spans, m->span_count, sizeof(*m->spans), span_order);
	return 0;
}

/* Addresses in an initialiser: generic, as a kernel would make them. */
static void write_inits(const struct ck_ptx_module *m, const struct ck_ptx_var *var)
{
	for (size_t i = 0; i < var->init_count; i++) {
		const struct ck_ptx_init *init = &var->inits[i];
		uint64_t value = CK_PTX_CODE_WINDOW + init->symbol;

		if (!init->is_function) {
			value = m->vars[init->symbol].address + (uint64_t)init->addend;
			if (m->vars[init->symbol].space == CK_PTX_SHARED)
				value += CK_PTX_SHARED_WINDOW;
		}
		value >>= init->shift;
		memcpy((void *)(uintptr_t)(var->address + init->offset), &value, init->size);
	}
}

/* Places and initial values of the module's variables, or of the managed ones alone. */
static int init_module_vars(struct ck_ptx_module *m, bool managed, alloc_fn alloc, void *opaque)
{
	int ret;

	if (m->placed)
		return -EALREADY;
	m->placed = true;
	ret = place_vars(m, managed, alloc, opaque);
	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < m->var_count; i++) {
		const struct ck_ptx_var *var = &m->vars[i];

		if (!is_placed(var) || !var->address || var->shared)
			continue;
		if (var->data)
			memcpy((void *)(uintptr_t)var->address, var->data,
			       (size_t)ck_min((uint64_t)var->data_size, var->size));
		write_inits(m, var);
	}
	return 0;
}

int ck_ptx_place_managed(struct ck_ptx_module *m, alloc_fn alloc, void *opaque)
{
	return init_module_vars(m, true, alloc, opaque);
}

int ck_ptx_place(struct ck_ptx_module *m, alloc_fn alloc, void *opaque)
{
	int ret = init_module_vars(m, false, alloc, opaque);

	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < m->reloc_count; i++) {
		const struct ck_ptx_reloc *r = &m->relocs[i];
		uint64_t value = m->vars[r->symbol].address + (uint64_t)r->addend;

		for (size_t lane = 0; lane < CK_PTX_LANES; lane++)
			m->pool[(size_t)r->pool * CK_PTX_LANES + lane] = value;
	}
	return 0;
}

int ck_ptx_variable(const struct ck_ptx_module *m, const char *name, uint64_t *address,
		    size_t *size)
{
	for (uint32_t i = 0; m->placed && i < m->var_count; i++) {
		if (!is_placed(&m->vars[i]) || m->vars[i].opaque || !m->vars[i].address ||
		    strcmp(m->vars[i].name, name) != 0)
			continue;
		*address = m->vars[i].address;
		*size = (size_t)m->vars[i].size;
		return 0;
	}
	return -ENOENT;
}

int ck_ptx_reference(const struct ck_ptx_module *m, const char *name, bool surface,
		     uint64_t *address)
{
	uint8_t opaque = surface ? CK_PTX_SURFREF : CK_PTX_TEXREF;

	for (uint32_t i = 0; m->placed && i < m->var_count; i++) {
		if (!is_placed(&m->vars[i]) || m->vars[i].opaque != opaque ||
		    strcmp(m->vars[i].name, name) != 0)
			continue;
		*address = m->vars[i].address;
		return 0;
	}
	return -ENOENT;
}

const struct ck_ptx_kernel *ck_ptx_kernel_at(const struct ck_ptx_module *m, unsigned int i)
{
	return i < m->kernel_count ? &m->kernels[i] : NULL;
}

const struct ck_ptx_kernel *ck_ptx_kernel_find(const struct ck_ptx_module *m, const char *name)
{
	for (uint32_t i = 0; i < m->kernel_count; i++)
		if (strcmp(m->kernels[i].info.name, name) == 0)
			return &m->kernels[i];
	return NULL;
}

void ck_ptx_kernel_info(const struct ck_ptx_kernel *kernel, struct ck_ptx_kernel_info *info)
{
	*info = kernel->info;
}
