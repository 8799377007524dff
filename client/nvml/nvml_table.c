/*
 * client/nvml/nvml_table.c - nvmlInternalGetExportTable: the function table by which nvidia-smi
 * queries devices and processes. It is undocumented; this file contains everything that Cricket
 * knows about it.
 *
 * Provenance: own observation of nvidia-smi of driver 580.159 on an H200 (the slots it calls, their
 * arguments and results); the published tests of NVIDIA's k8s-test-infra (its mock of NVML), used
 * for facts only. Built with -DCK_NO_EXPORT_TABLES, this file knows no id.
 *
 * The table is an array of words; the first is its size in bytes. An unknown slot logs its number.
 * It is never NULL, because callers jump there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/nvml/nvml.h"
#include "gen/nvml_api.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#ifdef CK_NO_EXPORT_TABLES

const void *ckc_nvml_table(const void *id)
{
	(void)id;
	return NULL;
}

#else

#define SLOTS 256
#define SLOT_LOG 26	 /* (format, ...): write a line to NVML's own log */
#define SLOT_BUS_ID 81	 /* (index, char *pciBusId, length) */
#define SLOT_COMPUTE 213 /* (device, unsigned int *count, struct process *list) */
#define SLOT_GRAPHICS 214
#define SLOT_MPS 215
#define LIST_MAX 4096

/* A process in these lists, including its name. */
struct process {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu_instance, compute_instance;
	unsigned long long protected_memory;
	char name[4096];
};

static nvmlReturn_t log_line(const char *format)
{
	(void)format;
	return NVML_SUCCESS;
}

/* Format the id like the kernel does: 0000:00:06.0. */
static nvmlReturn_t bus_id(unsigned int index, char *text, unsigned int length)
{
	struct nvmlPciInfo_t pci;
	nvmlDevice_t device;
	nvmlReturn_t err = nvmlDeviceGetHandleByIndex_v2(index, &device);

	if (!err)
		err = text ? nvmlDeviceGetPciInfo_v3(device, &pci) : NVML_ERROR_INVALID_ARGUMENT;
	if (err)
		return err;
	if ((unsigned int)snprintf(text, length, "%04x:%02x:%02x.0", pci.domain, pci.bus,
				   pci.device) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return NVML_SUCCESS;
}

typedef nvmlReturn_t (*list_call)(nvmlDevice_t device, unsigned int *count,
				  struct nvmlProcessInfo_t *infos);

static void fill_process(struct process *p, const struct nvmlProcessInfo_t *info)
{
	memset(p, 0, sizeof(*p));
	p->pid = info->pid;
	p->memory = info->usedGpuMemory;
	p->gpu_instance = info->gpuInstanceId;
	p->compute_instance = info->computeInstanceId;
	if (nvmlSystemGetProcessName(info->pid, p->name, sizeof(p->name)))
		strcpy(p->name, "[Not Found]");
}

static nvmlReturn_t list_processes(list_call call, nvmlDevice_t device, unsigned int *count,
				   struct process *out)
{
	struct nvmlProcessInfo_t *infos;
	unsigned int room, n;
	nvmlReturn_t err;

	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = out ? ck_min(*count, (unsigned int)LIST_MAX) : 0;
	infos = calloc(room + 1, sizeof(*infos));
	if (!infos)
		return NVML_ERROR_MEMORY;
	n = room;
	err = call(device, &n, room ? infos : NULL);
	for (unsigned int i = 0; !err && i < n && i < room; i++)
		fill_process(&out[i], &infos[i]);
	*count = !err || err == NVML_ERROR_INSUFFICIENT_SIZE ? n : 0;
	free(infos);
	return err;
}

static nvmlReturn_t list_compute(nvmlDevice_t device, unsigned int *count, struct process *out)
{
	return list_processes(nvmlDeviceGetComputeRunningProcesses_v3, device, count, out);
}

static nvmlReturn_t list_graphics(nvmlDevice_t device, unsigned int *count, struct process *out)
{
	return list_processes(nvmlDeviceGetGraphicsRunningProcesses_v3, device, count, out);
}

static nvmlReturn_t list_mps(nvmlDevice_t device, unsigned int *count, struct process *out)
{
	return list_processes(nvmlDeviceGetMPSComputeRunningProcesses_v3, device, count, out);
}

/*
 * An unknown slot checks whether it was called for a device. nvidia-smi prints N/A for an
 * unsupported property of a device, but exits on an error of another call. So other calls succeed
 * and write nothing.
 */
static nvmlReturn_t handle_unknown_slot(unsigned int slot, nvmlDevice_t maybe)
{
	unsigned int id;

	ck_debug("slot %u of nvidia-smi's table is not supported", slot);
	return ckc_nvml_device_id(maybe, &id) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

#define ONE(n)                                                                                     \
	static nvmlReturn_t slot_##n(nvmlDevice_t d)                                               \
	{                                                                                          \
		return handle_unknown_slot(0x##n, d);                                              \
	}
/* clang-format off */
#define ROW(M, h)                                                                         \
	M(h##0) M(h##1) M(h##2) M(h##3) M(h##4) M(h##5) M(h##6) M(h##7)                   \
	M(h##8) M(h##9) M(h##a) M(h##b) M(h##c) M(h##d) M(h##e) M(h##f)
#define ALL(M)                                                                            \
	ROW(M, 0) ROW(M, 1) ROW(M, 2) ROW(M, 3) ROW(M, 4) ROW(M, 5) ROW(M, 6) ROW(M, 7)   \
	ROW(M, 8) ROW(M, 9) ROW(M, a) ROW(M, b) ROW(M, c) ROW(M, d) ROW(M, e) ROW(M, f)
/* clang-format on */
#define ADDRESS(n) (void *)slot_##n,

ALL(ONE)

static void *table[SLOTS] = {ALL(ADDRESS)};

static void make_table(void)
{
	table[0] = (void *)sizeof(table);
	table[SLOT_LOG] = (void *)log_line;
	table[SLOT_BUS_ID] = (void *)bus_id;
	table[SLOT_COMPUTE] = (void *)list_compute;
	table[SLOT_GRAPHICS] = (void *)list_graphics;
	table[SLOT_MPS] = (void *)list_mps;
}

const void *ckc_nvml_table(const void *id)
{
	static const unsigned char known[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
						0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (memcmp(id, known, sizeof(known)) != 0)
		return NULL;
	pthread_once(&once, make_table);
	return table;
}

#endif
