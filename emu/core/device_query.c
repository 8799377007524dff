/*
 * emu/core/device_query.c - questions of programs about a device.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "emu/core/emu.h"
#include "emu/core/mps.h"

/* The value of a CUdevice_attribute; false when it has none. */
static bool attribute_of(const struct ck_emu_device *device, int attribute, int *value)
{
	switch (attribute) {
#define CK_ATTRIBUTE(name, number)                                                                 \
	case CU_DEVICE_ATTRIBUTE_##name:                                                           \
		*value = (int)(number);                                                            \
		return true;
#include "emu/core/attributes.def"
#undef CK_ATTRIBUTE
	default:
		return false;
	}
}

/* The checks at the start of every query of one device. */
static CUresult begin_device_query(const void *output, CUdevice ordinal,
				   struct ck_emu_device **device)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ck_emu_device_at(ordinal);
	return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct ck_emu_device *found;
	CUresult result = begin_device_query(device, ordinal, &found);

	if (result == CUDA_SUCCESS)
		*device = found->ordinal;
	return result;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = ck_emu_device_count();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(name, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, CK_EMU_NAME);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(uuid, dev, &device);

	if (result == CUDA_SUCCESS)
		memcpy(uuid->bytes, device->uuid, sizeof(device->uuid));
	return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(bytes, dev, &device);

	if (result == CUDA_SUCCESS)
		*bytes = device->memory_total;
	return result;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(pi, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!attribute_of(device, (int)attrib, pi))
		return CUDA_ERROR_INVALID_VALUE;
	if (attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
		*pi = ck_emu_mps_part(*pi);
	return CUDA_SUCCESS;
}

int ck_emu_attribute(const struct ck_emu_device *device, CUdevice_attribute number)
{
	int value = 0;

	attribute_of(device, (int)number, &value);
	return value;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(prop, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	memset(prop, 0, sizeof(*prop));
	prop->maxThreadsPerBlock =
		ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	for (int i = 0; i < 3; i++) {
		prop->maxThreadsDim[i] = ck_emu_attribute(
			device, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
		prop->maxGridSize[i] = ck_emu_attribute(
			device, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
	}
	prop->sharedMemPerBlock =
		ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
	prop->totalConstantMemory =
		ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
	prop->SIMDWidth = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	prop->memPitch = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
	prop->regsPerBlock = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
	prop->clockRate = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
	prop->textureAlign = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(major, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	*minor = ck_emu_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(pciBusId, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", 0, device->bus + 1, 0);
	return CUDA_SUCCESS;
}

long ck_emu_bus_of(const char *address)
{
	unsigned int domain = 0, bus, slot, function = 0;

	/* the three forms that the driver documents */
	if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
	    sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(address, "%x:%x.%x", &bus, &slot, &function) != 3)
			return -EINVAL;
	}
	return domain || slot || function || bus == 0 ? -ENODEV : (long)bus - 1;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	CUresult result = ck_emu_enter_bare();
	long bus;

	if (result != CUDA_SUCCESS)
		return result;
	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	bus = ck_emu_bus_of(pciBusId);
	if (bus == -EINVAL)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < ck_emu_device_count(); i++) {
		if (bus == ck_emu_device_at(i)->bus) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(luid, dev, &device);

	(void)deviceNodeMask;
	/* as on every system but Windows */
	return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(canAccessPeer, dev, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(peerDev))
		return CUDA_ERROR_INVALID_DEVICE;
	*canAccessPeer = ck_emu_device_reaches(dev, peerDev) && dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				 CUdevice dstDevice)
{
	struct ck_emu_device *device;
	CUresult result = begin_device_query(value, srcDevice, &device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(dstDevice) || srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		*value = ck_emu_device_reaches(srcDevice, dstDevice);
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
