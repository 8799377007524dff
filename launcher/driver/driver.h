/*
 * launcher/driver/driver.h - the CUDA driver library that runs the kernels, opened by name.
 *
 * The same for a GPU in this machine, one behind cricket-client.so, and the emulated one.
 */
#ifndef CK_LAUNCHER_DRIVER_DRIVER_H
#define CK_LAUNCHER_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "gen/api.h"
#include "launcher/request/request.h"
#include "launcher/text/failure.h"

/* Each function: name in the library, field. Those behind OPTIONAL may be missing. */
#define CK_DRIVER_FUNCTIONS(X, OPTIONAL)                                                           \
	X(cuInit, init)                                                                            \
	X(cuDriverGetVersion, version)                                                             \
	X(cuDeviceGetCount, device_count)                                                          \
	X(cuDeviceGet, device_get)                                                                 \
	X(cuDeviceGetName, device_name)                                                            \
	X(cuDeviceGetAttribute, device_attribute)                                                  \
	X(cuDevicePrimaryCtxRetain, retain)                                                        \
	X(cuCtxSetCurrent, set_current)                                                            \
	X(cuCtxSynchronize, synchronize)                                                           \
	X(cuModuleLoadDataEx, module_load)                                                         \
	X(cuModuleUnload, module_unload)                                                           \
	X(cuModuleGetFunction, get_function)                                                       \
	X(cuMemAlloc_v2, alloc)                                                                    \
	X(cuMemFree_v2, free)                                                                      \
	X(cuMemcpyHtoD_v2, to_device)                                                              \
	X(cuMemcpyDtoH_v2, to_host)                                                                \
	X(cuMemsetD8_v2, memset)                                                                   \
	X(cuLaunchKernel, launch)                                                                  \
	OPTIONAL(cuFuncGetParamInfo, param_info)                                                   \
	OPTIONAL(cuFuncSetAttribute, set_attribute)                                                \
	OPTIONAL(cuLinkCreate_v2, link_create)                                                     \
	OPTIONAL(cuLinkAddData_v2, link_add)                                                       \
	OPTIONAL(cuLinkComplete, link_complete)                                                    \
	OPTIONAL(cuLinkDestroy, link_destroy)

struct ckl_driver {
#define CK_FIELD(name, field) __typeof__(name) *field;
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
