/*
 * client/modules/module.c - modules: one object here, one on the server. Libraries use this code
 * too.
 */
#include <stdlib.h>
#include <string.h>

#include "client/memory/array.h"
#include "client/objects/capture.h"
#include "client/modules/code.h"
#include "client/modules/jit.h"
#include "client/managed/managed.h"
#include "client/modules/module.h"
#include "client/wire/hooks.h"
#include "libcuda/old_launch.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/* Make the module on the server: machine code one-way; PTX with a reply that has the result and
 * logs. */
static CUresult load_on_server(struct ck_module *m, const struct ck_jit *jit)
{
	uint64_t ctx = m->object.context ? m->object.context->object.id : 0;

	ck_managed_loading();
	if (m->code->ptx)
		return ck_jit_build(jit, ctx, m->object.id, m->library, m->code->hash);
	ck_jit_no_log(jit);
	return ck_wire_module_load(ctx, m->object.id, m->library, m->code->hash);
}

CUresult ck_module_make(const void *image, struct ck_context *ctx, bool library,
			const struct ck_jit *jit, struct ck_module **out)
{
	struct ck_context *current = ck_context_current();
	CUdevice device = current ? current->device : 0;
	struct ck_module *m;
	CUresult err;

	if (!image || !out)
		return CUDA_ERROR_INVALID_VALUE;
	m = ck_object_new(CK_OBJECT_MODULE, ctx);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->library = library;
	err = ck_code_load(image, device, &m->code);
	/* as in the driver, the library still loads, without kernels */
	if (err == CUDA_ERROR_NO_BINARY_FOR_GPU && library) {
		m->code = ck_code_none();
		err = m->code ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	} else if (err == CUDA_ERROR_NO_BINARY_FOR_GPU) {
		err = ck_code_missing();
	} else if (!err) {
		m->functions = calloc(m->code->kernels.count + 1, sizeof(*m->functions));
		err = m->functions ? load_on_server(m, jit) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (err)
		ck_module_forget(m);
	else
		*out = m;
	return err;
}

/* Remove a library's module from the library's list. */
static void unlink_origin(struct ck_module *m)
{
	struct ck_module **at;

	if (!m->origin)
		return;
	ck_lock(ck_modules_lock());
	at = &m->origin->modules;
	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	ck_unlock(ck_modules_lock());
}

static void forget_variable(uint64_t at)
{
	struct ck_allocation a;

	if (ck_allocation_remove(at, CK_MEMORY_MANAGED, &a))
		ck_managed_leave(a.base, a.size);
	else
		ck_allocation_remove(at, CK_MEMORY_DEVICE, NULL);
}

void ck_module_forget(struct ck_module *m)
{
	ck_inmates_end(&m->object);
	unlink_origin(m);
	for (size_t i = 0; m->functions && i < m->code->kernels.count; i++) {
		if (!m->functions[i])
			continue;
		ck_old_launch_forget((CUfunction)m->functions[i]);
		ck_object_free(m->functions[i]);
	}
	free(m->functions);
	for (unsigned int i = 0; i < m->variable_count; i++)
		forget_variable(m->variables[i]);
	free(m->variables);
	if (m->code)
		ck_code_put(m->code);
	ck_object_free(m);
}

static void forget_if_module(struct ck_object *object)
{
	if (object->kind == CK_OBJECT_MODULE)
		ck_module_forget((struct ck_module *)object);
}

static void forget_modules(struct ck_context *context)
{
	ck_object_each(context, forget_if_module);
}
CK_ON_CONTEXT_END(CK_LAYER_MODULES, forget_modules);

struct ck_module *ck_module_from(const void *handle, bool library)
{
	struct ck_module *m = ck_object_check(handle, CK_OBJECT_MODULE);

	return m && m->library == library ? m : NULL;
}

CUresult ck_module_id(CUmodule handle, uint64_t *id)
{
	struct ck_module *m = ck_module_from(handle, false);

	*id = m ? m->object.id : 0;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The @index-th function of @m, made on first use; NULL: out of memory. */
static struct ck_function *function_at(struct ck_module *m, size_t index)
{
	struct ck_function *f;

	ck_lock(ck_modules_lock());
	f = m->functions[index];
	if (!f) {
		f = ck_object_new(CK_OBJECT_FUNCTION, m->object.context);
		if (f) {
			f->module = m;
			f->kernel = &m->code->kernels.items[index];
			ck_object_filled(f);
			m->functions[index] = f;
		}
	}
	ck_unlock(ck_modules_lock());
	return f;
}

CUresult ck_module_get_function(struct ck_module *m, const char *name, struct ck_function **out)
{
	long index;

	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	index = ck_code_find(m->code, name);
	if (index < 0)
		return m->code->none ? ck_code_missing() : CUDA_ERROR_NOT_FOUND;
	*out = function_at(m, (size_t)index);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void ck_module_note_variable(struct ck_module *m, CUdeviceptr at, size_t size,
			     enum ck_memory_kind kind, struct ck_context *ctx)
{
	uint64_t *more;

	ck_lock(ck_modules_lock());
	more = realloc(m->variables, (m->variable_count + 1) * sizeof(*more));
	if (more) {
		m->variables = more;
		if (ck_allocation_add(at, size, kind, ctx, 0, true) ==
		    CUDA_SUCCESS)
			m->variables[m->variable_count++] = at;
	}
	ck_unlock(ck_modules_lock());
}

CUresult ck_module_note_managed(struct ck_module *m, CUdeviceptr at, size_t size,
				struct ck_context *ctx)
{
	struct ck_mutex *lock = &ctx->client->modules->managed_lock; /* two threads may ask */
	struct ck_allocation known;
	CUresult err = CUDA_SUCCESS;

	ck_lock(lock);
	if (!ck_allocation_find(at, &known) || known.kind != CK_MEMORY_MANAGED) {
		err = ck_managed_adopt(at, size, ctx);
		if (!err)
			ck_module_note_variable(m, at, size, CK_MEMORY_MANAGED, ctx);
	}
	ck_unlock(lock);
	return err;
}

CUresult ck_module_get_global(struct ck_module *m, const char *name, CUdeviceptr *dptr,
			      size_t *bytes)
{
	struct {
		uint64_t ctx, module;
		char name[1024];
	} key = { 0 };
	struct {
		CUdeviceptr at;
		size_t size;
	} found = { 0 };
	size_t key_size;
	int managed = 0;
	CUresult err = ck_enter(&key.ctx);

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || strlen(name) >= sizeof(key.name))
		return CUDA_ERROR_INVALID_VALUE;
	if (m->code->none)
		return ck_code_missing();
	key.module = m->object.id;
	strcpy(key.name, name);
	key_size = offsetof(__typeof__(key), name) + strlen(name);
	if (!ck_cache_get(&key, key_size, &found, sizeof(found))) {
		err = ck_wire_global(key.ctx, key.module, name, &found.at, &found.size,
				     &managed);
		if (err)
			return err;
		/* without pages here, a managed variable still exists on the device */
		if (!managed || ck_module_note_managed(m, found.at, found.size,
						       ck_context_current())) {
			ck_address_claim(found.at, found.size);
			ck_module_note_variable(m, found.at, found.size, CK_MEMORY_DEVICE,
						ck_context_current());
		}
		ck_cache_put(&key, key_size, &found, sizeof(found));
	}
	if (dptr)
		*dptr = found.at;
	if (bytes)
		*bytes = found.size;
	return CUDA_SUCCESS;
}

static CUresult load_module(CUmodule *module, const void *image, const struct ck_jit *jit)
{
	struct ck_context *ctx;
	CUresult err = ck_context_usable(&ctx);

	return err ? err : ck_module_make(image, ctx, false, jit, (struct ck_module **)module);
}

CK_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load_module(module, image, NULL);
}

CK_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				      CUjit_option *options, void **optionValues)
{
	struct ck_jit jit = { numOptions, options, optionValues };

	return load_module(module, image, &jit);
}

