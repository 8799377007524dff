/*
 * client/objects/device.c - properties of devices, all from the server's first reply.
 *
 * The CUDA runtime makes about a hundred queries per device at every start; none crosses the wire.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/link/session_list.h"

struct ckc_gpu *ckc_gpu(CUdevice device)
{
	const struct ckc_client *c = ckc_client_root();

	return device >= 0 && device < c->gpu_count ? &c->gpus[device] : NULL;
}

struct ckc_client *ckc_gpu_client(CUdevice device)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);

	return gpu ? gpu->primary->client : NULL;
}

CUresult ckc_device_id(CUdevice device, int *server_ordinal)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);

	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	ckc_route(gpu->primary->client); /* the message is about it */
	*server_ordinal = gpu->server_ordinal;
	return CUDA_SUCCESS;
}

int ckc_gpu_attribute(CUdevice device, CUdevice_attribute attribute)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);

	if (!gpu || (unsigned int)attribute >= CK_ATTRIBUTE_END)
		return 0;
	return gpu->attributes[attribute];
}

/* --- the calls; each checks session, output and device first */

static CUresult begin_device_call(const void *output, CUdevice dev, const struct ckc_gpu **gpu)
{
	CUresult err = ckc_process_check();

	if (err)
		return err;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*gpu = ckc_gpu(dev);
	return *gpu ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CK_EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult err = ckc_process_check();

	if (err)
		return err;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = ckc_client_root()->gpu_count;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(device, ordinal, &gpu);

	if (!err)
		*device = ordinal;
	return err;
}

CK_EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(pi, dev, &gpu);

	if (err)
		return err;
	if ((unsigned int)attrib >= CK_ATTRIBUTE_END || !gpu->has_attribute[attrib])
		return CUDA_ERROR_INVALID_VALUE;
	*pi = gpu->attributes[attrib];
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(name, dev, &gpu);

	if (err)
		return err;
	if (len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", gpu->facts->name);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(uuid, dev, &gpu);

	if (!err)
		memcpy(uuid->bytes, gpu->facts->uuid, sizeof(uuid->bytes));
	return err;
}

CK_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(uuid, dev, &gpu);

	if (!err)
		memcpy(uuid->bytes, gpu->facts->uuid_v2, sizeof(uuid->bytes));
	return err;
}

/* A LUID identifies an adapter on Windows; a Linux driver has none. */
CK_EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	static const char none[sizeof(((ck_device *)0)->luid)];
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(luid, dev, &gpu);

	if (err)
		return err;
	if (!deviceNodeMask)
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(gpu->facts->luid, none, sizeof(none)) == 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(luid, gpu->facts->luid, sizeof(none));
	*deviceNodeMask = gpu->facts->luid_mask;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(bytes, dev, &gpu);

	if (!err)
		*bytes = gpu->facts->memory;
	return err;
}

CK_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(major && minor ? major : NULL, dev, &gpu);

	if (err)
		return err;
	*major = gpu->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
	*minor = gpu->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(prop, dev, &gpu);
	const int *a;

	if (err)
		return err;
	a = gpu->attributes;
	*prop = (CUdevprop){
		.maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		.maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X],
				  a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
				  a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
		.maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X],
				a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
				a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
		.sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
		.totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
		.SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
		.memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
		.regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
		.clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
		.textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
	};
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin_device_call(pciBusId, dev, &gpu);

	if (err)
		return err;
	if (len <= 0 || (size_t)len <= strlen(gpu->facts->pci_bus_id))
		return CUDA_ERROR_INVALID_VALUE;
	strcpy(pciBusId, gpu->facts->pci_bus_id);
	return CUDA_SUCCESS;
}

/* [domain:]bus:device[.function], hexadecimal. */
static bool pci_parse(const char *text, int *domain, int *bus, int *device)
{
	unsigned int v[4] = {0};
	int end = 0;

	if (sscanf(text, "%x:%x:%x%n.%x", &v[0], &v[1], &v[2], &end, &v[3]) < 3 || end == 0) {
		v[0] = 0;
		if (sscanf(text, "%x:%x%n.%x", &v[1], &v[2], &end, &v[3]) < 2)
			return false;
	}
	*domain = (int)v[0];
	*bus = (int)v[1];
	*device = (int)v[2];
	return true;
}

CK_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	CUresult err = ckc_process_check();
	int domain, bus, device;

	if (err)
		return err;
	if (!dev || !pciBusId || !pci_parse(pciBusId, &domain, &bus, &device))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < ckc_client_root()->gpu_count; i++) {
		const int *a = ckc_gpu(i)->attributes;

		if (a[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] == domain &&
		    a[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] == bus &&
		    a[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID] == device) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

/* --- pairs of devices; attribute 0 on the wire is cuDeviceCanAccessPeer */

static bool p2p_find(const struct ckc_gpu *src, const struct ckc_gpu *dst, int attribute,
		     int *value)
{
	const struct ckc_client *c = src->primary->client;

	if (dst->primary->client != c) { /* nothing connects two servers */
		*value = 0;
		return attribute <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
	}
	for (u_int i = 0; i < c->hello.p2p.p2p_len; i++) {
		const ck_p2p *p = &c->hello.p2p.p2p_val[i];

		if (p->src == src->server_ordinal && p->dst == dst->server_ordinal &&
		    p->attribute == attribute) {
			*value = p->value;
			return true;
		}
	}
	return false;
}

CK_EXPORT CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	const struct ckc_gpu *gpu, *peer;
	CUresult err = begin_device_call(canAccessPeer, dev, &gpu);

	if (!err)
		err = begin_device_call(canAccessPeer, peerDev, &peer);
	if (err)
		return err;
	if (!p2p_find(gpu, peer, 0, canAccessPeer))
		*canAccessPeer = 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					   CUdevice srcDevice, CUdevice dstDevice)
{
	const struct ckc_gpu *src, *dst;
	CUresult err = begin_device_call(value, srcDevice, &src);

	if (!err)
		err = begin_device_call(value, dstDevice, &dst);
	if (err)
		return err;
	if (src == dst)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((int)attrib <= 0 || !p2p_find(src, dst, (int)attrib, value))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
