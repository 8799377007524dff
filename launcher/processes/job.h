/*
 * launcher/processes/job.h - requests of a session that its worker has to carry out.
 */
#ifndef CK_LAUNCHER_PROCESSES_JOB_H
#define CK_LAUNCHER_PROCESSES_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/processes/block.h"

#define CK_JOBS_MAX 48 /* blocks of a session; a worker keeps as many mapped */

enum ckl_job_state {
	CK_JOB_FREE,	/* its block is idle */
	CK_JOB_FILLING, /* a message is being read into it */
	CK_JOB_QUEUED,
	CK_JOB_RUNNING,
	CK_JOB_DONE, /* the reply is there */
};

struct ckl_job {
	enum ckl_job_state state;
	uint64_t id;	/* of an asynchronous one; else 0, and the client waits */
	uint64_t order; /* of coming */
	bool frame, awaited;
	bool sent; /* the present worker has the block */
	struct ckl_block block;
	size_t defaults, message;
	uint32_t timeout_ms;
	double deadline; /* on the clock of ckl_milliseconds; 0: none */
	size_t reply_at, reply;
	uint32_t exit;
};

struct ckl_jobs {
	struct ckl_job items[CK_JOBS_MAX];
	uint64_t count; /* that have come */
};

void ckl_jobs_init(struct ckl_jobs *jobs);
void ckl_jobs_free(struct ckl_jobs *jobs);

/* One to read a message into. -EBUSY: all are in use; another -errno: no block can be made. */
int ckl_jobs_take(struct ckl_jobs *jobs, struct ckl_job **taken);

/* The first of that state by order of coming, or NULL. */
struct ckl_job *ckl_jobs_first(struct ckl_jobs *jobs, enum ckl_job_state state);

/* The asynchronous one of that number, or NULL. */
struct ckl_job *ckl_jobs_find(struct ckl_jobs *jobs, uint64_t id);

/* The one that the client waits for, or NULL. */
struct ckl_job *ckl_jobs_awaited(struct ckl_jobs *jobs);

/* Its reply has been sent. */
void ckl_jobs_done(struct ckl_job *job);

/* Give back the memory of those that are free, when nothing has happened for a while. */
void ckl_jobs_trim(struct ckl_jobs *jobs);

/* A new worker has none of the blocks. */
void ckl_jobs_unsent(struct ckl_jobs *jobs);

#endif
