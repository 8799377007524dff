/*
 * emu/core/device.c - the devices of this machine, and how a process moves to others.
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
			"sees %s",
			list, count,
			n > 0 ? "only those before this entry" : "no GPU; the first one is 0");
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
	long context = ck_env_word_number("CRICKET_EMU", "context");
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
		devices[i].context_memory = (size_t)ck_max(context, 0l);
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
