/*
 * server/helpers/gpu_probe.c - see gpu_probe.h.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cuda/nvml.h"
#include "gen/driver.h"
#include "server/helpers/gpu_probe.h"
#include "server/nvml/nvml.h"
#include "server/processes/messages.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define IDLE_MS 10000
#define PROCESSES 1024

struct scout {
	unsigned int count;
	nvmlDevice_t devices[CK_GPU_PROBE_GPUS]; /* in CUDA's order */
	struct nvmlProcessInfo_t processes[PROCESSES];
	struct cks_gpu_probe_note note;
};

static bool set_failure(struct scout *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool set_failure(struct scout *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->note.why, sizeof(s->note.why), format, args);
	va_end(args);
	return false;
}

static bool open_driver(struct scout *s, const char *driver, int *count)
{
	char why[256];
	CUresult err;

	if (cks_driver_open(driver, why, sizeof(why)) < 0)
		return set_failure(s, "driver %s: %.90s", driver, why);
	err = ck_driver.cuInit(0);
	if (!err)
		err = ck_driver.cuDeviceGetCount(count);
	return !err || set_failure(s, "driver %s: %s", driver, cks_error_name(err));
}

static bool open_all(struct scout *s, const char *driver)
{
	int count = 0, err;

	if (!open_driver(s, driver, &count))
		return false;
	s->count = (unsigned int)ck_min(ck_max(count, 0), CK_GPU_PROBE_GPUS);
	for (unsigned int i = 0; i < s->count; i++) {
		err = cks_nvml_of_device((int)i, &s->devices[i]);
		if (err)
			return set_failure(s, "NVML does not know GPU %u: error %d", i, err);
	}
	return true;
}

/* A worker that waits for a client has contexts, and is no program. */
static bool is_spare(unsigned int pid)
{
	char path[32], name[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	return strcmp(name, CK_SPARE_NAME "\n") == 0;
}

static uint32_t count_programs(struct scout *s, unsigned int gpu)
{
	unsigned int count = PROCESSES;
	uint32_t programs = 0;
	int err;

	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetComputeRunningProcesses_v3, &err) ||
	    ck_nvml.nvmlDeviceGetComputeRunningProcesses_v3(s->devices[gpu], &count, s->processes))
		return 0;
	for (unsigned int i = 0; i < count; i++)
		programs += !is_spare(s->processes[i].pid);
	return programs;
}

static bool look_at(struct scout *s, unsigned int i)
{
	struct cks_gpu_probe_gpu *g = &s->note.gpus[i];
	struct nvmlUtilization_t rates;
	struct nvmlMemory_t memory = {0};
	int err;

	*g = (struct cks_gpu_probe_gpu){.utilization = -1};
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetMemoryInfo, &err) ||
	    (err = (int)ck_nvml.nvmlDeviceGetMemoryInfo(s->devices[i], &memory)) != 0)
		return set_failure(s, "NVML does not report the memory of GPU %u: error %d", i,
				   err);
	g->memory = memory.total;
	g->free = memory.free;
	if (ck_driver.cuDeviceGetName)
		ck_driver.cuDeviceGetName(g->name, sizeof(g->name) - 1, (CUdevice)i);
	g->programs = count_programs(s, i);
	if (!cks_driver_emulated() && /* its utilization is always 0 */
	    cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetUtilizationRates, &err) &&
	    !ck_nvml.nvmlDeviceGetUtilizationRates(s->devices[i], &rates))
		g->utilization = (int32_t)rates.gpu;
	return true;
}

static void read_gpus(struct scout *s)
{
	s->note.why[0] = '\0';
	s->note.count = s->count;
	for (unsigned int i = 0; i < s->count; i++) {
		if (!look_at(s, i))
			return;
	}
}

/* One that could not begin says so once more to each question, until it ends. */
static int serve_requests(struct scout *s, bool opened)
{
	struct pollfd p = {.fd = CK_GPU_PROBE_SOCKET, .events = POLLIN};
	char question;

	while (poll(&p, 1, IDLE_MS) == 1) {
		if (recv(CK_GPU_PROBE_SOCKET, &question, 1, 0) != 1)
			return 0;
		if (opened)
			read_gpus(s);
		if (send(CK_GPU_PROBE_SOCKET, &s->note, sizeof(s->note), MSG_NOSIGNAL) < 0)
			return 0;
	}
	return 0;
}

int cks_gpu_probe_main(const char *driver)
{
	struct scout *s = calloc(1, sizeof(*s));
	bool opened;
	int ret;

	prctl(PR_SET_NAME, "cricket-scout");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it may hang in the driver when the server ends */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (!s)
		return 1;
	opened = open_all(s, driver);
	if (!opened)
		ck_warn("clients that choose among servers get no information about these GPUs: %s",
			s->note.why);
	ret = serve_requests(s, opened);
	free(s);
	return ret;
}
