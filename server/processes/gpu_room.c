/*
 * server/processes/gpu_room.c - see gpu_room.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/nvml.h"
#include "gen/nvml_server.h"
#include "server/nvml/nvml.h"
#include "server/processes/gpu_room.h"
#include "server/session/device_map.h"
#include "server/session/driver.h"
#include "util/util.h"
#include "util/uuid.h"

#define PROCESSES 1024		    /* of one GPU */
#define UNKNOWN (~0ull)		    /* NVML_VALUE_NOT_AVAILABLE */
#define CONTEXT (UINT64_C(1) << 30) /* a context with its modules takes less */
#define MARGIN                                                                                     \
	(UINT64_C(64) << 20) /* at most: the driver allocates in larger units than it counts */

void cks_gpu_room_read(struct cks_gpu_room *room)
{
	unsigned int count = 0;
	int err;

	*room = (struct cks_gpu_room){0};
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetCount_v2, &err) ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByIndex_v2, &err) ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetMemoryInfo, &err) ||
	    ck_nvml.nvmlDeviceGetCount_v2(&count))
		return;
	count = ck_min(count, (unsigned int)CK_ROOM_GPUS);
	for (unsigned int i = 0; i < count; i++) {
		struct nvmlMemory_t memory;
		nvmlDevice_t device;

		if (ck_nvml.nvmlDeviceGetHandleByIndex_v2(i, &device) ||
		    ck_nvml.nvmlDeviceGetMemoryInfo(device, &memory))
			return;
		room->bytes[i] = memory.free;
	}
	room->count = count;
}

/* The memory of @pid on GPU @index. False: NVML reports no such process there. @all: PROCESSES. */
static bool read_used(unsigned int index, pid_t pid, struct nvmlProcessInfo_t *all, uint64_t *bytes)
{
	unsigned int count = PROCESSES;
	nvmlDevice_t device;

	if (ck_nvml.nvmlDeviceGetHandleByIndex_v2(index, &device) ||
	    ck_nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, all))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (all[i].pid != (unsigned int)pid || all[i].usedGpuMemory == UNKNOWN)
			continue;
		*bytes = all[i].usedGpuMemory;
		return true;
	}
	return false;
}

bool cks_gpu_room_used(pid_t pid, struct cks_gpu_room *used)
{
	struct nvmlProcessInfo_t *all = malloc(PROCESSES * sizeof(*all));
	bool found = false;
	int err;

	cks_gpu_room_read(used);
	if (!all ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetComputeRunningProcesses_v3, &err))
		used->count = 0;
	for (unsigned int i = 0; i < used->count; i++) {
		used->bytes[i] = 0;
		found |= read_used(i, pid, all, &used->bytes[i]);
	}
	free(all);
	/* a process with a context uses memory of a real GPU; of an emulated one it may use none */
	return found || (used->count > 0 && cks_driver_emulated());
}

void cks_gpu_room_need(const struct cks_gpu_room *before, const struct cks_gpu_room *after,
		       uint64_t bytes, struct cks_gpu_room *need)
{
	unsigned int most = 0;
	uint64_t sum = 0;

	*need = (struct cks_gpu_room){.count = ck_min(before->count, after->count)};
	for (unsigned int i = 0; i < need->count; i++) {
		uint64_t freed = after->bytes[i] - ck_min(after->bytes[i], before->bytes[i]);

		need->bytes[i] = ck_min(freed, bytes + CONTEXT);
		sum += need->bytes[i];
		if (need->bytes[i] > need->bytes[most])
			most = i;
	}
	if (need->count > 0 && sum < bytes)
		need->bytes[most] += bytes - sum;
}

static bool has_mark(unsigned int index, uint32_t mark)
{
	unsigned char uuid[16];
	char text[96] = "";
	nvmlDevice_t device;
	int err;

	return cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByIndex_v2, &err) &&
	       cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetUUID, &err) &&
	       !ck_nvml.nvmlDeviceGetHandleByIndex_v2(index, &device) &&
	       !ck_nvml.nvmlDeviceGetUUID(device, text, sizeof(text)) &&
	       ck_uuid_parse(text, uuid) && cks_uuid_mark(uuid) == mark;
}

void cks_gpu_room_add(struct cks_gpu_room *need, uint32_t mark, uint64_t bytes)
{
	unsigned int at = 0, most = 0;

	if (bytes == 0 || need->count == 0)
		return;
	while (at < need->count && !has_mark(at, mark))
		at++;
	for (unsigned int i = 0; i < need->count; i++)
		most = need->bytes[i] > need->bytes[most] ? i : most;
	need->bytes[at < need->count ? at : most] += bytes;
}

bool cks_gpu_room_suffices(const struct cks_gpu_room *room, const struct cks_gpu_room *need,
			   char *why, size_t size)
{
	for (unsigned int i = 0; i < ck_min(room->count, need->count); i++) {
		uint64_t bytes = need->bytes[i] + ck_min(need->bytes[i] / 32, MARGIN);

		if (bytes == 0 || bytes <= room->bytes[i])
			continue;
		snprintf(why, size,
			 "CUDA_ERROR_OUT_OF_MEMORY: it needs %llu MiB of GPU %u, where %llu MiB "
			 "are free",
			 (unsigned long long)bytes >> 20, i,
			 (unsigned long long)room->bytes[i] >> 20);
		return false;
	}
	return true;
}

void cks_gpu_room_print(const struct cks_gpu_room *room, char text[CK_ROOM_TEXT])
{
	size_t at = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < room->count; i++)
		at += (size_t)snprintf(text + at, CK_ROOM_TEXT - at, "%s%llu", i ? "," : "",
				       (unsigned long long)room->bytes[i]);
}

void cks_gpu_room_parse(const char *text, struct cks_gpu_room *room)
{
	*room = (struct cks_gpu_room){0};
	while (*text && room->count < CK_ROOM_GPUS) {
		char *end;

		room->bytes[room->count++] = strtoull(text, &end, 10);
		text = *end == ',' ? end + 1 : end;
		if (end == text && *end)
			return;
	}
}
