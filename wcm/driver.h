/*
 * wcm/driver.h - the CUDA calls of the library, from the driver that the process has: NVIDIA's, the
 * emulated one, or Cricket's client.
 */
#ifndef CK_WCM_DRIVER_H
#define CK_WCM_DRIVER_H

#include <stddef.h>

#include "cuda/types.h"

#define CK_WCM_DRIVER_FUNCTIONS(F)                                                                 \
	F(cuInit, unsigned int flags)                                                              \
	F(cuDeviceGetCount, int *count)                                                            \
	F(cuDeviceGetUuid, CUuuid *uuid, CUdevice device)                                          \
	F(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice device)         \
	F(cuDeviceCanAccessPeer, int *can, CUdevice device, CUdevice peer)                         \
	F(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device)                           \
	F(cuDevicePrimaryCtxRelease_v2, CUdevice device)                                           \
	F(cuCtxPushCurrent_v2, CUcontext context)                                                  \
	F(cuCtxPopCurrent_v2, CUcontext *context)                                                  \
	F(cuCtxGetDevice, CUdevice *device)                                                        \
	F(cuCtxSynchronize, void)                                                                  \
	F(cuCtxEnablePeerAccess, CUcontext peer, unsigned int flags)                               \
	F(cuMemAlloc_v2, CUdeviceptr *address, size_t size)                                        \
	F(cuMemFree_v2, CUdeviceptr address)                                                       \
	F(cuIpcGetMemHandle, CUipcMemHandle *handle, CUdeviceptr address)                          \
	F(cuIpcOpenMemHandle_v2, CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)  \
	F(cuIpcCloseMemHandle, CUdeviceptr address)                                                \
	F(cuMemGetAllocationGranularity, size_t *granularity, const CUmemAllocationProp *prop,     \
	  CUmemAllocationGranularity_flags option)                                                 \
	F(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,                          \
	  const CUmemAllocationProp *prop, unsigned long long flags)                               \
	F(cuMemRelease, CUmemGenericAllocationHandle handle)                                       \
	F(cuMemExportToShareableHandle, void *out, CUmemGenericAllocationHandle handle,            \
	  CUmemAllocationHandleType type, unsigned long long flags)                                \
	F(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle, void *os_handle,   \
	  CUmemAllocationHandleType type)                                                          \
	F(cuMemAddressReserve, CUdeviceptr *address, size_t size, size_t alignment,                \
	  CUdeviceptr hint, unsigned long long flags)                                              \
	F(cuMemAddressFree, CUdeviceptr address, size_t size)                                      \
	F(cuMemMap, CUdeviceptr address, size_t size, size_t offset,                               \
	  CUmemGenericAllocationHandle handle, unsigned long long flags)                           \
	F(cuMemUnmap, CUdeviceptr address, size_t size)                                            \
	F(cuMemSetAccess, CUdeviceptr address, size_t size, const CUmemAccessDesc *desc,           \
	  size_t count)                                                                            \
	F(cuMemcpyHtoD_v2, CUdeviceptr to, const void *from, size_t size)                          \
	F(cuMemcpyDtoH_v2, void *to, CUdeviceptr from, size_t size)                                \
	F(cuMemcpyAsync, CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)           \
	F(cuMemsetD8_v2, CUdeviceptr address, unsigned char value, size_t count)                   \
	F(cuModuleLoadData, CUmodule *module, const void *image)                                   \
	F(cuModuleUnload, CUmodule module)                                                         \
	F(cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)            \
	F(cuLaunchKernel, CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,  \
	  unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, \
	  void **params, void **extra)

struct ck_wcm_driver {
	int device_count;
#define CK_WCM_DRIVER_SLOT(name, ...) CUresult (*name)(__VA_ARGS__);
	CK_WCM_DRIVER_FUNCTIONS(CK_WCM_DRIVER_SLOT)
#undef CK_WCM_DRIVER_SLOT
};

/* The process's one, opened and initialised when first asked for; NULL, and why in the log. */
const struct ck_wcm_driver *ck_wcm_driver(void);

/*
 * The wcm_status of a driver's error, which is logged with @what. Out of memory is not: a program
 * may want to know how much there is.
 */
int ck_wcm_status_of(CUresult err, const char *what);

#endif
