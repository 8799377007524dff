/*
 * command/sessions/gpu.c - see gpu.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/sessions/gpu.h"
#include "cuda/nvml.h"
#include "cuda/open.h"
#include "util/env.h"
#include "util/util.h"
#include "util/uuid.h"

#define PROCESSES 1024 /* on one GPU */
#define SAMPLES 4096
#define UNKNOWN (~0ull) /* in some containers */

struct nvml {
	nvmlReturn_t (*init)(void);
	nvmlReturn_t (*count)(unsigned int *count);
	nvmlReturn_t (*handle)(unsigned int index, nvmlDevice_t *device);
	nvmlReturn_t (*name)(nvmlDevice_t device, char *name, unsigned int length);
	nvmlReturn_t (*uuid)(nvmlDevice_t device, char *uuid, unsigned int length);
	nvmlReturn_t (*memory)(nvmlDevice_t device, struct nvmlMemory_t *memory);
	nvmlReturn_t (*processes)(nvmlDevice_t device, unsigned int *count,
				  struct nvmlProcessInfo_t *infos);
	/* These may be missing. */
	nvmlReturn_t (*rates)(nvmlDevice_t device, struct nvmlUtilization_t *rates);
	nvmlReturn_t (*samples)(nvmlDevice_t device, struct nvmlProcessUtilizationSample_t *samples,
				unsigned int *count, unsigned long long since);
};

static const char *const names[] = {"nvmlInit_v2",
				    "nvmlDeviceGetCount_v2",
				    "nvmlDeviceGetHandleByIndex_v2",
				    "nvmlDeviceGetName",
				    "nvmlDeviceGetUUID",
				    "nvmlDeviceGetMemoryInfo",
				    "nvmlDeviceGetComputeRunningProcesses_v3",
				    "nvmlDeviceGetUtilizationRates",
				    "nvmlDeviceGetProcessUtilization"};
#define NEEDED 7

_Static_assert(sizeof(names) == sizeof(struct nvml), "a name for each function");

struct ckx_gpus {
	void *library;
	struct nvml nvml;
	bool emulated;
	unsigned long long seen[CKX_GPUS]; /* the latest sample of each GPU */
	struct nvmlProcessInfo_t processes[PROCESSES];
	struct nvmlProcessUtilizationSample_t samples[SAMPLES];
};

#if defined(__aarch64__)
#define DEBIAN_LIBRARIES "/usr/lib/aarch64-linux-gnu"
#else
#define DEBIAN_LIBRARIES "/usr/lib/x86_64-linux-gnu"
#endif

/* The machine's own: the client library, in the environment of `cricket run`, has its name too. */
static void *open_real(void)
{
	static const char *const places[] = {
		DEBIAN_LIBRARIES "/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1",
		"/usr/lib/libnvidia-ml.so.1",	       "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
		"/usr/lib/wsl/lib/libnvidia-ml.so.1",  "libnvidia-ml.so.1"};
	void *library = NULL;

	for (size_t i = 0; !library && i < CK_ARRAY_SIZE(places); i++) {
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
		if (library && dlsym(library, "cuInit")) { /* NVML alone has no such function */
			dlclose(library);
			library = NULL;
		}
	}
	return library;
}

static bool load_nvml(struct ckx_gpus *g)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		void *function = dlsym(g->library, names[i]);

		if (!function && i < NEEDED)
			return false;
		memcpy((char *)&g->nvml + i * sizeof(function), &function, sizeof(function));
	}
	return g->nvml.init() == NVML_SUCCESS;
}

/* The emulated driver reads what machine it is from the environment: it is the server's, and not
 * this process's. */
static void be_machine_of(const json_t *report)
{
	static const char *const names[] = {"devices", "memory", "machine"};
	const json_t *emulated = json_object_get(report, "emulated");
	char text[48];

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		const json_t *value = json_object_get(emulated, names[i]);

		snprintf(text, sizeof(text), "%s=%lld", names[i],
			 (long long)json_integer_value(value));
		if (value)
			ck_env_list_add("CRICKET_EMU", text);
	}
}

struct ckx_gpus *ckx_gpus_open(const json_t *report)
{
	const char *driver = json_string_value(json_object_get(report, "driver"));
	struct ckx_gpus *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->emulated = driver && strcmp(driver, "emu") == 0;
	if (g->emulated)
		be_machine_of(report);
	g->library = g->emulated ? ck_cuda_open("emu") : open_real();
	if (g->library && load_nvml(g))
		return g;
	ckx_gpus_close(g);
	return NULL;
}

/* The library stays: it may have threads. */
void ckx_gpus_close(struct ckx_gpus *g)
{
	free(g);
}

/* Note in @session its use of a GPU. */
static json_t *use_of(json_t *session, unsigned int index)
{
	json_t *list = json_object_get(session, "gpus"), *use;
	size_t i;

	if (!list) {
		list = json_array();
		json_object_set_new(session, "gpus", list);
	}
	json_array_foreach(list, i, use)
	{
		if (json_integer_value(json_object_get(use, "index")) == index)
			return use;
	}
	use = json_pack("{s:i, s:I}", "index", (int)index, "memory", (json_int_t)0);
	json_array_append_new(list, use);
	return use;
}

