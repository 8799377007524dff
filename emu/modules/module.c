/*
 * emu/modules/module.c - modules: PTX placed in one context.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/modules/function.h"
#include "emu/core/hooks.h"
#include "emu/modules/texref.h"

#define VARIABLE_ALIGN 512 /* its copy in device memory */

static void module_free(struct ck_emu_object *object)
{
	struct ck_emu_module *module = (struct ck_emu_module *)object;

	ck_emu_references_free(module);
	ck_emu_arena_sweep(module->base.context, module);
	free(module->functions);
	ck_ptx_destroy(module->ptx);
	if (module->library)
		ck_emu_object_put(&module->library->base);
	free(module);
}

static void module_retract(struct ck_emu_object *object)
{
	struct ck_emu_module *module = (struct ck_emu_module *)object;

	ck_emu_functions_retract(module->functions, module->function_count);
	ck_emu_references_retract(module);
}

/*
 * Memory for a variable: zeroed, as the interpreter asks. A library's managed ones are the same
 * for all contexts and have their place already.
 */
static uint64_t variable_alloc(void *opaque, struct ck_ptx_room *room)
{
	struct ck_emu_module *module = opaque;
	uint64_t address = 0;
	size_t size;

	if (room->managed && module->library &&
	    ck_ptx_variable(module->library->ptx, room->name, &address, &size) == 0) {
		room->shared = true;
		return address;
	}
	if (room->align <= VARIABLE_ALIGN)
		address = ck_emu_arena_alloc(
			module->base.context, room->size,
			room->managed ? CK_EMU_MEMORY_MANAGED : CK_EMU_MEMORY_VARIABLE, module);
	if (address)
		memset((void *)address, 0, room->size);
	return address;
}

/* The same for a library's managed variable, which is in no context. */
static uint64_t managed_alloc(void *opaque, struct ck_ptx_room *room)
{
	uint64_t address = 0;

	if (room->align <= VARIABLE_ALIGN)
		address = ck_emu_arena_alloc_unbound(0, room->size, CK_EMU_MEMORY_MANAGED, opaque);
	if (address)
		memset((void *)address, 0, room->size);
	return address;
}

int ck_emu_library_place(struct ck_emu_library *library)
{
	return ck_ptx_place_managed(library->ptx, managed_alloc, library);
}

static CUresult functions_publish(struct ck_emu_module *module)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; result == CUDA_SUCCESS && i < module->function_count; i++)
		result = ck_emu_object_publish(&module->functions[i].base);
	return result;
}

/* Make the module's functions; false: out of memory. */
static bool functions_make(struct ck_emu_module *module)
{
	struct ck_emu_library *library = module->library;

	module->functions = ck_emu_functions_create(module->ptx, &module->base,
						    module->base.context, &module->function_count);
	for (unsigned int i = 0; module->functions && i < module->function_count; i++) {
		module->functions[i].module = module;
		module->functions[i].library = library;
		/* the same text gives the same kernels in the same order */
		module->functions[i].origin = library ? &library->kernels[i] : NULL;
	}
	return module->functions != NULL;
}

