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
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "libcuda/libcuda.h"

/* Variables of so many bytes take device memory of their own: the program must hear if there is
 * none. */
#define VARIABLES_MUCH ((uint64_t)1 << 20)

/* The log of an image that is not sent to the compiler. */
#define UNREADABLE "error: this is not PTX text, or it ends within a declaration"

/* Compile PTX without options. The driver's compiler is deterministic: if it has accepted the text
 * once, here or in an earlier session, there is nothing to wait for. */
static CUresult build_plain(struct ckc_module *m, uint64_t ctx)
{
	uint64_t key[2 + sizeof(m->code->hash) / 8] = {CK_PROC_module_build};
	CUresult err;
	int built;

	memcpy(&key[2], m->code->hash, sizeof(m->code->hash));
	if (ckc_cache_get(key, sizeof(key), &built, sizeof(built)))
		return ck_wire_module_load(ctx, m->object.id, m->library, m->code->hash);
	err = ckc_jit_build(NULL, ctx, m->object.id, m->library, m->code->hash);
	built = 1;
	if (!err)
		ckc_cache_put(key, sizeof(key), &built, sizeof(built));
	return err;
}

/* Make the module on the server: machine code one-way, unless it has large variables; PTX with a
 * reply that has the result and logs. */
static CUresult load_on_server(struct ckc_module *m, const struct ckc_jit *jit)
{
	uint64_t ctx = m->object.context ? m->object.context->object.id : 0;
	bool much = m->code->kernels.variables >= VARIABLES_MUCH;

	ckc_managed_loading();
	m->tuned = m->code->ptx && jit && jit->count > 0;
	if (m->code->ptx && !m->tuned && !much)
		return build_plain(m, ctx);
	if (m->code->ptx || much)
		return ckc_jit_build(jit, ctx, m->object.id, m->library, m->code->hash);
	ckc_jit_no_build(jit, "");
	return ck_wire_module_load(ctx, m->object.id, m->library, m->code->hash);
}

/* The first device of a session that the program sees; -1: there is none. */
static CUdevice first_device_of(const struct ckc_client *c)
{
	for (CUdevice i = 0; ckc_gpu(i); i++) {
		if (ckc_gpu_client(i) == c)
			return i;
	}
	return -1;
}

/*
 * A library belongs to no context, so its kernels may be launched on any server: load it on the
 * others under the same id, each with the code for its own devices.
 */
static void load_elsewhere(struct ckc_module *m, const void *image, const struct ckc_jit *jit)
{
	struct ckc_client *home = ckc_client_current();
	struct ckc_code *own = m->code;

	for (unsigned int i = 0; i < ckc_servers_count(); i++) {
		struct ckc_client *c = ckc_server_session(i);
		CUdevice device = first_device_of(c);
		CUresult err;

		if (c == home || device < 0 || c->state != CK_STATE_READY)
			continue;
		ckc_route(c);
		err = ckc_code_load(image, device, &m->code);
		if (!err) {
			err = load_on_server(m, jit);
			ckc_code_put(m->code);
		}
		if (err)
			m->absent |= (uint16_t)(1u << i);
		m->code = own;
	}
	ckc_route(home);
}

CUresult ckc_module_make(const void *image, struct ckc_context *ctx, bool library,
			 const struct ckc_jit *jit, struct ckc_module **out)
{
	struct ckc_context *current = ckc_context_current();
	CUdevice device = current ? current->device : 0;
	struct ckc_module *m;
	CUresult err;

	if (!image || !out)
		return CUDA_ERROR_INVALID_VALUE;
	m = ckc_object_new(CK_OBJECT_MODULE, ctx);
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->library = library;
	err = ckc_code_load(image, device, &m->code);
	if (err)
		ckc_jit_no_build(jit, err == CUDA_ERROR_INVALID_PTX ? UNREADABLE : "");
	/* as in the driver, the library still loads, without kernels */
	if (err == CUDA_ERROR_NO_BINARY_FOR_GPU && library) {
		m->code = ckc_code_none();
		err = m->code ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	} else if (err == CUDA_ERROR_NO_BINARY_FOR_GPU) {
		err = ckc_code_missing();
	} else if (!err) {
		m->functions = calloc(m->code->kernels.count + 1, sizeof(*m->functions));
		err = m->functions ? load_on_server(m, jit) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!err && unlikely(ckc_many) && library && !m->code->none)
		load_elsewhere(m, image, jit);
	if (err)
		ckc_module_forget(m);
	else
		*out = m;
	return err;
}

