/*
 * launcher/job.h - requests of a session that its worker has to carry out.
 */
#ifndef CK_LAUNCHER_JOB_H
#define CK_LAUNCHER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/block.h"

#define CK_JOBS_MAX 48 /* blocks of a session; a worker keeps as many mapped */

enum ck_job_state {
	CK_JOB_FREE,	/* its block is idle */
	CK_JOB_FILLING, /* a message is being read into it */
	CK_JOB_QUEUED,
	CK_JOB_RUNNING,
	CK_JOB_DONE, /* the reply is there */
};

struct ck_job {
	enum ck_job_state state;
	uint64_t id;	/* of an asynchronous one; else 0, and the client waits */
	uint64_t order; /* of coming */
	bool frame, awaited;
	bool sent; /* the present worker has the block */
	struct ck_block block;
	size_t defaults, message;
	uint32_t timeout_ms;
	double deadline; /* on the clock of ck_milliseconds; 0: none */
	size_t reply_at, reply;
	uint32_t exit;
};

struct ck_jobs {
	struct ck_job items[CK_JOBS_MAX];
	uint64_t count; /* that have come */
};

void ck_jobs_init(struct ck_jobs *jobs);
void ck_jobs_free(struct ck_jobs *jobs);

/* One to read a message into. -EBUSY: all are in use; another -errno: no block can be made. */
int ck_jobs_take(struct ck_jobs *jobs, struct ck_job **taken);

/* The first of that state by order of coming, or NULL. */
struct ck_job *ck_jobs_first(struct ck_jobs *jobs, enum ck_job_state state);

/* The asynchronous one of that number, or NULL. */
struct ck_job *ck_jobs_find(struct ck_jobs *jobs, uint64_t id);

/* The one that the client waits for, or NULL. */
struct ck_job *ck_jobs_awaited(struct ck_jobs *jobs);

/* Its reply has been sent. */
void ck_jobs_done(struct ck_job *job);

/* Give back the memory of those that are free, when nothing has happened for a while. */
void ck_jobs_trim(struct ck_jobs *jobs);

/* A new worker has none of the blocks. */
void ck_jobs_unsent(struct ck_jobs *jobs);

#endif
