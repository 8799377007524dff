/*
 * server/nccl/jobs.c - batches that may wait for other ranks.
 *
 * Each has a thread, so that the command stream and the calls of other threads go on. The client
 * asks for the outcome by the ticket that it has given the batch. The process ends with the
 * session, also while such a thread waits.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/nccl/nccl.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define JOBS_MAX 4096	/* whose outcome has not been fetched */
#define THREADS_MAX 256 /* at a time */

struct cks_nccl_job {
	struct cks_session *session;
	uint64_t ticket;
	bool done;
	struct cks_nccl_outcome outcome;
	struct cks_nccl_job *next;
	_Alignas(8) unsigned char batch[];
};

static void finish_job(struct cks_nccl *n, struct cks_nccl_job *job, bool threaded)
{
	ck_lock(&n->lock);
	job->done = true;
	if (threaded)
		n->threads--;
	ck_cond_broadcast(&n->done);
	ck_unlock(&n->lock);
}

static void *run_job(void *arg)
{
	struct cks_nccl_job *job = arg;
	struct cks_session *s = job->session;
	struct cks_pass pass = {0};

	cks_gate_join(&s->gate, &pass);
	cks_gate_enter(&s->gate, &pass);
	cks_nccl_replay(s, job->batch, &job->outcome);
	cks_gate_leave(&pass);
	cks_gate_part(&s->gate, &pass);
	finish_job(s->nccl, job, true);
	return NULL;
}

static int start_thread(struct cks_nccl_job *job)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attributes, run_job, job);
	pthread_attr_destroy(&attributes);
	return ret;
}

/* Put it into the list. False: the list is full. */
static bool enqueue_job(struct cks_nccl *n, struct cks_nccl_job *job, bool *has_thread)
{
	bool room;

	ck_lock(&n->lock);
	room = n->job_count < JOBS_MAX;
	*has_thread = n->threads < THREADS_MAX;
	if (room) {
		job->next = n->jobs;
		n->jobs = job;
		n->job_count++;
		n->threads += *has_thread;
	}
	ck_unlock(&n->lock);
	return room;
}

void cks_nccl_job_start(struct cks_session *s, uint64_t ticket, const void *batch, size_t size)
{
	struct cks_nccl_job *job = calloc(1, sizeof(*job) + size);
	bool threaded;

	if (!job)
		return; /* the client's wait ends with an error: see cks_nccl_job_wait */
	job->session = s;
	job->ticket = ticket;
	memcpy(job->batch, batch, size);
	job->outcome.result = ncclSystemError;
	if (!enqueue_job(s->nccl, job, &threaded)) {
		ck_warn("more than %d batches of NCCL whose results have not been fetched",
			JOBS_MAX);
		free(job);
		return;
	}
	if (!threaded || start_thread(job) != 0) {
		snprintf(job->outcome.text, sizeof(job->outcome.text),
			 "the server's worker has no thread for it");
		finish_job(s->nccl, job, threaded);
	}
}

/* With the lock: the place in the list of the job with @ticket. */
static struct cks_nccl_job **find_job(struct cks_nccl *n, uint64_t ticket)
{
	struct cks_nccl_job **at = &n->jobs;

	while (*at && (*at)->ticket != ticket)
		at = &(*at)->next;
	return at;
}

bool cks_nccl_job_wait(struct cks_nccl *n, uint64_t ticket, unsigned int ms,
		       struct cks_nccl_outcome *outcome)
{
	struct timespec until = ck_until((uint64_t)ms * CK_NS_PER_MS);
	struct cks_nccl_job **at, *job = NULL;
	int ret = 0;

	ck_lock(&n->lock);
	while (at = find_job(n, ticket), !(*at && (*at)->done) && ret == 0)
		ret = ck_cond_timedwait(&n->done, &n->lock, &until);
	if (*at && (*at)->done) {
		job = *at;
		*at = job->next;
		n->job_count--;
	}
	ck_unlock(&n->lock);
	if (!job)
		return false;
	*outcome = job->outcome;
	free(job);
	return true;
}
