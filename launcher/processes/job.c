/*
 * launcher/processes/job.c - the table of a session's requests; see job.h.
 */
#include <errno.h>

#include "launcher/processes/job.h"

void ckl_jobs_init(struct ckl_jobs *jobs)
{
	*jobs = (struct ckl_jobs){0};
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		jobs->items[i].block.fd = -1;
}

void ckl_jobs_free(struct ckl_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		ckl_block_free(&jobs->items[i].block);
}

int ckl_jobs_take(struct ckl_jobs *jobs, struct ckl_job **taken)
{
	int ret = -EBUSY;

	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		struct ckl_job *job = &jobs->items[i];

		if (job->state != CK_JOB_FREE)
			continue;
		ret = job->block.fd < 0 ? ckl_block_make(&job->block, (uint32_t)i) : 0;
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

struct ckl_job *ckl_jobs_first(struct ckl_jobs *jobs, enum ckl_job_state state)
{
	struct ckl_job *first = NULL;

	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		struct ckl_job *job = &jobs->items[i];

		if (job->state == state && (!first || job->order < first->order))
			first = job;
	}
	return first;
}

struct ckl_job *ckl_jobs_find(struct ckl_jobs *jobs, uint64_t id)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state >= CK_JOB_QUEUED && jobs->items[i].id == id)
			return &jobs->items[i];
	}
	return NULL;
}

struct ckl_job *ckl_jobs_awaited(struct ckl_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state >= CK_JOB_QUEUED && jobs->items[i].awaited)
			return &jobs->items[i];
	}
	return NULL;
}

void ckl_jobs_done(struct ckl_job *job)
{
	job->state = CK_JOB_FREE;
}

void ckl_jobs_trim(struct ckl_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++) {
		if (jobs->items[i].state == CK_JOB_FREE)
			ckl_block_trim(&jobs->items[i].block);
	}
}

void ckl_jobs_unsent(struct ckl_jobs *jobs)
{
	for (size_t i = 0; i < CK_JOBS_MAX; i++)
		jobs->items[i].sent = false;
}
