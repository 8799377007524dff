/*
 * launcher/driver/driver.h - the CUDA driver library that runs the kernels, opened by name.
 *
 * The same for a GPU in this machine, one behind cricket-client.so, and the emulated one.
 */
#ifndef CK_LAUNCHER_DRIVER_DRIVER_H
#define CK_LAUNCHER_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"
#include "launcher/request/request.h"
#include "launcher/text/failure.h"

/* Each function: name in the library, field, arguments. Those behind OPTIONAL may be missing. */
#define CK_DRIVER_FUNCTIONS(X, OPTIONAL)                                                           \
	X(cuInit, init, (unsigned flags))                                                          \
	X(cuDriverGetVersion, version, (int *version))                                             \
	X(cuDeviceGetCount, device_count, (int *count))                                            \
	X(cuDeviceGet, device_get, (CUdevice * device, int ordinal))                               \
	X(cuDeviceGetName, device_name, (char *name, int size, CUdevice device))                   \
	X(cuDeviceGetAttribute, device_attribute, (int *value, int attribute, CUdevice device))    \
	X(cuDevicePrimaryCtxRetain, retain, (CUcontext * context, CUdevice device))                \
	X(cuCtxSetCurrent, set_current, (CUcontext context))                                       \
	X(cuCtxSynchronize, synchronize, (void))                                                   \
	X(cuModuleLoadDataEx, module_load,                                                         \
	  (CUmodule * module, const void *image, unsigned count, CUjit_option *options,            \
	   void **values))                                                                         \
	X(cuModuleUnload, module_unload, (CUmodule module))                                        \
	X(cuModuleGetFunction, get_function,                                                       \
	  (CUfunction * function, CUmodule module, const char *name))                              \
	X(cuMemAlloc_v2, alloc, (CUdeviceptr * address, size_t size))                              \
	X(cuMemFree_v2, free, (CUdeviceptr address))                                               \
	X(cuMemcpyHtoD_v2, to_device, (CUdeviceptr to, const void *from, size_t size))             \
	X(cuMemcpyDtoH_v2, to_host, (void *to, CUdeviceptr from, size_t size))                     \
	X(cuMemsetD8_v2, memset, (CUdeviceptr to, unsigned char byte, size_t size))                \
	X(cuLaunchKernel, launch,                                                                  \
	  (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,   \
	   unsigned bz, unsigned shared, CUstream stream, void **params, void **extra))            \
	OPTIONAL(cuFuncGetParamInfo, param_info,                                                   \
		 (CUfunction function, size_t index, size_t * offset, size_t * size))              \
	OPTIONAL(cuFuncSetAttribute, set_attribute,                                                \
		 (CUfunction function, int attribute, int value))                                  \
	OPTIONAL(cuLinkCreate_v2, link_create,                                                     \
		 (unsigned count, CUjit_option *options, void **values, CUlinkState *link))        \
	OPTIONAL(cuLinkAddData_v2, link_add,                                                       \
		 (CUlinkState link, CUjitInputType type, void *data, size_t size,                  \
		  const char *name, unsigned count, CUjit_option *options, void **values))         \
	OPTIONAL(cuLinkComplete, link_complete, (CUlinkState link, void **image, size_t *size))    \
	OPTIONAL(cuLinkDestroy, link_destroy, (CUlinkState link))

struct ckl_driver {
#define CK_FIELD(name, field, arguments) CUresult(*field) arguments;
	CK_DRIVER_FUNCTIONS(CK_FIELD, CK_FIELD)
#undef CK_FIELD
	void *library;
	CUdevice device; /* whose context is current */
	bool emulated;	 /* by libcuda-emu.so in this process */
	unsigned sm;	 /* 10 * major + minor of the device */
	int release;	 /* of the driver: 13000 is 13.0 */
};

/*
 * Open @which: "cuda" (libcuda.so.1, which a preloaded cricket-client.so is too), "emu"
 * (libcuda-emu.so), "remote" (cricket-client.so), a path, or "auto": cuda, and emu where there is
 * no GPU. Our own libraries are looked for beside this program first. Then make the primary
 * context of @device current. Failures are of CK_EXIT_SERVICE.
 */
int ckl_driver_start(struct ckl_driver *driver, const char *which, int device,
		     struct ckl_fail *fail);

/* --- which limit of the device a launch exceeds (limits.c) */

/* The first limit that @request exceeds, with its value, as "a block has at most 1024 threads";
 * empty: none. */
void ckl_limits_explain(const struct ckl_driver *driver, const struct ckl_request *request,
			char *out, size_t size);

#endif