/* Remove a library's module from the library's list. */
static void unlink_origin(struct ckc_module *m)
{
	struct ckc_module **at;

	if (!m->origin)
		return;
	ck_lock(ckc_modules_lock());
	at = &m->origin->modules;
	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	ck_unlock(ckc_modules_lock());
}

void ckc_module_forget(struct ckc_module *m)
{
	ckc_inmates_end(&m->object);
	unlink_origin(m);
	for (size_t i = 0; m->functions && i < m->code->kernels.count; i++) {
		if (!m->functions[i])
			continue;
		ck_old_launch_forget((CUfunction)m->functions[i]);
		ckc_object_free(m->functions[i]);
	}
	free(m->functions);
	ckc_module_forget_variables(m);
	if (m->code)
		ckc_code_put(m->code);
	ckc_object_free(m);
}

static void forget_if_module(struct ckc_object *object, void *unused)
{
	(void)unused;
	if (object->kind == CK_OBJECT_MODULE)
		ckc_module_forget((struct ckc_module *)object);
}

static void forget_modules(struct ckc_context *context)
{
	ckc_object_each(context, forget_if_module, NULL);
}
CK_ON_CONTEXT_END(CK_LAYER_MODULES, forget_modules);

struct ckc_module *ckc_module_from(const void *handle, bool library)
{
	struct ckc_module *m = ckc_object_check(handle, CK_OBJECT_MODULE);

	return m && m->library == library ? m : NULL;
}

CUresult ckc_module_id(CUmodule handle, uint64_t *id)
{
	struct ckc_module *m = ckc_module_from(handle, false);

	*id = m ? m->object.id : 0;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The @index-th function of @m, made on first use; NULL: out of memory. */
static struct ck_function *function_at(struct ckc_module *m, size_t index)
{
	struct ck_function *f;

	ck_lock(ckc_modules_lock());
	f = m->functions[index];
	if (!f) {
		f = ckc_object_new(CK_OBJECT_FUNCTION, m->object.context);
		if (f) {
			f->module = m;
			f->kernel = &m->code->kernels.items[index];
			ckc_object_filled(f);
			m->functions[index] = f;
		}
	}
	ck_unlock(ckc_modules_lock());
	return f;
}

CUresult ckc_module_get_function(struct ckc_module *m, const char *name, struct ck_function **out)
{
	long index;

	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	index = ckc_code_find(m->code, name);
	if (index < 0)
		return m->code->none ? ckc_code_missing() : CUDA_ERROR_NOT_FOUND;
	*out = function_at(m, (size_t)index);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult load_module(CUmodule *module, const void *image, const struct ckc_jit *jit)
{
	struct ckc_context *ctx;
	CUresult err = ckc_context_usable(&ctx);

	return err ? err : ckc_module_make(image, ctx, false, jit, (struct ckc_module **)module);
}

CK_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load_module(module, image, NULL);
}

CK_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				      CUjit_option *options, void **optionValues)
{
	struct ckc_jit jit = {numOptions, options, optionValues};

	return load_module(module, image, &jit);
}

CK_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return load_module(module, fatCubin, NULL);
}

CK_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	void *image;
	CUresult err = fname ? ckc_code_read_file(fname, &image, NULL) : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	err = load_module(module, image, NULL);
	free(image);
	return err;
}

CK_EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
	struct ckc_module *m = ckc_module_from(hmod, false);
	uint64_t ctx;
	CUresult err = ckc_enter_owned(&ctx);

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (m->origin) /* it goes with its library */
		return CUDA_ERROR_NOT_PERMITTED;
	err = ckc_capture_unsafe();
	if (err)
		return err;
	err = ck_wire_cuModuleUnload(ctx ? ctx : m->object.context->object.id, m->object.id);
	ckc_cache_clear();
	ckc_module_forget(m);
	return err;
}

CK_EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult err = ckc_session_check();

	return err ? err
		   : ckc_module_get_function(ckc_module_from(hmod, false), name,
					     (struct ck_function **)hfunc);
}

CUresult ckc_module_count(struct ckc_module *m, unsigned int *n)
{
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	*n = (unsigned int)m->code->kernels.count;
	return CUDA_SUCCESS;
}

CUresult ckc_module_enumerate(struct ckc_module *m, void **out, unsigned int n)
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
	return ckc_module_count(ckc_module_from(mod, false), n);
}

CK_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					      CUmodule mod)
{
	return ckc_module_enumerate(ckc_module_from(mod, false), (void **)functions, numFunctions);
}

CK_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *wish = getenv("CUDA_MODULE_LOADING");

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = wish && strcmp(wish, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
						   : CU_MODULE_LAZY_LOADING;
	return ckc_session_check();
}
