/*
 * tests/test_apps/driver_api.h - the driver calls that the C programs here make, in one list.
 *
 * The list serves three builds: dlopen (the default: fills `cu` at start), LINKED (the names are
 * bound by the linker) and STUB (an empty library to link against where there is no driver).
 */
#ifndef CK_TEST_APPS_DRIVER_API_H
#define CK_TEST_APPS_DRIVER_API_H

#include "cuda/types.h"

/* A program that needs more has them in a list of its own, in front of this file. */
#ifndef MORE_DRIVER_CALLS
#define MORE_DRIVER_CALLS(X)
#endif

#define DRIVER_CALLS(X)                                                                            \
	X(cuInit, (unsigned int))                                                                  \
	X(cuGetErrorName, (CUresult, const char **))                                               \
	X(cuDriverGetVersion, (int *))                                                             \
	X(cuDeviceGetCount, (int *))                                                               \
	X(cuDeviceGet, (CUdevice *, int))                                                          \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                       \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                \
	X(cuCtxSetCurrent, (CUcontext))                                                            \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                  \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                   \
	X(cuMemFree_v2, (CUdeviceptr))                                                             \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                    \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                          \
	X(cuModuleLoadData, (CUmodule *, const void *))                                            \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                             \
	X(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *))                 \
	X(cuModuleUnload, (CUmodule))                                                              \
	X(cuStreamCreate, (CUstream *, unsigned int))                                              \
	X(cuStreamQuery, (CUstream))                                                               \
	X(cuStreamSynchronize, (CUstream))                                                         \
	X(cuStreamDestroy_v2, (CUstream))                                                          \
	X(cuEventCreate, (CUevent *, unsigned int))                                                \
	X(cuEventRecord, (CUevent, CUstream))                                                      \
	X(cuEventQuery, (CUevent))                                                                 \
	X(cuEventDestroy_v2, (CUevent))                                                            \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,     \
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **))  \
	MORE_DRIVER_CALLS(X)

#define DECLARE(name, args) CUresult name args;
#define MEMBER(name, args) CUresult(*name) args;
struct driver {
	DRIVER_CALLS(MEMBER)
};

#if defined(STUB)
#undef DECLARE
#define DECLARE(name, args)                                                                        \
	CUresult name args;                                                                        \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ": mov $100, %eax\nret");
DRIVER_CALLS(DECLARE)

#elif defined(LINKED)
DRIVER_CALLS(DECLARE)
#define FILL(name, args) .name = name,
static const struct driver cu = {DRIVER_CALLS(FILL)};

/* The linker has bound every name already. Returns 0. */
static int driver_open(void)
{
	return 0;
}

#else
#include <dlfcn.h>
#include <stdio.h>

static struct driver cu;

/* Opens the driver as CUDA's own libraries do. Returns 0, or -1 and says what is missing. */
static int driver_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
#define LOOK_UP(call, args)                                                                        \
	*(void **)&cu.call = dlsym(lib, #call);                                                    \
	if (cu.call == NULL) {                                                                     \
		fprintf(stderr, "libcuda.so.1 has no " #call "\n");                                \
		return -1;                                                                         \
	}
	DRIVER_CALLS(LOOK_UP)
	return 0;
}
#endif

#endif
