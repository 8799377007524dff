/*
 * emu/modules/library.c - libraries: an image without a context, loaded into each context that uses
 * one of its kernels or variables.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/core/locks.h"
#include "emu/core/emu.h"
#include "emu/modules/function.h"

static void library_free(struct ck_emu_object *object)
{
	struct ck_emu_library *library = (struct ck_emu_library *)object;

	ck_mutex_destroy(&library->load_lock);
	free(library->kernels);
	ck_emu_arena_sweep_unbound(library);
	ck_ptx_destroy(library->ptx);
	free(library->text);
	free(library);
}

static void library_retract(struct ck_emu_object *object)
{
	struct ck_emu_library *library = (struct ck_emu_library *)object;

	ck_emu_functions_retract(library->kernels, library->kernel_count);
}

/* An instance of a library, of any context when that is NULL. */
struct instance_key {
	const struct ck_emu_library *library;
	const struct ck_emu_context *context;
};

static bool instance_match(const struct ck_emu_object *object, const void *arg)
{
	const struct instance_key *key = arg;

	return object->kind == CK_EMU_MODULE &&
	       ((const struct ck_emu_module *)object)->library == key->library &&
	       (!key->context || object->context == key->context);
}

CUresult ck_emu_library_instance(struct ck_emu_library *library, struct ck_emu_context *context,
				 struct ck_emu_module **module)
{
	struct instance_key key = {library, context};
	const struct ck_emu_jit no_jit = {0};
	CUresult result = CUDA_SUCCESS;
	struct ck_ptx_module *ptx;

	ck_lock(&library->load_lock);
	*module = (struct ck_emu_module *)ck_emu_object_search(instance_match, &key);
	if (!*module && library->unloaded) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (!*module) {
		result = ck_emu_image_parse(library->text, &no_jit, &ptx);
		if (result == CUDA_SUCCESS)
			result = ck_emu_module_create(context, ptx, library, module);
	}
	ck_unlock(&library->load_lock);
	return result;
}

/* Take over a parsed image; the text is copied. */
static struct ck_emu_library *library_create(const char *text, struct ck_ptx_module *ptx)
{
	struct ck_emu_library *library = calloc(1, sizeof(*library));

	if (!library) {
		ck_ptx_destroy(ptx);
		return NULL;
	}
	ck_emu_object_init(&library->base, CK_EMU_LIBRARY, NULL, library_free);
	library->base.retract = library_retract;
	library->load_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_LOAD);
	library->ptx = ptx;
	library->text = strdup(text);
	library->kernels =
		ck_emu_functions_create(ptx, &library->base, NULL, &library->kernel_count);
	if (!library->text || !library->kernels || ck_emu_library_place(library) < 0) {
		ck_emu_object_put(&library->base);
		return NULL;
	}
	for (unsigned int i = 0; i < library->kernel_count; i++)
		library->kernels[i].library = library;
	return library;
}

static CUresult library_publish(struct ck_emu_library *library)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; result == CUDA_SUCCESS && i < library->kernel_count; i++)
		result = ck_emu_object_publish(&library->kernels[i].base);
	if (result == CUDA_SUCCESS)
		result = ck_emu_object_publish(&library->base);
	if (result != CUDA_SUCCESS) {
		library_retract(&library->base);
		ck_emu_object_put(&library->base);
	}
	return result;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_library *created;
	struct ck_ptx_module *ptx;
	struct ck_emu_image opened;
	struct ck_emu_jit jit;

	/* the only option of use here, that the image is preserved, saves a copy at most */
	(void)libraryOptions;
	(void)libraryOptionValues;
	(void)numLibraryOptions;
	if (result == CUDA_SUCCESS && (!library || !code))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ck_emu_jit_read(numJitOptions, jitOptions, jitOptionsValues, &jit);
	if (result == CUDA_SUCCESS)
		result = ck_emu_image_open(code, &jit, &opened);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_image_parse(opened.text, &jit, &ptx);
	if (result != CUDA_SUCCESS)
		goto close_image;
	created = library_create(opened.text, ptx);
	result = created ? library_publish(created) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		*library = (CUlibrary)created;
