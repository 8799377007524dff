/*
 * server/helpers/gpu_time_meter.c - see gpu_time_meter.h.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "cuda/nvml.h"
#include "gen/nvml_server.h"
#include "server/helpers/gpu_time_meter.h"
#include "server/nvml/nvml.h"
#include "server/session/driver.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define GPUS 64
#define SAMPLES 4096
#define PERIOD_MS 1000

struct gauge {
	unsigned int count; /* of GPUs */
	nvmlDevice_t devices[GPUS];
	unsigned long long seen[GPUS]; /* the latest sample of each */
	int64_t asked_us;
	struct nvmlProcessUtilizationSample_t samples[SAMPLES];
	struct cks_gpu_time_note note;
};

/* The driver stays closed: NVML is a library of its own, only the emulated driver contains it. */
static bool open_nvml(struct gauge *g, const char *driver)
{
	char why[256];
	int err;

	if (strcmp(driver, "cuda") != 0 && cks_driver_open(driver, why, sizeof(why)) < 0)
		return false;
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetCount_v2, &err) ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetHandleByIndex_v2, &err) ||
	    !cks_nvml_begin((void **)&ck_nvml.nvmlDeviceGetProcessUtilization, &err) ||
	    ck_nvml.nvmlDeviceGetCount_v2(&g->count))
		return false;
	g->count = ck_min(g->count, (unsigned int)GPUS);
	for (unsigned int i = 0; i < g->count; i++) {
		if (ck_nvml.nvmlDeviceGetHandleByIndex_v2(i, &g->devices[i]))
			return false;
	}
	return true;
}

static void flush_note(struct gauge *g)
{
	if (g->note.count > 0)
		send(CK_GPU_TIME_SOCKET, &g->note, sizeof(g->note), MSG_NOSIGNAL);
	g->note.count = 0;
}

/* Has a sample before @at the same process? */
static bool is_known(const struct gauge *g, unsigned int at)
{
	for (unsigned int i = 0; i < at; i++) {
		if (g->samples[i].pid == g->samples[at].pid)
			return true;
	}
	return false;
}

/* Note the time of the process of sample @at: the mean of all its samples, of @us. */
static void add_process(struct gauge *g, unsigned int at, unsigned int count, int64_t us)
{
	uint64_t sum = 0, n = 0;

	if (is_known(g, at))
		return;
	for (unsigned int i = at; i < count; i++) {
		if (g->samples[i].pid == g->samples[at].pid) {
			sum += g->samples[i].smUtil;
			n++;
		}
	}
	if (sum == 0)
		return;
	g->note.list[g->note.count].pid = g->samples[at].pid;
	g->note.list[g->note.count].us = (uint32_t)(sum * (uint64_t)us / 100 / n);
	if (++g->note.count == CK_GPU_TIME_NOTES)
		flush_note(g);
}

static void measure_gpu(struct gauge *g, unsigned int gpu, int64_t us)
{
	unsigned int count = SAMPLES;

	if (ck_nvml.nvmlDeviceGetProcessUtilization(g->devices[gpu], g->samples, &count,
						    g->seen[gpu]))
		return; /* none: no process is busy */
	for (unsigned int i = 0; i < count; i++) {
		if (g->seen[gpu] || cks_driver_emulated()) /* else it is all that there was */
			add_process(g, i, count, us);
	}
	for (unsigned int i = 0; i < count; i++)
		g->seen[gpu] = ck_max(g->seen[gpu], g->samples[i].timeStamp);
}

static void measure_all(struct gauge *g)
{
	int64_t now = ck_now_us(), us = ck_min(now - g->asked_us, (int64_t)60 * 1000000);

	for (unsigned int i = 0; i < g->count; i++)
		measure_gpu(g, i, us);
	g->asked_us = now;
	flush_note(g);
}

int cks_gpu_time_main(const char *driver)
{
	struct pollfd p = {.fd = CK_GPU_TIME_SOCKET};
	struct gauge *g = calloc(1, sizeof(*g));

	prctl(PR_SET_NAME, "cricket-gauge");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it may hang in the driver when the server ends */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (!g || !open_nvml(g, driver)) {
		ck_warn("--gpu-time: NVML does not report the GPU time of processes here");
		return 1;
	}
	g->asked_us = ck_now_us();
	do
		measure_all(g);
	while (poll(&p, 1, PERIOD_MS) == 0);
	free(g);
	return 0;
}
