/*
 * client/modules/variable.c - variables of modules: their addresses and sizes, their memory in
 * the table of allocations.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/managed/managed.h"
#include "client/modules/code.h"
#include "client/modules/module.h"
#include "client/modules/state.h"

static void forget_variable(uint64_t at)
{
	struct ckc_allocation a;

	if (ckc_allocation_remove(at, CK_MEMORY_MANAGED, &a))
		ckc_managed_leave(a.base, a.size);
	else
		ckc_allocation_remove(at, CK_MEMORY_DEVICE, NULL);
}

void ckc_module_forget_variables(struct ckc_module *m)
{
	for (unsigned int i = 0; i < m->variable_count; i++)
		forget_variable(m->variables[i]);
	free(m->variables);
}

/* Note a variable's memory in the table, for copies and pointer queries. */
static void note_variable(struct ckc_module *m, CUdeviceptr at, size_t size,
			  enum ckc_memory_kind kind, struct ckc_context *ctx)
{
	uint64_t *more;

	ck_lock(ckc_modules_lock());
	more = realloc(m->variables, (m->variable_count + 1) * sizeof(*more));
	if (more) {
		m->variables = more;
		if (ckc_allocation_add(at, size, kind, ctx, 0, true) == CUDA_SUCCESS)
			m->variables[m->variable_count++] = at;
	}
	ck_unlock(ckc_modules_lock());
}

CUresult ckc_module_note_managed(struct ckc_module *m, CUdeviceptr at, size_t size,
				 struct ckc_context *ctx)
{
	struct ck_mutex *lock = &ctx->client->modules->managed_lock; /* two threads may ask */
	struct ckc_allocation known;
	CUresult err = CUDA_SUCCESS;

	ck_lock(lock);
	if (!ckc_allocation_find(at, &known) || known.kind != CK_MEMORY_MANAGED) {
		err = ckc_managed_adopt(at, size, ctx);
		if (!err)
			note_variable(m, at, size, CK_MEMORY_MANAGED, ctx);
	}
	ck_unlock(lock);
	return err;
}

/* A variable that the client has asked about: its name in a module, for a context; its memory. */
struct question {
	uint64_t ctx, module;
	char name[1024];
};
struct variable {
	CUdeviceptr at;
	size_t size;
};

/* Ask the server, and note the variable's memory. A managed variable whose pages cannot be here is
 * not found: the program would access its own memory at that address. */
static CUresult query_variable(struct ckc_module *m, const struct question *q,
			       struct variable *found)
{
	struct ckc_context *ctx = ckc_context_current();
	int managed = 0;
	CUresult err =
		ck_wire_global(q->ctx, q->module, q->name, &found->at, &found->size, &managed);

	if (err)
		return err;
	if (managed)
		return ckc_module_note_managed(m, found->at, found->size, ctx);
	ckc_address_claim(found->at, found->size);
	note_variable(m, found->at, found->size, CK_MEMORY_DEVICE, ctx);
	return CUDA_SUCCESS;
}

CUresult ckc_module_get_global(struct ckc_module *m, const char *name, CUdeviceptr *dptr,
			       size_t *bytes)
{
	struct question key = {0};
	struct variable found = {0};
	size_t key_size;
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || strlen(name) >= sizeof(key.name))
		return CUDA_ERROR_INVALID_VALUE;
	if (m->code->none)
		return ckc_code_missing();
	key.module = m->object.id;
	strcpy(key.name, name);
	key_size = offsetof(struct question, name) + strlen(name);
	if (!ckc_cache_get(&key, key_size, &found, sizeof(found))) {
		err = query_variable(m, &key, &found);
		if (err)
			return err;
		ckc_cache_put(&key, key_size, &found, sizeof(found));
	}
	if (dptr)
		*dptr = found.at;
	if (bytes)
		*bytes = found.size;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
					const char *name)
{
	return ckc_module_get_global(ckc_module_from(hmod, false), name, dptr, bytes);
}
