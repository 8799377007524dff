/*
 * m3/driver.h - the few functions of the CUDA driver that M3 uses: the broker makes and exports
 * memory, its copier and the library map it.
 */
#ifndef CK_M3_DRIVER_H
#define CK_M3_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "gen/api.h"

#define CK_M3_DRIVER_FUNCTIONS(F)                                                                  \
	F(cuInit)                                                                                  \
	F(cuDeviceGetCount)                                                                        \
	F(cuDeviceGetUuid)                                                                         \
	F(cuDeviceGetAttribute)                                                                    \
	F(cuDeviceTotalMem_v2)                                                                     \
	F(cuDeviceCanAccessPeer)                                                                   \
	F(cuDeviceGetP2PAttribute)                                                                 \
	F(cuDevicePrimaryCtxRetain)                                                                \
	F(cuCtxSetCurrent)                                                                         \
	F(cuCtxGetCurrent)                                                                         \
	F(cuCtxGetDevice)                                                                          \
	F(cuCtxSynchronize)                                                                        \
	F(cuMemGetAllocationGranularity)                                                           \
	F(cuMemCreate)                                                                             \
	F(cuMemRelease)                                                                            \
	F(cuMemExportToShareableHandle)                                                            \
	F(cuMemImportFromShareableHandle)                                                          \
	F(cuMemAddressReserve)                                                                     \
	F(cuMemAddressFree)                                                                        \
	F(cuMemMap)                                                                                \
	F(cuMemUnmap)                                                                              \
	F(cuMemSetAccess)                                                                          \
	F(cuMemsetD8_v2)                                                                           \
	F(cuMemcpyHtoD_v2)                                                                         \
	F(cuMemcpyDtoH_v2)                                                                         \
	F(cuMemcpyDtoD_v2)                                                                         \
	F(cuIpcGetEventHandle)                                                                     \
	F(cuIpcOpenEventHandle)                                                                    \
	F(cuEventDestroy_v2)                                                                       \
	F(cuStreamWaitEvent)                                                                       \
	F(cuGetExportTable)

struct ck_m3_driver {
	int device_count;
#define CK_M3_DRIVER_SLOT(name) __typeof__(name) *name;
	CK_M3_DRIVER_FUNCTIONS(CK_M3_DRIVER_SLOT)
#undef CK_M3_DRIVER_SLOT
};

/*
 * Open a driver library and initialise it: auto (a real one where it finds a device, else the
 * emulated), cuda, emu or a path; NULL: the one that this process has, else libcuda.so.1. @why says
 * the error. -errno.
 */
int ck_m3_driver_open(struct ck_m3_driver *driver, const char *which, char *why, size_t size);

/* The number of the device with this UUID, or -1. */
int ck_m3_driver_device(const struct ck_m3_driver *driver, const unsigned char uuid[16]);

/* Properties of shared memory on @device. */
CUmemAllocationProp ck_m3_prop(int device, bool rdma);

/* The m3_status that a CUresult amounts to. */
int ck_m3_status_of(CUresult err);

#endif
