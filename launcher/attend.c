/*
 * launcher/attend.c - a session and its worker: starting, giving it work, losing and replacing it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/reply.h"
#include "launcher/run.h"
#include "launcher/session.h"

void ck_session_start(struct ck_session *s)
{
	struct ck_fail fail = {0};
	int ret = ck_worker_start(&s->worker, s->options);

	if (ret < 0) {
		ck_fail(&fail, CK_EXIT_SERVICE, "service", "NO_WORKER",
			"no process for the driver: %s", strerror(-ret));
		ck_session_fail(s, s->options->frames, 0, &fail);
		s->closing = s->gone = true;
	}
	s->worker_since = ck_milliseconds();
	ck_jobs_unsent(&s->jobs);
}

/* Write the reply of a job for which the worker wrote none. */
static void job_failed(struct ck_job *job, struct ck_fail *fail)
{
	struct ck_out out = {0};
	size_t at = CK_BLOCK_ALIGN(CK_BLOCK_ALIGN(job->defaults) + job->message);

	ck_reply_fail(&out, job->frame, job->id, fail);
	job->exit = fail->exit;
	job->state = CK_JOB_DONE;
	job->reply = 0;
	if (ck_block_map(&job->block, at + out.size, 1) == 0) {
		memcpy(job->block.map + at, out.base, out.size);
		job->reply_at = at;
		job->reply = out.size;
	}
	free(out.base);
	ck_fail_clear(fail);
}

/* End the worker. Its running job fails with this error; a new worker runs the others. */
void ck_session_replace(struct ck_session *s, struct ck_fail *fail)
{
	struct ck_job *job = ck_jobs_first(&s->jobs, CK_JOB_RUNNING);

	ck_worker_end(&s->worker);
	if (job)
		job_failed(job, fail);
	ck_fail_clear(fail);
	if (!s->closing || ck_jobs_first(&s->jobs, CK_JOB_QUEUED))
		ck_session_start(s);
}

void ck_session_lost(struct ck_session *s)
{
	struct ck_job *job = ck_jobs_first(&s->jobs, CK_JOB_RUNNING);
	struct ck_fail fail = {0};

	if (job)
		ck_fail(&fail, CK_EXIT_LAUNCH, "exec", "WORKER_LOST",
			"the process that ran the kernel has ended; arrays kept on the GPU are gone");
	else
		ck_fail(&fail, CK_EXIT_SERVICE, "service", "WORKER_LOST",
			"the process that loads the driver has ended");
	if (!s->worker.ready && !job) {
		/*
		 * A worker that ended before it was ready had a cause that would end the next one
		 * too.
		 */
		ck_session_fail(s, s->options->frames, 0, &fail);
		ck_worker_end(&s->worker);
		s->gone = true;
		return;
	}
	ck_session_replace(s, &fail);
}

void ck_session_dispatch(struct ck_session *s, struct ck_job *job)
{
	struct ck_ticket ticket = {.what = CK_TICKET_RUN,
				   .number = job->block.number,
				   .id = job->id,
				   .capacity = job->block.capacity,
				   .defaults = job->defaults,
				   .message = job->message};

	job->state = CK_JOB_RUNNING;
	if (job->timeout_ms)
		job->deadline = ck_milliseconds() + job->timeout_ms;
	if (ck_ticket_send(s->worker.sock, &ticket, job->sent ? -1 : job->block.fd) < 0)
		ck_session_lost(s);
	else
		job->sent = true;
}

/* Handle a ticket from the worker. */
void ck_session_hear(struct ck_session *s)
{
	struct ck_job *job = ck_jobs_first(&s->jobs, CK_JOB_RUNNING);
	struct ck_ticket ticket;
	int fd;

	if (ck_ticket_receive(s->worker.sock, &ticket, &fd) < 0) {
		ck_session_lost(s);
		return;
	}
	if (ticket.what == CK_TICKET_READY) {
		s->worker.ready = true;
		return;
	}
	if (!job || ck_block_map(&job->block, ticket.capacity, 0) < 0) {
		ck_session_lost(s);
		return;
	}
	job->state = CK_JOB_DONE;
	job->exit = ticket.exit;
	job->reply_at = ticket.reply_at;
	job->reply = ticket.reply;
	if (ticket.lost) {
		struct ck_fail none = {0};

		ck_session_replace(s, &none);
	}
}

void ck_session_time_out(struct ck_session *s, struct ck_job *job)
{
	struct ck_fail fail = {0};

	ck_fail(&fail, CK_EXIT_TIMEOUT, "timeout", "TIMEOUT",
		"not done within %u ms; arrays kept on the GPU are gone", job->timeout_ms);
	ck_session_replace(s, &fail);
}
