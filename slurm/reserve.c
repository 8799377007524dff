/*
 * slurm/reserve.c - see reserve.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "slurm/ledger.h"
#include "slurm/reserve.h"
#include "util/until.h"

/* Pending, running and completing jobs of all users, an array's jobs one by one: their numbers. */
#define SQUEUE "squeue --all --noheader --array --format=%A"
#define PAUSE_MS 500
#define REAP_EVERY 10 /* tries: squeue costs slurmctld more than the ledger costs the file system */

/* Set alive[i] for each of @jobs that squeue lists. -EIO. */
static int find_alive(const uint32_t *jobs, size_t count, bool *alive)
{
	unsigned int job;
	FILE *f = popen(SQUEUE, "re");
	int n;

	if (!f)
		return -EIO;
	while ((n = fscanf(f, "%u", &job)) == 1)
		for (size_t i = 0; i < count; i++)
			alive[i] |= jobs[i] == job;
	/* A list that is cut short would end the reservations of running jobs. */
	return pclose(f) == 0 && n == EOF ? 0 : -EIO;
}

int ck_slurm_reap(const char *dir, struct ck_slurm_why *why)
{
	struct ck_slurm_record record;
	uint32_t *jobs;
	size_t count;
	bool *alive;
	/* In this order: a job that begins later is in neither list. */
	int ret = ck_slurm_ledger_jobs(dir, &jobs, &count, why);

	if (ret < 0 || count == 0)
		return ret;
	alive = calloc(count, sizeof(*alive));
	ret = alive ? find_alive(jobs, count, alive) : -ENOMEM;
	if (ret < 0)
		ck_slurm_fail(why, ret, "cannot list the jobs: squeue failed");
	for (size_t i = 0; ret == 0 && i < count; i++) {
		if (alive[i])
			continue;
		ret = ck_slurm_ledger_release(dir, jobs[i], &record, why);
		if (ret == -ENOENT)
			ret = 0;
	}
	free(alive);
	free(jobs);
	return ret;
}

int ck_slurm_reserve(const struct ck_slurm_settings *settings, const struct ck_slurm_want *want,
		     struct ck_slurm_why *why)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
	long long end = ck_now_ms() + settings->wait * 1000LL;
	struct ck_slurm_why ignored;
	int ret;

	for (unsigned int try = 0;; try++) {
		ret = ck_slurm_ledger_take(settings->dir, want, why);
		if (ret != -EBUSY)
			return ret;
		if (try % REAP_EVERY == 0 && ck_slurm_reap(settings->dir, &ignored) == 0)
			ret = ck_slurm_ledger_take(settings->dir, want, why);
		if (ret != -EBUSY || ck_now_ms() >= end)
			return ret;
		nanosleep(&pause, NULL);
	}
}
