/*
 * m3/driver.h - the few functions of the CUDA driver that M3 uses: the broker makes and exports
 * memory, its copier and the library map it.
 */
#ifndef CK_M3_DRIVER_H
#define CK_M3_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

#define CK_M3_DRIVER_FUNCTIONS(F)                                                                  \
	F(cuInit, unsigned int flags)                                                              \
	F(cuDeviceGetCount, int *count)                                                            \
	F(cuDeviceGetUuid, CUuuid *uuid, CUdevice device)                                          \
	F(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice device)         \
	F(cuDeviceTotalMem_v2, size_t *bytes, CUdevice device)                                     \
	F(cuDeviceCanAccessPeer, int *can, CUdevice device, CUdevice peer)                         \
	F(cuDeviceGetP2PAttribute, int *value, CUdevice_P2PAttribute attribute, CUdevice from,     \
	  CUdevice to)                                                                             \
	F(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device)                           \
	F(cuCtxSetCurrent, CUcontext context)                                                      \
	F(cuCtxGetCurrent, CUcontext *context)                                                     \
	F(cuCtxGetDevice, CUdevice *device)                                                        \
	F(cuCtxSynchronize, void)                                                                  \
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
	F(cuMemsetD8_v2, CUdeviceptr address, unsigned char value, size_t count)                   \
	F(cuMemcpyHtoD_v2, CUdeviceptr to, const void *from, size_t size)                          \
	F(cuMemcpyDtoH_v2, void *to, CUdeviceptr from, size_t size)                                \
	F(cuMemcpyDtoD_v2, CUdeviceptr to, CUdeviceptr from, size_t size)                          \
	F(cuIpcGetEventHandle, CUipcEventHandle *handle, CUevent event)                            \
	F(cuIpcOpenEventHandle, CUevent *event, CUipcEventHandle handle)                           \
	F(cuEventDestroy_v2, CUevent event)                                                        \
	F(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned int flags)                   \
	F(cuGetExportTable, const void **table, const CUuuid *id)

struct ck_m3_driver {
	void *library; /* NULL: the process had the driver already */
	int device_count;
#define CK_M3_DRIVER_SLOT(name, ...) CUresult (*name)(__VA_ARGS__);
	CK_M3_DRIVER_FUNCTIONS(CK_M3_DRIVER_SLOT)
#undef CK_M3_DRIVER_SLOT
};

/*
 * Open a driver library and initialise it: auto (a real one where it finds a device, else the
 * emulated), cuda, emu or a path; NULL: the one that this process has, else libcuda.so.1. @why says
 * what is wrong. -errno.
 */
int ck_m3_driver_open(struct ck_m3_driver *driver, const char *which, char *why, size_t size);

/* The number of the device with this UUID, or -1. */
int ck_m3_driver_device(const struct ck_m3_driver *driver, const unsigned char uuid[16]);

/* Properties of shared memory on @device. */
CUmemAllocationProp ck_m3_prop(int device, bool rdma);

/* The m3_status that a CUresult amounts to. */
int ck_m3_status_of(CUresult err);

#endif
