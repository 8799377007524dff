/*
 * emu/core/device.c - the number of devices and their properties.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "emu/core/locks.h"
#include "emu/core/emu.h"
#include "emu/core/mps.h"
#include "libcuda/visible.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

static struct ck_emu_device devices[CK_EMU_MAX_DEVICES];
/* NVML's devices: all of the machine, also those that the application may not see, in the order of
 * their numbers */
static struct ck_emu_device boards[CK_EMU_MAX_DEVICES];
static int device_count, board_count;
static struct {
	unsigned char devices[CK_EMU_MAX_DEVICES][16], boards[CK_EMU_MAX_DEVICES][16];
	int board_count;
} before; /* the last move */

/* The UUID of the device of a number: version 8 (RFC 9562), free content, the machine and the
 * number. */
static void uuid_of(int number, unsigned char uuid[16])
{
	static const unsigned char bytes[16] = {0x43, 0x72, 0x69, 0x63, 0x6b, 0x65, 0x80, 0x74,
						0x80, 0x45, 0x6d, 0x75, 0x47, 0x50, 0x55, 0x00};

	memcpy(uuid, bytes, sizeof(bytes));
	uuid[14] ^= (unsigned char)ck_env_word_number("CRICKET_EMU", "machine");
	uuid[15] = (unsigned char)number;
}

/* The numbers of the devices that the application may see; how many, or -1: one is named twice. */
static int choose_visible_devices(int count, int *chosen)
{
	struct ck_visible_device all[CK_EMU_MAX_DEVICES] = {0};
	const char *list = ck_env_string("CUDA_VISIBLE_DEVICES");
	bool bad;
	int n;

	for (int i = 0; i < count; i++) {
		uuid_of(i, all[i].uuid);
		uuid_of(i, all[i].mig_uuid);
		all[i].pci_bus = i + 1;
	}
	n = ck_visible_choose(all, count, ck_env_string("CUDA_DEVICE_ORDER"), list, chosen, &bad);
	if (n < 0)
		ck_warn("CUDA_VISIBLE_DEVICES=%s names a device twice", list);
	else if (bad)
		ck_warn("CUDA_VISIBLE_DEVICES=%s: an entry is not one of the %d GPUs: the program "
			"sees the %d before this entry",
			list, count, n);
	return n;
}

/* Another machine may have more of them later. */
static void boards_init(int count, size_t memory)
{
	for (int i = 0; i < CK_EMU_MAX_DEVICES; i++) {
		boards[i].ordinal = boards[i].number = boards[i].bus = i;
		boards[i].memory_total = memory;
		uuid_of(i, boards[i].uuid);
	}
	board_count = count;
}

int ck_emu_devices_init(void)
{
	long wanted = ck_env_word_number("CRICKET_EMU", "devices");
	long memory = ck_env_word_number("CRICKET_EMU", "memory");
	int count, chosen[CK_EMU_MAX_DEVICES];

	wanted = ck_max(0l, ck_min(wanted, (long)CK_EMU_MAX_DEVICES));
	count = choose_visible_devices((int)wanted, chosen);
	if (count < 0)
		return -EINVAL;
	/* below this not even a module's variables find room */
	memory = ck_max(memory, 1l << 20);
	boards_init((int)wanted, (size_t)memory);
	for (int i = 0; i < count; i++) {
		devices[i].ordinal = i;
		devices[i].number = devices[i].bus = chosen[i];
		uuid_of(chosen[i], devices[i].uuid);
		devices[i].memory_total = (size_t)memory;
		devices[i].primary_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PRIMARY);
	}
	device_count = count;
	return 0;
}

bool ck_emu_device_reaches(CUdevice from, CUdevice to)
{
	return from == to || ck_env_word_number("CRICKET_EMU", "peers") != 0;
}

bool ck_emu_check_asked(const char *name)
{
	char text[64], *at = text;

	if (ck_env_word("CRICKET_EMU", "check", text, sizeof(text)) < 0)
		return false;
	while (*at) {
		size_t size = strcspn(at, "+,");

		if (strlen(name) == size && strncmp(name, at, size) == 0)
			return true;
		at += size + (at[size] != '\0');
	}
	return false;
}

