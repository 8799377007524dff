/*
 * wcm/driver.h - the CUDA calls of the library, from the driver that the process has: NVIDIA's, the
 * emulated one, or Cricket's client.
 */
#ifndef CK_WCM_DRIVER_H
#define CK_WCM_DRIVER_H

#include <stddef.h>

#include "gen/api.h"

#define CK_WCM_DRIVER_FUNCTIONS(F)                                                                 \
	F(cuInit)                                                                                  \
	F(cuDeviceGetCount)                                                                        \
	F(cuDeviceGetUuid)                                                                         \
	F(cuDeviceGetAttribute)                                                                    \
	F(cuDeviceCanAccessPeer)                                                                   \
	F(cuDevicePrimaryCtxRetain)                                                                \
	F(cuDevicePrimaryCtxRelease_v2)                                                            \
	F(cuCtxPushCurrent_v2)                                                                     \
	F(cuCtxPopCurrent_v2)                                                                      \
	F(cuCtxGetDevice)                                                                          \
	F(cuCtxSynchronize)                                                                        \
	F(cuCtxEnablePeerAccess)                                                                   \
	F(cuMemAlloc_v2)                                                                           \
	F(cuMemFree_v2)                                                                            \
	F(cuIpcGetMemHandle)                                                                       \
	F(cuIpcOpenMemHandle_v2)                                                                   \
	F(cuIpcCloseMemHandle)                                                                     \
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
	F(cuMemcpyHtoD_v2)                                                                         \
	F(cuMemcpyDtoH_v2)                                                                         \
	F(cuMemcpyAsync)                                                                           \
	F(cuMemsetD8_v2)                                                                           \
	F(cuModuleLoadData)                                                                        \
	F(cuModuleUnload)                                                                          \
	F(cuModuleGetFunction)                                                                     \
	F(cuLaunchKernel)

struct ck_wcm_driver {
	int device_count;
#define CK_WCM_DRIVER_SLOT(name) __typeof__(name) *name;
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