CK_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return load_module(module, fatCubin, NULL);
}

CK_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	void *image;
	CUresult err = fname ? ck_code_read_file(fname, &image, NULL) : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	err = load_module(module, image, NULL);
	free(image);
	return err;
}

CK_EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
	struct ck_module *m = ck_module_from(hmod, false);
	uint64_t ctx;
	CUresult err = ck_enter_owned(&ctx);

	if (err)
		return err;
	if (!m || m->origin)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_capture_unsafe();
	if (err)
		return err;
	err = ck_wire_cuModuleUnload(ctx ? ctx : m->object.context->object.id, m->object.id);
	ck_cache_clear();
	ck_module_forget(m);
	return err;
}

CK_EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult err = ck_session_check();

	return err ? err : ck_module_get_function(ck_module_from(hmod, false), name,
					(struct ck_function **)hfunc);
}

CK_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
					const char *name)
{
	return ck_module_get_global(ck_module_from(hmod, false), name, dptr, bytes);
}

CUresult ck_module_count(struct ck_module *m, unsigned int *n)
{
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	*n = (unsigned int)m->code->kernels.count;
	return CUDA_SUCCESS;
}

CUresult ck_module_enumerate(struct ck_module *m, void **out, unsigned int n)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0; i < n && i < m->code->kernels.count; i++) {
		out[i] = function_at(m, i);
		if (!out[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *n, CUmodule mod)
{
	return ck_module_count(ck_module_from(mod, false), n);
}

CK_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					      CUmodule mod)
{
	return ck_module_enumerate(ck_module_from(mod, false), (void **)functions, numFunctions);
}

CK_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *wish = getenv("CUDA_MODULE_LOADING");

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = wish && strcmp(wish, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING :
						     CU_MODULE_LAZY_LOADING;
	return ck_session_check();
}