int ck_emu_device_count(void)
{
	return device_count;
}

struct ck_emu_device *ck_emu_device_at(CUdevice ordinal)
{
	return ordinal < 0 || ordinal >= device_count ? NULL : &devices[ordinal];
}

struct ck_emu_device *ck_emu_board_at(int index)
{
	return index < 0 || index >= board_count ? NULL : &boards[index];
}

int ck_emu_machine_count(void)
{
	return board_count;
}

bool ck_emu_machine_has(const CUuuid *uuid)
{
	unsigned char there[16];

	for (int i = 0; i < board_count; i++) {
		uuid_of(i, there);
		if (memcmp(uuid->bytes, there, sizeof(there)) == 0)
			return true;
	}
	return false;
}

/* --- moving to other devices */

/* Where @pairs lead from @uuid; NULL: they do not name it, or twice. */
static const unsigned char *goal_of(const unsigned char uuid[16], const CUcheckpointGpuPair *pairs,
				    unsigned int count)
{
	const unsigned char *goal = NULL;

	for (unsigned int i = 0; i < count; i++) {
		if (memcmp(pairs[i].oldUuid.bytes, uuid, 16) != 0)
			continue;
		if (goal)
			return NULL;
		goal = (const unsigned char *)pairs[i].newUuid.bytes;
	}
	return goal;
}

static bool leads_all(const CUcheckpointGpuPair *pairs, unsigned int count)
{
	if (count != (unsigned int)board_count)
		return false;
	for (int i = 0; i < board_count; i++) {
		if (!goal_of(boards[i].uuid, pairs, count))
			return false;
	}
	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (memcmp(&pairs[i].newUuid, &pairs[k].newUuid, 16) == 0)
				return false;
		}
	}
	return true;
}

static void move_to(struct ck_emu_device *device, const unsigned char uuid[16])
{
	memcpy(device->uuid, uuid, sizeof(device->uuid));
	device->number = uuid[15] % CK_EMU_MAX_DEVICES;
}

/* Another machine, that of @uuid, has GPUs of its own, and NVML finds those. */
static void change_machine(const unsigned char *uuid, unsigned int gpus)
{
	board_count = (int)ck_min(gpus, (unsigned int)CK_EMU_MAX_DEVICES);
	for (int i = 0; i < board_count; i++) {
		memcpy(boards[i].uuid, uuid, sizeof(boards[i].uuid));
		boards[i].uuid[15] = (unsigned char)i;
	}
}

/*
 * As it is reported of NVIDIA's driver (issue 48 of NVIDIA/cuda-checkpoint): the UUID is then that
 * of the new GPU, while the PCI address stays that of the old one.
 */
CUresult ck_emu_devices_move(const CUcheckpointGpuPair *pairs, unsigned int count,
			     unsigned int gpus)
{
	if (!leads_all(pairs, count))
		return CUDA_ERROR_INVALID_VALUE;
	before.board_count = board_count;
	for (int i = 0; i < board_count; i++)
		memcpy(before.boards[i], boards[i].uuid, sizeof(before.boards[i]));
	for (int i = 0; i < device_count; i++)
		memcpy(before.devices[i], devices[i].uuid, sizeof(before.devices[i]));
	for (int i = 0; i < device_count; i++)
		move_to(&devices[i], goal_of(devices[i].uuid, pairs, count));
	if (pairs[0].newUuid.bytes[14] != pairs[0].oldUuid.bytes[14])
		change_machine((const unsigned char *)pairs[0].newUuid.bytes, gpus);
	return CUDA_SUCCESS;
}

void ck_emu_devices_move_undo(void)
{
	for (int i = 0; i < device_count; i++)
		move_to(&devices[i], before.devices[i]);
	board_count = before.board_count;
	for (int i = 0; i < board_count; i++)
		memcpy(boards[i].uuid, before.boards[i], sizeof(boards[i].uuid));
}

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
	*count = device_count;
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
	for (int i = 0; i < device_count; i++) {
		if (bus == devices[i].bus) {
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
