/*
 * client/module.c - modules and libraries: one object here, one on the server.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/managed.h"
#include "client/code.h"
#include "client/jit.h"
#include "client/old_launch.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Have the server make the module: machine code one-way, PTX with its outcome and logs. */
static CUresult load_on_server(struct ck_module *m, const struct ck_jit *jit)
{
	uint64_t ctx = m->object.context ? m->object.context->object.id : 0;

	if (m->code->ptx)
		return ck_jit_build(jit, ctx, m->object.id, m->library, m->code->hash);
	ck_jit_no_log(jit);
	return ck_wire_ck_module_load(ctx, m->object.id, m->library, m->code->hash);
}

static CUresult load(const void *image, struct ck_context *ctx, bool library,
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
	if (!err) {
		m->functions = calloc(m->code->kernels.count + 1, sizeof(*m->functions));
		err = m->functions ? load_on_server(m, jit) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (err)
		ck_module_forget(m);
	else
		*out = m;
	return err;
}

/* Take a library's module out of the library's list. */
static void unlink_origin(struct ck_module *m)
{
	struct ck_module **at;

	if (!m->origin)
		return;
	pthread_mutex_lock(&lock);
	at = &m->origin->modules;
	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	pthread_mutex_unlock(&lock);
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
		ck_old_launch_forget(m->functions[i]);
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

static struct ck_module *from_handle(const void *handle, bool library)
{
	struct ck_module *m = ck_object_check(handle, CK_OBJECT_MODULE);

	return m && m->library == library ? m : NULL;
}

CUresult ck_module_id(CUmodule handle, uint64_t *id)
{
	struct ck_module *m = from_handle(handle, false);

	*id = m ? m->object.id : 0;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ck_library_id(CUlibrary handle, uint64_t *id)
{
	struct ck_module *m = from_handle(handle, true);

	*id = m ? m->object.id : 0;
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

struct ck_function *ck_module_function(struct ck_module *m, size_t index)
{
	struct ck_function *f;

	pthread_mutex_lock(&lock);
	f = m->functions[index];
	if (!f) {
		f = ck_object_new(CK_OBJECT_FUNCTION, m->object.context);
		if (f) {
			f->module = m;
			f->kernel = &m->code->kernels.items[index];
			m->functions[index] = f;
		}
	}
	pthread_mutex_unlock(&lock);
	return f;
}

static CUresult get_function(struct ck_module *m, const char *name, struct ck_function **out)
{
	long index;

	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	index = ck_code_find(m->code, name);
	if (index < 0)
		return CUDA_ERROR_NOT_FOUND;
	*out = ck_module_function(m, (size_t)index);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Note a variable's memory, so that copies and pointer queries know it. */
static void note_variable(struct ck_module *m, CUdeviceptr at, size_t size,
			  enum ck_memory_kind kind, struct ck_context *ctx)
{
	uint64_t *more;

	pthread_mutex_lock(&lock);
	more = realloc(m->variables, (m->variable_count + 1) * sizeof(*more));
	if (more) {
		m->variables = more;
		if (ck_allocation_add(at, size, kind, ctx, 0, true) ==
		    CUDA_SUCCESS)
			m->variables[m->variable_count++] = at;
	}
	pthread_mutex_unlock(&lock);
}

static CUresult get_global(struct ck_module *m, const char *name, CUdeviceptr *dptr,
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
	CUresult err = ck_enter(&key.ctx);

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || strlen(name) >= sizeof(key.name))
		return CUDA_ERROR_INVALID_VALUE;
	key.module = m->object.id;
	strcpy(key.name, name);
	key_size = offsetof(__typeof__(key), name) + strlen(name);
	if (!ck_cache_get(&key, key_size, &found, sizeof(found))) {
		err = ck_wire_ck_global(key.ctx, key.module, name, &found.at, &found.size);
		if (err)
			return err;
		ck_address_claim(found.at, found.size);
		note_variable(m, found.at, found.size, CK_MEMORY_DEVICE, ck_context_current());
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

	return err ? err : load(image, ctx, false, jit, (struct ck_module **)module);
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
	struct ck_module *m = from_handle(hmod, false);
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!m || m->origin)
		return CUDA_ERROR_INVALID_HANDLE;
	ck_cache_clear();
	err = ck_wire_cuModuleUnload(ctx, m->object.id);
	ck_module_forget(m);
	return err;
}

CK_EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult err = ck_session_check();

	return err ? err : get_function(from_handle(hmod, false), name,
					(struct ck_function **)hfunc);
}

CK_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
					const char *name)
{
	return get_global(from_handle(hmod, false), name, dptr, bytes);
}

static CUresult count(struct ck_module *m, unsigned int *n)
{
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	*n = (unsigned int)m->code->kernels.count;
	return CUDA_SUCCESS;
}

static CUresult enumerate(struct ck_module *m, void **out, unsigned int n)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0; i < n && i < m->code->kernels.count; i++) {
		out[i] = ck_module_function(m, i);
		if (!out[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *n, CUmodule mod)
{
	return count(from_handle(mod, false), n);
}

CK_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					      CUmodule mod)
{
	return enumerate(from_handle(mod, false), (void **)functions, numFunctions);
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

/* Library options only say whether the caller's bytes stay valid; we keep nothing of them. */
CK_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				     void **jitOptionsValues, unsigned int numJitOptions,
				     CUlibraryOption *libraryOptions, void **libraryOptionValues,
				     unsigned int numLibraryOptions)
{
	struct ck_jit jit = { numJitOptions, jitOptions, jitOptionsValues };
	CUresult err = ck_session_check();

	(void)libraryOptions;
	(void)libraryOptionValues;
	(void)numLibraryOptions;
	return err ? err : load(code, NULL, true, &jit, (struct ck_module **)library);
}

CK_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
					 CUjit_option *jitOptions, void **jitOptionsValues,
					 unsigned int numJitOptions, CUlibraryOption *libraryOptions,
					 void **libraryOptionValues, unsigned int numLibraryOptions)
{
	void *image;
	CUresult err = fileName ? ck_code_read_file(fileName, &image, NULL) :
				  CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	err = cuLibraryLoadData(library, image, jitOptions, jitOptionsValues, numJitOptions,
				libraryOptions, libraryOptionValues, numLibraryOptions);
	free(image);
	return err;
}

CK_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	struct ck_module *m = from_handle(library, true);
	CUresult err = ck_session_check();

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	ck_cache_clear();
	err = ck_wire_cuLibraryUnload(0, m->object.id);
	while (m->modules)
		ck_module_forget(m->modules);
	ck_module_forget(m);
	return err;
}

