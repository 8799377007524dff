/*
 * launcher/job.c - the table of a session's requests; see job.h.
 */
#include <errno.h>

#include "launcher/job.h"

void ck_jobs_init(struct ck_jobs *jobs)
{
	*jobs = (struct ck_jobs){0};
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		jobs->items[i].block.fd = -1;
}

void ck_jobs_free(struct ck_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		ck_block_free(&jobs->items[i].block);
}

int ck_jobs_take(struct ck_jobs *jobs, struct ck_job **taken)
{
	int ret = -EBUSY;

	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		struct ck_job *job = &jobs->items[i];

		if (job->state != CK_JOB_FREE)
			continue;
		ret = job->block.fd < 0 ? ck_block_make(&job->block, (uint32_t)i) : 0;
		if (ret < 0)
			break;
		job->state = CK_JOB_FILLING;
		job->id = 0;
		job->awaited = false;
		job->deadline = 0;
		*taken = job;
		break;
	}
	return ret;
}

struct ck_job *ck_jobs_first(struct ck_jobs *jobs, enum ck_job_state state)
{
	struct ck_job *first = NULL;

	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		struct ck_job *job = &jobs->items[i];

		if (job->state == state && (!first || job->order < first->order))
			first = job;
	}
	return first;
}

struct ck_job *ck_jobs_find(struct ck_jobs *jobs, uint64_t id)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state >= CK_JOB_QUEUED && jobs->items[i].id == id)
			return &jobs->items[i];
	}
	return NULL;
}

struct ck_job *ck_jobs_awaited(struct ck_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state >= CK_JOB_QUEUED && jobs->items[i].awaited)
			return &jobs->items[i];
	}
	return NULL;
}

void ck_jobs_done(struct ck_job *job)
{
	job->state = CK_JOB_FREE;
}

void ck_jobs_trim(struct ck_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state == CK_JOB_FREE)
			ck_block_trim(&jobs->items[i].block);
	}
}

void ck_jobs_unsent(struct ck_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		jobs->items[i].sent = false;
}
