/*
 * emu/nvml/usage.c - the emulated driver's own NVML: the time of devices that each process has had.
 *
 * The real library samples it. Here a sample is the mean since the calling process has asked
 * before, so the first question has no answer.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "emu/core/locks.h"
#include "emu/nvml/nvml.h"
#include "emu/core/usage.h"

struct seen {
	uint64_t us; /* when; 0: never */
	unsigned int count;
	struct ck_emu_use list[CK_EMU_USERS];
};

static struct ck_mutex lock = CK_MUTEX(CK_RANK_NVML);
static struct seen seen[CK_EMU_MAX_DEVICES];

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t busy_before(const struct seen *before, unsigned int pid)
{
	for (unsigned int i = 0; i < before->count; i++) {
		if (before->list[i].pid == pid)
			return before->list[i].busy_ns;
	}
	return 0;
}

/* The percent of the time since @before in which it has been busy. */
static unsigned int percent_of(const struct ck_emu_use *use, const struct seen *before,
			       uint64_t now)
{
	uint64_t was = busy_before(before, use->pid),
		 ns = use->busy_ns > was ? use->busy_ns - was : 0;
	uint64_t us = now > before->us ? now - before->us : 1;

	return (unsigned int)ck_min(ns / 10 / us, (uint64_t)100);
}

/* The samples of @device; @room 0: count them only, and remember nothing. */
static unsigned int take_samples(int number, struct nvmlProcessUtilizationSample_t *out,
				 unsigned int room)
{
	static struct seen now; /* under the lock */
	struct seen *before = &seen[number];
	unsigned int count = 0;

	now.us = now_us();
	now.count = ck_emu_usage_list_busy(number, now.list);
	for (unsigned int i = 0; i < now.count && before->us; i++) {
		unsigned int percent = percent_of(&now.list[i], before, now.us);

		if (percent > 0 && count++ < room)
			out[count - 1] = (struct nvmlProcessUtilizationSample_t){
				.pid = now.list[i].pid, .timeStamp = now.us, .smUtil = percent};
	}
	if (count <= room)
		*before = now;
	return count;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
					     struct nvmlProcessUtilizationSample_t *utilization,
					     unsigned int *processSamplesCount,
					     unsigned long long lastSeenTimeStamp)
{
	struct ck_emu_device *d;
	nvmlReturn_t err = ck_emu_nvml_begin(device, processSamplesCount, &d);
	unsigned int room;

	(void)lastSeenTimeStamp; /* all samples are new */
	if (err)
		return err;
	room = utilization ? *processSamplesCount : 0;
	ck_lock(&lock);
	*processSamplesCount = take_samples(d->number, utilization, room);
	ck_unlock(&lock);
	if (*processSamplesCount > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	return *processSamplesCount > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