CUresult ck_emu_module_create(struct ck_emu_context *context, struct ck_ptx_module *ptx,
			      struct ck_emu_library *library, struct ck_emu_module **out)
{
	struct ck_emu_module *module = calloc(1, sizeof(*module));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!module) {
		ck_ptx_destroy(ptx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_emu_object_init(&module->base, CK_EMU_MODULE, context, module_free);
	module->base.retract = module_retract;
	module->ptx = ptx;
	if (library) {
		ck_emu_object_ref(&library->base);
		module->library = library;
	}
	if (ck_ptx_place(ptx, variable_alloc, module) < 0) {
		result = ck_emu_context_refusal(context);
		goto put_module;
	}
	if (!functions_make(module))
		goto put_module;
	result = functions_publish(module);
	ck_emu_object_ref(&module->base); /* the caller's */
	if (result == CUDA_SUCCESS)
		result = ck_emu_object_publish(&module->base);
	if (result == CUDA_SUCCESS) {
		*out = module;
		return CUDA_SUCCESS;
	}
	ck_emu_functions_retract(module->functions, module->function_count);
	ck_emu_object_put(&module->base);
put_module:
	ck_emu_object_put(&module->base);
	return result;
}

static CUresult load_module(CUmodule *out, const void *image, unsigned int count,
			    CUjit_option *options, void **values)
{
	struct ck_emu_context *context;
	struct ck_emu_module *module;
	struct ck_ptx_module *ptx;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_image opened;
	struct ck_emu_jit jit;

	if (result == CUDA_SUCCESS && (!out || !image))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ck_emu_jit_read(count, options, values, &jit);
	if (result == CUDA_SUCCESS)
		result = ck_emu_image_open(image, &jit, &opened);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_image_parse(opened.text, &jit, &ptx);
	ck_emu_image_close(&opened);
	if (result == CUDA_SUCCESS)
		result = ck_emu_module_create(context, ptx, NULL, &module);
	if (result != CUDA_SUCCESS)
		return result;
	*out = (CUmodule)module;
	ck_emu_object_put(&module->base);
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return load_module(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	return load_module(module, image, numOptions, options, optionValues);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return load_module(module, fatCubin, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	char *image;

	if (result == CUDA_SUCCESS)
		result = ck_emu_image_read(fname, &image, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	result = load_module(module, image, 0, NULL, NULL);
	free(image);
	return result;
}

/* The module behind a handle, with a reference. */
static CUresult acquire_module(CUmodule handle, struct ck_emu_module **module)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	*module = ck_emu_object_get(handle, CK_EMU_MODULE);
	return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleUnload(CUmodule hmod)
{
	struct ck_emu_context *context;
	struct ck_emu_module *module;
	CUresult result = ck_emu_enter_owned(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	module = ck_emu_object_get(hmod, CK_EMU_MODULE);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	/* a library's module goes with the library */
	if (module->library) {
		result = CUDA_ERROR_NOT_PERMITTED;
	} else if (ck_emu_object_retract(&module->base)) {
		result = ck_emu_context_wait(module->base.context);
		ck_emu_object_put(&module->base);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	ck_emu_object_put(&module->base);
	return result;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct ck_emu_function *function;
	struct ck_emu_module *module;
	CUresult result = acquire_module(hmod, &module);

	if (result != CUDA_SUCCESS)
		return result;
	if (!hfunc || !name) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		function = ck_emu_functions_find(module->functions, module->function_count, name);
		if (function)
			*hfunc = (CUfunction)function;
		else
			result = CUDA_ERROR_NOT_FOUND;
	}
	ck_emu_object_put(&module->base);
	return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	struct ck_emu_module *module;
	CUresult result = acquire_module(hmod, &module);
	uint64_t address;
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (ck_ptx_variable(module->ptx, name, &address, &size) < 0) {
		result = CUDA_ERROR_NOT_FOUND;
	} else {
		if (dptr)
			*dptr = address;
		if (bytes)
			*bytes = size;
	}
	ck_emu_object_put(&module->base);
	return result;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct ck_emu_module *module;
	CUresult result = acquire_module(mod, &module);

	if (result != CUDA_SUCCESS)
		return result;
	if (count)
		*count = module->function_count;
	ck_emu_object_put(&module->base);
	return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct ck_emu_module *module;
	CUresult result = acquire_module(mod, &module);

	if (result != CUDA_SUCCESS)
		return result;
	if (functions && numFunctions) {
		for (unsigned int i = 0; i < ck_min(numFunctions, module->function_count); i++)
			functions[i] = (CUfunction)&module->functions[i];
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	ck_emu_object_put(&module->base);
	return result;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	/* the default that runtimes expect; with the other one they load all modules at once */
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
