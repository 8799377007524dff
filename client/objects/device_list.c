/*
 * client/objects/device_list.c - the devices that the program sees: those of all servers, in the
 * order of the list, of which CUDA_VISIBLE_DEVICES chooses.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/link/session_list.h"
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
	NO(HOST_NATIVE_ATOMIC_SUPPORTED),
	NO(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED),
	/* handles to memory other than descriptors; memory located in the host */
	NO(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED),
	NO(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED),
	NO(HANDLE_TYPE_FABRIC_SUPPORTED),
	NO(MULTICAST_SUPPORTED),
	NO(LOGICAL_ENDPOINT_UNICAST_SUPPORTED),
	NO(LOGICAL_ENDPOINT_MULTICAST_SUPPORTED),
	NO(LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED),
	NO(LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED),
	NO(LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES),
	NO(HOST_NUMA_MULTINODE_IPC_SUPPORTED),
	NO(HOST_ALLOC_DMA_BUF_SUPPORTED),
	/* access from other devices and processes */
	NO(GPU_DIRECT_RDMA_SUPPORTED),
	NO(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
	NO(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
	NO(GPU_DIRECT_RDMA_WRITES_ORDERING),
	NO(CAN_FLUSH_REMOTE_WRITES),
	NO(DMA_BUF_SUPPORTED),
	NO(DMA_BUF_MMAP_SUPPORTED),
	NO(GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED),
	NO(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
	NO(D3D12_CIG_SUPPORTED),
	NO(VULKAN_CIG_SUPPORTED),
	NO(D3D12_CIG_STREAMS_SUPPORTED),
	NO(VULKAN_CIG_STREAMS_SUPPORTED),
	/* operations of streams, and places of memory, of CUDA 13.1 and later */
	NO(ATOMIC_REDUCTION_SUPPORTED),
	NO(LOCALITY_DOMAIN_COUNT),
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
	/* the client provides these (client/memory/physical.c, pools/host_pool.c) */
	values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] =
		values[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED];
	values[CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] =
		values[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED];
	values[CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED] =
		values[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED];
	values[CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED] =
		values[CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED];
	/* a mask: only descriptors remain */
	values[CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] &=
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	gpu->server_ordinal = server_ordinal;
	gpu->facts = facts;
	gpu->attributes = values;
	gpu->has_attribute = has;
	gpu->primary->client = c;
	gpu->primary->object.session = (uint16_t)c->index;
	gpu->primary->device = ordinal;
	gpu->primary->primary = true;
	return CUDA_SUCCESS;
}

/* A device of the pool, before the program's choice. */
struct candidate {
	struct ckc_client *client;
	int server_ordinal;
};

/* Add the devices of a session that the list of servers names. INVALID_DEVICE: the server has no
 * such device; logged. */
static CUresult add_candidates(struct ckc_client *c, struct candidate *all, int *count)
{
	unsigned int named, most = c->hello.devices.devices_len;
	const unsigned int *devices;

	named = ckc_server_devices(c->index, &devices);
	for (unsigned int i = 0; i < (named ? named : most); i++) {
		unsigned int ordinal = named ? devices[i] : i;

		if (ordinal >= most) {
			ck_err("REMOTE_GPU_ADDRESS: the GPU server at %s has no device %u; it has "
			       "%u",
			       ckc_session_server(c), ordinal, most);
			return CUDA_ERROR_INVALID_DEVICE;
		}
		if (*count < CK_MAX_DEVICES)
			all[(*count)++] = (struct candidate){c, (int)ordinal};
	}
	return CUDA_SUCCESS;
}

/*
 * Write the indices of the visible devices to @chosen. Returns their number; -1: one is named
 * twice.
 */
static int choose_devices(const struct candidate *all, int *chosen, int count)
{
	const char *list = ck_env_string("CUDA_VISIBLE_DEVICES");
	struct ck_visible_device *devices = calloc((size_t)count + 1, sizeof(*devices));
	bool bad = false;
	int n = 0;

	for (int i = 0; devices && i < count; i++) {
		const ck_device *facts =
			&all[i].client->hello.devices.devices_val[all[i].server_ordinal];

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
		ck_warn("CUDA_VISIBLE_DEVICES=%s: an entry is not a GPU of the %s, which has %d: "
			"the program sees %s",
			list, ckc_many ? "pool" : "server", count,
			n > 0 ? "only those before this entry" : "no GPU; the first one is 0");
	if (n < 0)
		ck_warn("CUDA_VISIBLE_DEVICES=%s names a device twice", list);
	free(devices);
	return n;
}

static CUresult build_list(const struct candidate *all, int count, int *chosen)
{
	struct ckc_client *root = ckc_client_root();
	int n = choose_devices(all, chosen, count);
	struct ckc_gpu *gpus = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*gpus));
	CUresult err = CUDA_SUCCESS;

	if (!gpus)
		return n < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < n && !err; i++) {
		const struct candidate *from = &all[chosen[i]];

		err = gpu_build(from->client, &gpus[i], i, from->server_ordinal);
	}
	if (err)
		return err;
	root->gpus = gpus;
	root->gpu_count = n;
	return CUDA_SUCCESS;
}

CUresult ckc_devices_build(void)
{
	struct candidate all[CK_MAX_DEVICES];
	int chosen[CK_MAX_DEVICES + 1], count = 0;
	CUresult err = CUDA_SUCCESS;

	for (unsigned int i = 0; i < ckc_servers_count() && !err; i++)
		err = add_candidates(ckc_server_session(i), all, &count);
	return err ? err : build_list(all, count, chosen);
}