static json_t *session_of(const json_t *report, unsigned int pid)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		if (json_integer_value(json_object_get(s, "pid")) == pid)
			return s;
	}
	return NULL;
}

/* Does a session use it? */
static bool add_processes(struct ckx_gpus *g, nvmlDevice_t device, unsigned int index,
			  json_t *report)
{
	unsigned int count = PROCESSES;
	bool used = false;

	if (g->nvml.processes(device, &count, g->processes) != NVML_SUCCESS)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		json_t *s = session_of(report, g->processes[i].pid), *use;

		if (!s)
			continue;
		used = true;
		use = use_of(s, index);
		if (g->processes[i].usedGpuMemory != UNKNOWN)
			json_object_set_new(
				use, "memory",
				json_integer((json_int_t)g->processes[i].usedGpuMemory));
	}
	return used;
}

/* The share of each process is the mean of its samples since the last call. */
static void add_shares(struct ckx_gpus *g, nvmlDevice_t device, unsigned int index, json_t *report)
{
	unsigned long long since = g->seen[index];
	unsigned int count = SAMPLES;
	json_t *s;
	size_t at;

	if (!g->nvml.samples || g->nvml.samples(device, g->samples, &count, since) != NVML_SUCCESS)
		return;
	json_array_foreach(json_object_get(report, "sessions"), at, s)
	{
		json_int_t pid = json_integer_value(json_object_get(s, "pid"));
		unsigned int sum = 0, n = 0;

		for (unsigned int i = 0; i < count; i++) {
			if (g->samples[i].pid == pid && g->samples[i].timeStamp > since) {
				sum += g->samples[i].smUtil;
				n++;
			}
		}
		if (n > 0)
			json_object_set_new(use_of(s, index), "share", json_real(sum / 100.0 / n));
	}
	for (unsigned int i = 0; i < count; i++)
		g->seen[index] = ck_max(g->seen[index], g->samples[i].timeStamp);
}

static void describe_gpu(struct ckx_gpus *g, nvmlDevice_t device, unsigned int index,
			 json_t *report)
{
	struct nvmlMemory_t memory = {0};
	struct nvmlUtilization_t rates;
	char name[96] = "";
	json_t *gpu;

	g->nvml.name(device, name, sizeof(name));
	g->nvml.memory(device, &memory);
	gpu = json_pack("{s:i, s:s, s:I, s:I}", "index", (int)index, "name", name, "memory",
			(json_int_t)memory.total, "used", (json_int_t)memory.used);
	/* the emulated driver's is always 0 */
	if (!g->emulated && g->nvml.rates && g->nvml.rates(device, &rates) == NVML_SUCCESS)
		json_object_set_new(gpu, "utilization", json_real(rates.gpu / 100.0));
	json_array_append_new(json_object_get(report, "gpus"), gpu);
}

/* The machine's GPUs, as NVML lists them. */
struct machine {
	nvmlDevice_t devices[CKX_GPUS];
	char uuids[CKX_GPUS][2 * CK_UUID_TEXT];
	bool listed[CKX_GPUS];
	unsigned int count;
};

static void look_at_machine(const struct ckx_gpus *g, struct machine *m)
{
	unsigned int count = 0;

	*m = (struct machine){.count = 0};
	if (g->nvml.count(&count) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < count && m->count < CKX_GPUS; i++) {
		if (g->nvml.handle(i, &m->devices[m->count]) != NVML_SUCCESS)
			continue;
		g->nvml.uuid(m->devices[m->count], m->uuids[m->count], sizeof(m->uuids[0]));
		m->count++;
	}
}

static void add_gpu(struct ckx_gpus *g, struct machine *m, unsigned int at, unsigned int index,
		    bool served, json_t *report)
{
	m->listed[at] = true;
	if (!add_processes(g, m->devices[at], index, report) && !served)
		return;
	describe_gpu(g, m->devices[at], index, report);
	add_shares(g, m->devices[at], index, report);
}

/* Of two parts of a GPU (MIG), which have its UUID, the first stands for it. */
static void add_served(struct ckx_gpus *g, struct machine *m, json_t *report)
{
	const json_t *served;
	size_t i;

	json_array_foreach(json_object_get(report, "served"), i, served)
	{
		const char *uuid = json_string_value(served);

		for (unsigned int at = 0; at < m->count && i < CKX_GPUS; at++) {
			if (!m->listed[at] && uuid && strcmp(m->uuids[at], uuid) == 0)
				add_gpu(g, m, at, (unsigned int)i, true, report);
		}
	}
}

void ckx_gpus_add(struct ckx_gpus *g, json_t *report)
{
	const json_t *served = json_object_get(report, "served");
	unsigned int next = (unsigned int)json_array_size(served);
	struct machine m;

	if (!g)
		return;
	look_at_machine(g, &m);
	json_object_set_new(report, "gpus", json_array());
	add_served(g, &m, report);
	for (unsigned int at = 0; at < m.count && next < CKX_GPUS; at++) {
		if (!m.listed[at])
			add_gpu(g, &m, at, next++, !served, report);
	}
}