close_image:
	ck_emu_image_close(&opened);
	return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	CUresult result = ck_emu_enter_bare();
	char *image;

	if (result == CUDA_SUCCESS)
		result = ck_emu_image_read(fileName, &image, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuLibraryLoadData(library, image, jitOptions, jitOptionsValues, numJitOptions,
				   libraryOptions, libraryOptionValues, numLibraryOptions);
	free(image);
	return result;
}

/* The library behind a handle, with a reference. */
static CUresult acquire_library(CUlibrary handle, struct ck_emu_library **library)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*library = ck_emu_object_get(handle, CK_EMU_LIBRARY);
	return *library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct ck_emu_library *found;
	CUresult result = acquire_library(library, &found);
	struct instance_key key = {0};
	struct ck_emu_object *object;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_object_retract(&found->base)) {
		ck_emu_object_put(&found->base);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	key.library = found;
	ck_lock(&found->load_lock);
	found->unloaded = true;
	while ((object = ck_emu_object_search(instance_match, &key))) {
		if (ck_emu_object_retract(object)) {
			ck_emu_context_wait(object->context);
			ck_emu_object_put(object);
		}
		ck_emu_object_put(object);
	}
	ck_unlock(&found->load_lock);
	ck_emu_object_put(&found->base);
	ck_emu_object_put(&found->base);
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct ck_emu_function *kernel;
	struct ck_emu_library *found;
	CUresult result = acquire_library(library, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pKernel || !name) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		kernel = ck_emu_functions_find(found->kernels, found->kernel_count, name);
		if (kernel)
			*pKernel = (CUkernel)kernel;
		else
			result = CUDA_ERROR_NOT_FOUND;
	}
	ck_emu_object_put(&found->base);
	return result;
}

/* The instance of a library in the current context, with a reference. */
static CUresult instance_current(CUlibrary library, struct ck_emu_module **module)
{
	struct ck_emu_context *context;
	struct ck_emu_library *found;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = acquire_library(library, &found);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_library_instance(found, context, module);
	ck_emu_object_put(&found->base);
	return result;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct ck_emu_module *module;
	CUresult result = instance_current(library, &module);

	if (result != CUDA_SUCCESS)
		return result;
	if (pMod)
		*pMod = (CUmodule)module;
	ck_emu_object_put(&module->base);
	return pMod ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct ck_emu_module *module;
	CUresult result = instance_current(library, &module);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)module, name);
	ck_emu_object_put(&module->base);
	return result;
}

/* Managed variables are the library's; the runtime asks for them before there is a context. */
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct ck_emu_library *found;
	CUresult result = acquire_library(library, &found);
	uint64_t address;
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (ck_ptx_variable(found->ptx, name, &address, &size) < 0)
		result = CUDA_ERROR_NOT_FOUND;
	if (result == CUDA_SUCCESS && dptr)
		*dptr = address;
	if (result == CUDA_SUCCESS && bytes)
		*bytes = size;
	ck_emu_object_put(&found->base);
	return result;
}

/* There is none: UNIFIED_FUNCTION_POINTERS reads 0. */
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	struct ck_emu_library *found;
	CUresult result = acquire_library(library, &found);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&found->base);
	return fptr && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct ck_emu_library *found;
	CUresult result = acquire_library(lib, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (count)
		*count = found->kernel_count;
	ck_emu_object_put(&found->base);
	return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct ck_emu_library *found;
	CUresult result = acquire_library(lib, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (kernels && numKernels) {
		for (unsigned int i = 0; i < ck_min(numKernels, found->kernel_count); i++)
			kernels[i] = (CUkernel)&found->kernels[i];
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_object_put(&found->base);
	return result;
}
