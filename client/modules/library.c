/*
 * client/modules/library.c - libraries: modules without a context. A library gets a module in each
 * context that uses it; its kernels and variables can be found without a context.
 */
#include <stdlib.h>

#include "client/modules/code.h"
#include "client/modules/jit.h"
#include "client/managed/managed.h"
#include "client/modules/module.h"
#include "client/link/session_list.h"

/* The options only say whether the caller's bytes stay valid; the client keeps none of the
 * bytes. */
CK_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				     void **jitOptionsValues, unsigned int numJitOptions,
				     CUlibraryOption *libraryOptions, void **libraryOptionValues,
				     unsigned int numLibraryOptions)
{
	struct ckc_jit jit = {numJitOptions, jitOptions, jitOptionsValues};
	CUresult err = ckc_session_check();

	(void)libraryOptions;
	(void)libraryOptionValues;
	(void)numLibraryOptions;
	return err ? err : ckc_module_make(code, NULL, true, &jit, (struct ckc_module **)library);
}

CK_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
					 CUjit_option *jitOptions, void **jitOptionsValues,
					 unsigned int numJitOptions,
					 CUlibraryOption *libraryOptions,
					 void **libraryOptionValues, unsigned int numLibraryOptions)
{
	void *image;
	CUresult err =
		fileName ? ckc_code_read_file(fileName, &image, NULL) : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	err = cuLibraryLoadData(library, image, jitOptions, jitOptionsValues, numJitOptions,
				libraryOptions, libraryOptionValues, numLibraryOptions);
	free(image);
	return err;
}

CK_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	struct ckc_module *m = ckc_module_from(library, true);
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0; !m->code->none && i < ckc_servers_count(); i++) {
		if (ckc_many && ckc_server_session(i)->state != CK_STATE_READY)
			continue;
		ckc_route(ckc_server_session(i));
		err = ck_wire_cuLibraryUnload(0, m->object.id);
	}
	ckc_cache_clear();
	while (m->modules)
		ckc_module_forget(m->modules);
	ckc_module_forget(m);
	return err;
}

CK_EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	CUresult err = ckc_session_check();

	return err ? err
		   : ckc_module_get_function(ckc_module_from(library, true), name,
					     (struct ck_function **)pKernel);
}

/*
 * Make a module that shares the library's code and belongs to @context, with which it ends. The
 * runtime of CUDA 12 asks again after a reset, and once per device. Call with the lock held.
 */
static CUresult make_library_module(struct ckc_module *lib, struct ckc_context *context,
				    struct ckc_module **out)
{
	struct ckc_module *m = ckc_object_new(CK_OBJECT_MODULE, context);

	if (m)
		m->functions = calloc(lib->code->kernels.count + 1, sizeof(*m->functions));
	if (!m || !m->functions) {
		if (m)
			ckc_object_free(m);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->code = ckc_code_get(lib->code);
	m->origin = lib;
	m->tuned = lib->tuned;
	m->next = lib->modules;
	lib->modules = m;
	*out = m;
	return ck_wire_library_module(context->object.id, m->object.id, lib->object.id);
}

CK_EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct ckc_module *lib = ckc_module_from(library, true), *m;
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!pMod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!lib)
		return CUDA_ERROR_INVALID_HANDLE;
	if (lib->code->none)
		return ckc_code_missing();
	ck_lock(ckc_modules_lock());
	for (m = lib->modules; m && m->object.context != context;)
		m = m->next;
	if (!m)
		err = make_library_module(lib, context, &m);
	ck_unlock(ckc_modules_lock());
	if (!err)
		*pMod = (CUmodule)m;
	return err;
}

CK_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				      const char *name)
{
	return ckc_module_get_global(ckc_module_from(library, true), name, dptr, bytes);
}

static CUresult adopt_managed(struct ckc_module *m, const char *name, CUdeviceptr *at, size_t *size)
{
	struct ckc_context *ctx = ckc_context_current();
	CUresult err = CUDA_SUCCESS;

	/* the CUDA runtime asks before there is a context; the copy needs one */
	if (!ctx)
		err = cuDevicePrimaryCtxRetain((CUcontext *)&ctx, 0);
	if (!err)
		err = ck_wire_managed_global(ctx->object.id, m->object.id, name, at, size);
	return err ? err : ckc_module_note_managed(m, *at, *size, ctx);
}

CK_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				       const char *name)
{
	struct ckc_module *m = ckc_module_from(library, true);
	CUdeviceptr at = 0;
	size_t size = 0;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (m->code->none)
		return ckc_code_missing();
	err = adopt_managed(m, name, &at, &size);
	if (!err && dptr)
		*dptr = at;
	if (!err && bytes)
		*bytes = size;
	return err;
}

/* There are no functions for both host and device, because the two share no memory. */
CK_EXPORT CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!ckc_module_from(library, true))
		return CUDA_ERROR_INVALID_HANDLE;
	return fptr && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *n, CUlibrary lib)
{
	return ckc_module_count(ckc_module_from(lib, true), n);
}

CK_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels,
					     CUlibrary lib)
{
	return ckc_module_enumerate(ckc_module_from(lib, true), (void **)kernels, numKernels);
}
