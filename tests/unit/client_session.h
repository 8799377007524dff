/*
 * tests/unit/client_session.h - a session of the client with no server behind it: two devices as
 * a first reply describes them. Enough for all that is answered without a message.
 */
#ifndef CK_TEST_CLIENT_SESSION_H
#define CK_TEST_CLIENT_SESSION_H

#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"

#define SESSION_TPCS 3

static ck_attribute session_attributes[2][8] = {
	{{CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 4},
	 {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
	 {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
	 {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2 * SESSION_TPCS},
	 {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1},
	 {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	 {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	 {10000, 1}},
	{{CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 5},
	 {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 2},
	 {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 1},
	 {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	 {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4}},
};

static char session_map[2][SESSION_TPCS] = {{0, 1, 0}, {0, 0, 1}};

static ck_device session_devices[2] = {
	{.name = (char *)"First GPU of the test",
	 .uuid = {0x67, 0x22, 0xcb},
	 .uuid_v2 = {0x68},
	 .pci_bus_id = (char *)"0000:04:00.0",
	 .memory = 1ull << 40,
	 .attributes = {8, session_attributes[0]},
	 .stream_priority_high = -5,
	 .tpc_gpc = {SESSION_TPCS, session_map[0]},
	 .tpc_index = {SESSION_TPCS, session_map[1]}},
	{.name = (char *)"Second",
	 .uuid = {0x99},
	 .pci_bus_id = (char *)"0001:05:02.0",
	 .memory = 1000,
	 .attributes = {5, session_attributes[1]}},
};

static ck_p2p session_p2p[] = {
	{0, 1, 0, 1},
	{0, 1, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 7},
};

/* A group set-up: after it, cuInit has succeeded as far as the client's calls can tell. */
static inline int session_begin(void **state)
{
	(void)state;
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	ckc_client_current()->hello.devices.devices_len = 2;
	ckc_client_current()->hello.devices.devices_val = session_devices;
	ckc_client_current()->hello.p2p.p2p_len = 2;
	ckc_client_current()->hello.p2p.p2p_val = session_p2p;
	ckc_client_current()->driver_version = 13000;
	if (ckc_devices_build() != CUDA_SUCCESS)
		return -1;
	ckc_client_current()->initialized = true;
	ckc_client_current()->state = CK_STATE_READY;
	return 0;
}

/* Exit handlers must not look for the server. */
static inline int session_end(void **state)
{
	(void)state;
	ckc_client_current()->state = CK_STATE_FRESH;
	return 0;
}

/* The primary context of @device as it is once somebody has retained it. */
static inline struct ckc_context *session_activate(CUdevice device)
{
	struct ckc_context *context = ckc_gpu(device)->primary;

	context->unique_id = 100 + (uint64_t)device;
	context->was_active = true;
	context->active = true;
	return context;
}

#endif
