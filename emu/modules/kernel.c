/*
 * emu/modules/kernel.c - the calls on CUkernel handles; a CUfunction is accepted for one.
 */
#include "emu/core/emu.h"
#include "emu/modules/function.h"

/* The kernel or function behind a handle, with a reference. */
static CUresult acquire_kernel(CUkernel handle, struct ck_emu_function **kernel)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	*kernel = ck_emu_object_get(handle, CK_EMU_FUNCTION);
	return *kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct ck_emu_function *function;
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS && !pFunc)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ck_emu_function_get(kernel, context, &function);
	if (result != CUDA_SUCCESS)
		return result;
	*pFunc = (CUfunction)function;
	ck_emu_object_put(&function->base);
	return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pLib)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (!found->library)
		result = CUDA_ERROR_INVALID_HANDLE;
	else
		*pLib = (CUlibrary)found->library;
	ck_emu_object_put(&found->base);
	return result;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(hfunc, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (name)
		*name = found->info.name;
	ck_emu_object_put(&found->base);
	return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(dev))
		result = CUDA_ERROR_INVALID_DEVICE;
	else
		result = pi ? ck_emu_function_attribute(found, dev, attrib, pi)
			    : CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&found->base);
	return result;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_device_at(dev) ? ck_emu_function_set(found, dev, attrib, val)
				       : CUDA_ERROR_INVALID_DEVICE;
	ck_emu_object_put(&found->base);
	return result;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
			      size_t *paramSize)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!paramOffset || paramIndex >= found->info.param_count) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		*paramOffset = found->info.params[paramIndex].offset;
		if (paramSize)
			*paramSize = found->info.params[paramIndex].size;
	}
	ck_emu_object_put(&found->base);
	return result;
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (paramCount)
		*paramCount = found->info.param_count;
	ck_emu_object_put(&found->base);
	return paramCount ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	struct ck_emu_function *found;
	CUresult result = acquire_kernel(kernel, &found);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(dev))
		result = CUDA_ERROR_INVALID_DEVICE;
	else if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&found->base);
	return result;
}
