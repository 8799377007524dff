/*
 * client/objects/device.c - properties of devices, all from the server's first reply.
 *
 * The CUDA runtime makes about a hundred queries per device at every start; none crosses the wire.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/client.h"
#include "libcuda/visible.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/*
 * Attributes that promise features which this release refuses. They read 0 instead of the device's
 * value, so that a program that checks before it uses a feature takes its alternative.
 */
static const CUdevice_attribute refused[] = {
#define NO(name) CU_DEVICE_ATTRIBUTE_##name
	/* concurrent use of memory by host and device, or use without a call that announces it */
	NO(CONCURRENT_MANAGED_ACCESS),
	NO(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
	NO(PAGEABLE_MEMORY_ACCESS),
	NO(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
	NO(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
	NO(READ_ONLY_HOST_REGISTER_SUPPORTED),
	NO(HOST_NATIVE_ATOMIC_SUPPORTED),
	NO(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED),
	/* handles to memory other than descriptors; memory located in the host */
	NO(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED),
	NO(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED),
	NO(HANDLE_TYPE_FABRIC_SUPPORTED),
	NO(MULTICAST_SUPPORTED),
	NO(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	NO(HOST_NUMA_MEMORY_POOLS_SUPPORTED),
	NO(HOST_NUMA_MULTINODE_IPC_SUPPORTED),
	NO(HOST_MEMORY_POOLS_SUPPORTED),
	NO(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	NO(HOST_ALLOC_DMA_BUF_SUPPORTED),
	/* access from other devices and processes */
	NO(GPU_DIRECT_RDMA_SUPPORTED),
	NO(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
	NO(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
	NO(GPU_DIRECT_RDMA_WRITES_ORDERING),
	NO(CAN_FLUSH_REMOTE_WRITES),
	NO(DMA_BUF_SUPPORTED),
	NO(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
	NO(D3D12_CIG_SUPPORTED),
	NO(VULKAN_CIG_SUPPORTED),
	/* addresses of functions */
	NO(UNIFIED_FUNCTION_POINTERS),
#undef NO
};

/* --- from the server's reply to the session's gpus */

static int attribute_of(const ck_device *facts, CUdevice_attribute attribute)
{
	for (u_int i = 0; i < facts->attributes.attributes_len; i++) {
		if (facts->attributes.attributes_val[i].id == (int)attribute)
			return facts->attributes.attributes_val[i].value;
	}
	return 0;
}

static CUresult gpu_build(struct ckc_client *c, struct ckc_gpu *gpu, int ordinal,
			  int server_ordinal)
{
	const ck_device *facts = &c->hello.devices.devices_val[server_ordinal];
	int *values = calloc(CK_ATTRIBUTE_END, sizeof(*values));
	bool *has = calloc(CK_ATTRIBUTE_END, sizeof(*has));

	gpu->primary = ckc_object_new(CK_OBJECT_CONTEXT, NULL);
	if (!values || !has || !gpu->primary) {
		free(values);
		free(has);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (u_int i = 0; i < facts->attributes.attributes_len; i++) {
		const ck_attribute *a = &facts->attributes.attributes_val[i];

		if (a->id > 0 && a->id < CK_ATTRIBUTE_END) {
			values[a->id] = a->value;
			has[a->id] = true;
		}
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(refused); i++)
		values[refused[i]] = 0;
	/* a mask: only descriptors remain */
	values[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] &=
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	gpu->server_ordinal = server_ordinal;
	gpu->facts = facts;
	gpu->attributes = values;
	gpu->has_attribute = has;
	gpu->primary->client = c;
	gpu->primary->device = ordinal;
	gpu->primary->primary = true;
	return CUDA_SUCCESS;
}

/* Write the indices of the visible devices to @chosen. Returns their number; -1: one is named
 * twice. */
static int choose(const struct ckc_client *c, int *chosen, int count)
{
	const char *list = ck_env_string("CUDA_VISIBLE_DEVICES");
	struct ck_visible_device *devices = calloc((size_t)count + 1, sizeof(*devices));
	bool bad = false;
	int n = 0;

	for (int i = 0; devices && i < count; i++) {
		const ck_device *facts = &c->hello.devices.devices_val[i];

		memcpy(devices[i].uuid, facts->uuid, sizeof(devices[i].uuid));
		memcpy(devices[i].mig_uuid, facts->uuid_v2, sizeof(devices[i].mig_uuid));
		devices[i].pci_domain = attribute_of(facts, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
		devices[i].pci_bus = attribute_of(facts, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
		devices[i].pci_device = attribute_of(facts, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
	}
	if (devices)
		n = ck_visible_choose(devices, count, ck_env_string("CUDA_DEVICE_ORDER"), list,
				      chosen, &bad);
	if (bad)
		ck_warn("CUDA_VISIBLE_DEVICES=%s: an entry names no further device of the "
			"server's %d; %d in use",
			list, count, n);
	if (n < 0)
		ck_warn("CUDA_VISIBLE_DEVICES=%s names a device twice", list);
	free(devices);
	return n;
}

CUresult ckc_devices_build(struct ckc_client *c)
{
	int count = (int)c->hello.devices.devices_len, n;
	int *chosen = calloc((size_t)count + 1, sizeof(*chosen));
	CUresult err = CUDA_SUCCESS;
	struct ckc_gpu *gpus;

	if (!chosen)
		return CUDA_ERROR_OUT_OF_MEMORY;
	n = choose(c, chosen, count);
	gpus = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*gpus));
	if (!gpus)
		err = n < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < n && !err; i++)
		err = gpu_build(c, &gpus[i], i, chosen[i]);
	free(chosen);
	if (err)
		return err;
	c->gpus = gpus;
	c->gpu_count = n;
	return CUDA_SUCCESS;
}

struct ckc_gpu *ckc_gpu(CUdevice device)
{
	const struct ckc_client *c = ckc_client_current();

	return device >= 0 && device < c->gpu_count ? &c->gpus[device] : NULL;
}

CUresult ckc_device_id(CUdevice device, int *server_ordinal)
{
	const struct ckc_gpu *gpu = ckc_gpu(device);

	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
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

static CUresult begin(const void *output, CUdevice dev, const struct ckc_gpu **gpu)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*gpu = ckc_gpu(dev);
	return *gpu ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CK_EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = ckc_client_current()->gpu_count;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin(device, ordinal, &gpu);

	if (!err)
		*device = ordinal;
	return err;
}

CK_EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin(pi, dev, &gpu);

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
	CUresult err = begin(name, dev, &gpu);

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
	CUresult err = begin(uuid, dev, &gpu);

	if (!err)
		memcpy(uuid->bytes, gpu->facts->uuid, sizeof(uuid->bytes));
	return err;
}

CK_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin(uuid, dev, &gpu);

	if (!err)
		memcpy(uuid->bytes, gpu->facts->uuid_v2, sizeof(uuid->bytes));
	return err;
}

/* A LUID identifies an adapter on Windows; a Linux driver has none. */
CK_EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
	static const char none[sizeof(((ck_device *)0)->luid)];
	const struct ckc_gpu *gpu;
	CUresult err = begin(luid, dev, &gpu);

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
	CUresult err = begin(bytes, dev, &gpu);

	if (!err)
		*bytes = gpu->facts->memory;
	return err;
}

CK_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin(major && minor ? major : NULL, dev, &gpu);

	if (err)
		return err;
	*major = gpu->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
	*minor = gpu->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	const struct ckc_gpu *gpu;
	CUresult err = begin(prop, dev, &gpu);
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
	CUresult err = begin(pciBusId, dev, &gpu);

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
	CUresult err = ckc_session_check();
	int domain, bus, device;

	if (err)
		return err;
	if (!dev || !pciBusId || !pci_parse(pciBusId, &domain, &bus, &device))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < ckc_client_current()->gpu_count; i++) {
		const int *a = ckc_client_current()->gpus[i].attributes;

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

static bool p2p_find(int src, int dst, int attribute, int *value)
{
	for (u_int i = 0; i < ckc_client_current()->hello.p2p.p2p_len; i++) {
		const ck_p2p *p = &ckc_client_current()->hello.p2p.p2p_val[i];

		if (p->src == src && p->dst == dst && p->attribute == attribute) {
			*value = p->value;
			return true;
		}
	}
	return false;
}

CK_EXPORT CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	const struct ckc_gpu *gpu, *peer;
	CUresult err = begin(canAccessPeer, dev, &gpu);

	if (!err)
		err = begin(canAccessPeer, peerDev, &peer);
	if (err)
		return err;
	if (!p2p_find(gpu->server_ordinal, peer->server_ordinal, 0, canAccessPeer))
		*canAccessPeer = 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					   CUdevice srcDevice, CUdevice dstDevice)
{
	const struct ckc_gpu *src, *dst;
	CUresult err = begin(value, srcDevice, &src);

	if (!err)
		err = begin(value, dstDevice, &dst);
	if (err)
		return err;
	if (src == dst)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((int)attrib <= 0 ||
	    !p2p_find(src->server_ordinal, dst->server_ordinal, (int)attrib, value))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