CK_EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	CUresult err = ck_session_check();

	return err ? err : get_function(from_handle(library, true), name,
					(struct ck_function **)pKernel);
}

/*
 * An object that shares the library's code and lives in @context, with which it goes: the runtime of
 * CUDA 12 asks again after a reset, and once for each device. Called with the lock.
 */
static CUresult make_library_module(struct ck_module *lib, struct ck_context *context,
				    struct ck_module **out)
{
	struct ck_module *m = ck_object_new(CK_OBJECT_MODULE, context);

	if (m)
		m->functions = calloc(lib->code->kernels.count + 1, sizeof(*m->functions));
	if (!m || !m->functions) {
		if (m)
			ck_object_free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->code = ck_code_get(lib->code);
	m->origin = lib;
	m->next = lib->modules;
	lib->modules = m;
	*out = m;
	return ck_wire_ck_library_module(context->object.id, m->object.id, lib->object.id);
}

CK_EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct ck_module *lib = from_handle(library, true), *m;
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);

	if (err)
		return err;
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!lib)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	for (m = lib->modules; m && m->object.context != context;)
		m = m->next;
	if (!m)
		err = make_library_module(lib, context, &m);
	pthread_mutex_unlock(&lock);
	if (!err)
		*pMod = (CUmodule)m;
	return err;
}

CK_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				      const char *name)
{
	return get_global(from_handle(library, true), name, dptr, bytes);
}

/* The variable is managed by the server's driver; here its pages are tracked where it is. */
static CUresult adopt(struct ck_module *m, const char *name, CUdeviceptr *at, size_t *size)
{
	struct ck_context *ctx = ck_context_current();
	struct ck_allocation known;
	CUresult err = CUDA_SUCCESS;

	/* asked for before there is a context, as the CUDA runtime does: someone must copy */
	if (!ctx)
		err = cuDevicePrimaryCtxRetain((CUcontext *)&ctx, 0);
	if (!err)
		err = ck_wire_ck_managed_global(ctx->object.id, m->object.id, name, at, size);
	if (err || (ck_allocation_find(*at, &known) && known.kind == CK_MEMORY_MANAGED))
		return err;
	err = ck_managed_adopt(*at, *size, ctx);
	if (!err)
		note_variable(m, *at, *size, CK_MEMORY_MANAGED, ctx);
	return err;
}

CK_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				       const char *name)
{
	struct ck_module *m = from_handle(library, true);
	CUdeviceptr at = 0;
	size_t size = 0;
	CUresult err = ck_session_check();

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	err = adopt(m, name, &at, &size);
	if (!err && dptr)
		*dptr = at;
	if (!err && bytes)
		*bytes = size;
	return err;
}

CK_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *n, CUlibrary lib)
{
	return count(from_handle(lib, true), n);
}

CK_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels,
					     CUlibrary lib)
{
	return enumerate(from_handle(lib, true), (void **)kernels, numKernels);
}
