/*
 * m3/driver.c - opening the CUDA driver; see driver.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/open.h"
#include "m3/driver.h"
#include "m3/m3.h"

static int open_named(struct ck_m3_driver *d, const char *which, char *why, size_t size)
{
	void *library = which ? ck_cuda_open(which) : NULL;
	CUresult err;

	memset(d, 0, sizeof(*d));
	if (which ? !library : !ck_cuda_find("cuMemMap", &library)) {
		snprintf(why, size, "%s", dlerror());
		return -ENOENT;
	}
#define FIND(name) *(void **)&d->name = dlsym(library, #name);
	CK_M3_DRIVER_FUNCTIONS(FIND)
#undef FIND
	if (!d->cuInit || !d->cuDeviceGetCount || !d->cuDeviceGetUuid || !d->cuMemCreate ||
	    !d->cuMemRelease || !d->cuMemMap || !d->cuMemUnmap || !d->cuMemSetAccess ||
	    !d->cuMemAddressReserve || !d->cuMemAddressFree || !d->cuMemExportToShareableHandle ||
	    !d->cuMemImportFromShareableHandle || !d->cuMemGetAllocationGranularity) {
		snprintf(why, size, "no CUDA driver that can share memory");
		return -ELIBBAD;
	}
	err = d->cuInit(0);
	if (!err)
		err = d->cuDeviceGetCount(&d->device_count);
	if (err || d->device_count <= 0) {
		snprintf(why, size, "the driver finds no device (error %d)", (int)err);
		return -ENODEV;
	}
	if (d->device_count > M3_DEVICES_MAX)
		d->device_count = M3_DEVICES_MAX;
	return 0;
}

int ck_m3_driver_open(struct ck_m3_driver *d, const char *which, char *why, size_t size)
{
	if (which && strcmp(which, "auto") == 0)
		return open_named(d, "cuda", why, size) == 0 ? 0 : open_named(d, "emu", why, size);
	return open_named(d, which, why, size);
}

int ck_m3_driver_device(const struct ck_m3_driver *d, const unsigned char uuid[16])
{
	CUuuid found;

	for (int i = 0; i < d->device_count; i++) {
		if (d->cuDeviceGetUuid(&found, i) == CUDA_SUCCESS && memcmp(&found, uuid, 16) == 0)
			return i;
	}
	return -1;
}

CUmemAllocationProp ck_m3_prop(int device, bool rdma)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	prop.allocFlags.gpuDirectRDMACapable = rdma;
	return prop;
}

int ck_m3_status_of(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
		return M3_OK;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return M3_ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_DEVICE:
		return M3_EINVAL;
	case CUDA_ERROR_NOT_SUPPORTED:
		return M3_ENOTSUP;
	case CUDA_ERROR_NOT_PERMITTED:
		return M3_EPERM;
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
		return M3_EDEVLOST;
	default:
		return M3_EIO;
	}
}
