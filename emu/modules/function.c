/*
 * emu/modules/function.c - functions and their attributes; a kernel's handle is accepted for a
 * function.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/core/emu.h"
#include "emu/modules/function.h"

#define PORTABLE_CLUSTER 8 /* blocks that a cluster may have on every GPU that has clusters */
#define VERSION 90	   /* of the binary, ten times: compute capability 9.0 */

struct ck_emu_function *ck_emu_functions_create(const struct ck_ptx_module *ptx,
						struct ck_emu_object *owner,
						struct ck_emu_context *context, unsigned int *count)
{
	struct ck_emu_function *functions;
	unsigned int total = 0;

	while (ck_ptx_kernel_at(ptx, total))
		total++;
	functions = calloc(ck_max(total, 1u), sizeof(*functions));
	if (!functions)
		return NULL;
	for (unsigned int i = 0; i < total; i++) {
		struct ck_emu_function *function = &functions[i];

		/* the owner holds the context and counts the references, so no free */
		ck_emu_object_init(&function->base, CK_EMU_FUNCTION, NULL, NULL);
		function->base.owner = owner;
		function->base.context = context;
		function->kernel = ck_ptx_kernel_at(ptx, i);
		ck_ptx_kernel_info(function->kernel, &function->info);
		for (int device = 0; device < CK_EMU_MAX_DEVICES; device++) {
			atomic_init(&function->max_dynamic[device], -1);
			atomic_init(&function->carveout[device], -1);
			atomic_init(&function->wide_clusters[device], -1);
		}
	}
	*count = total;
	return functions;
}

struct ck_emu_function *ck_emu_functions_find(struct ck_emu_function *functions, unsigned int count,
					      const char *name)
{
	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(functions[i].info.name, name) == 0)
			return &functions[i];
	}
	return NULL;
}

void ck_emu_functions_retract(struct ck_emu_function *functions, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_emu_object_retract(&functions[i].base);
}

CUresult ck_emu_function_get(const void *handle, struct ck_emu_context *context,
			     struct ck_emu_function **out)
{
	struct ck_emu_function *function = ck_emu_object_get(handle, CK_EMU_FUNCTION);
	struct ck_emu_module *module;
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*out = function;
	if (function->module)
		return CUDA_SUCCESS;
	result = ck_emu_library_instance(function->library, context, &module);
	if (result == CUDA_SUCCESS) {
		/* same place in the instance; the reference to the module is the function's */
		*out = &module->functions[function - function->library->kernels];
	}
	ck_emu_object_put(&function->base);
	return result;
}

enum setting { MAX_DYNAMIC, CARVEOUT, WIDE_CLUSTERS };

/* A function's own setting, else its kernel's, else -1. */
static int get_function_setting(const struct ck_emu_function *function, int device,
				enum setting which)
{
	int value = -1;

	for (; function && value < 0; function = function->origin)
		value = atomic_load(which == CARVEOUT	   ? &function->carveout[device]
				    : which == MAX_DYNAMIC ? &function->max_dynamic[device]
							   : &function->wide_clusters[device]);
	return value;
}

static uint32_t max_dynamic(const struct ck_emu_function *function, int device)
{
	int value = get_function_setting(function, device, MAX_DYNAMIC);

	if (value >= 0)
		return (uint32_t)value;
	return CK_EMU_SHARED_DEFAULT - ck_min(CK_EMU_SHARED_DEFAULT, function->info.shared_bytes);
}

uint32_t ck_emu_function_max_dynamic(const struct ck_emu_function *function)
{
	return max_dynamic(function, function->base.context->device->ordinal);
}

uint32_t ck_emu_function_max_cluster(const struct ck_emu_function *function)
{
	return get_function_setting(function, function->base.context->device->ordinal,
				    WIDE_CLUSTERS) > 0
		       ? CK_PTX_MAX_CLUSTER
		       : PORTABLE_CLUSTER;
}

CUresult ck_emu_function_attribute(const struct ck_emu_function *function, int device,
				   CUfunction_attribute attribute, int *value)
{
	const struct ck_ptx_kernel_info *info = &function->info;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)info->max_threads;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)info->shared_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)info->const_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local_bytes;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)info->registers;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = (int)info->target;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = VERSION;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = (int)max_dynamic(function, device);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = get_function_setting(function, device, CARVEOUT);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
		*value = info->must_cluster;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
		*value = (int)info->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		*value = get_function_setting(function, device, WIDE_CLUSTERS) > 0;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult ck_emu_function_set(struct ck_emu_function *function, int device,
			     CUfunction_attribute attribute, int value)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 ||
		    (uint64_t)value + function->info.shared_bytes > CK_EMU_SHARED_OPTIN)
			return CUDA_ERROR_INVALID_VALUE;
		atomic_store(&function->max_dynamic[device], value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		atomic_store(&function->carveout[device], value);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		atomic_store(&function->wide_clusters[device], value != 0);
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return CUDA_SUCCESS; /* of no effect */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* The function behind a handle for the current context, with a reference. */
static CUresult acquire_function(CUfunction handle, struct ck_emu_function **function)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	return result == CUDA_SUCCESS ? ck_emu_function_get(handle, context, function) : result;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	result = pi ? ck_emu_function_attribute(function, function->base.context->device->ordinal,
						attrib, pi)
		    : CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&function->base);
	return result;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_function_set(function, function->base.context->device->ordinal, attrib,
				     value);
	ck_emu_object_put(&function->base);
	return result;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (name)
		*name = function->info.name;
	ck_emu_object_put(&function->base);
	return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	if (hmod)
		*hmod = (CUmodule)function->module;
	ck_emu_object_put(&function->base);
	return hmod ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
			    size_t *paramSize)
{
	return cuKernelGetParamInfo((CUkernel)func, paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount)
{
	return cuKernelGetParamCount((CUkernel)func, paramCount);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&function->base);
	return (unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
								 : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	struct ck_emu_function *function;
	CUresult result = acquire_function(hfunc, &function);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&function->base);
	return (unsigned int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
	struct ck_emu_function *found;
	CUresult result = acquire_function(function, &found);

	if (result == CUDA_SUCCESS)
		ck_emu_object_put(&found->base);
	return result;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct ck_emu_function *found;
	CUresult result = acquire_function(function, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (state)
		*state = CU_FUNCTION_LOADING_STATE_LOADED; /* a module is loaded whole */
	ck_emu_object_put(&found->base);
	return state ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
