/*
 * launcher/processes/session_worker.c - a session and its worker: starting, giving it work, losing
 * and replacing it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launch/run.h"
#include "launcher/processes/session.h"
#include "launcher/request/reply.h"

void ckl_session_start(struct ckl_session *s)
{
	struct ckl_fail fail = {0};
	int ret = ckl_worker_start(&s->worker, s->options);

	if (ret < 0) {
		ckl_fail(&fail, CK_EXIT_SERVICE, "service", "NO_WORKER",
			 "no process for the driver: %s", strerror(-ret));
		ckl_session_fail(s, s->options->frames, &fail);
		s->closing = s->gone = true;
	}
	s->worker_since = ckl_milliseconds();
	ckl_jobs_unsent(&s->jobs);
}

/* Write the reply of a job for which the worker wrote none. */
static void job_failed(struct ckl_job *job, struct ckl_fail *fail)
{
	struct ckl_out out = {0};
	size_t at = CK_BLOCK_ALIGN(CK_BLOCK_ALIGN(job->defaults) + job->message);

	ckl_reply_fail(&out, job->frame, job->id, fail);
	job->exit = fail->exit;
	job->state = CK_JOB_DONE;
	job->reply = 0;
	if (ckl_block_map(&job->block, at + out.size, 1) == 0) {
		memcpy(job->block.map + at, out.base, out.size);
		job->reply_at = at;
		job->reply = out.size;
	}
	free(out.base);
	ckl_fail_clear(fail);
}

/* End the worker. Its running job fails with this error; a new worker runs the others. */
void ckl_session_replace(struct ckl_session *s, struct ckl_fail *fail)
{
	struct ckl_job *job = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);

	ckl_worker_end(&s->worker);
	if (job)
		job_failed(job, fail);
	ckl_fail_clear(fail);
	if (!s->closing || ckl_jobs_first(&s->jobs, CK_JOB_QUEUED))
		ckl_session_start(s);
}

void ckl_session_lost(struct ckl_session *s)
{
	struct ckl_job *job = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);
	struct ckl_fail fail = {0};

	if (job)
		ckl_fail(&fail, CK_EXIT_LAUNCH, "exec", "WORKER_LOST",
			 "the process that ran the kernel has ended; arrays kept on the GPU are "
			 "gone");
	else
		ckl_fail(&fail, CK_EXIT_SERVICE, "service", "WORKER_LOST",
			 "the process that loads the driver has ended");
	if (!s->worker.ready && !job) {
		/*
		 * A worker that ended before it was ready had a cause that would end the next one
		 * too.
		 */
		ckl_session_fail(s, s->options->frames, &fail);
		ckl_worker_end(&s->worker);
		s->gone = true;
		return;
	}
	ckl_session_replace(s, &fail);
}

void ckl_session_dispatch(struct ckl_session *s, struct ckl_job *job)
{
	struct ckl_ticket ticket = {.what = CK_TICKET_RUN,
				    .number = job->block.number,
				    .id = job->id,
				    .capacity = job->block.capacity,
				    .defaults = job->defaults,
				    .message = job->message};

	job->state = CK_JOB_RUNNING;
	if (job->timeout_ms)
		job->deadline = ckl_milliseconds() + job->timeout_ms;
	if (ckl_ticket_send(s->worker.sock, &ticket, job->sent ? -1 : job->block.fd) < 0)
		ckl_session_lost(s);
	else
		job->sent = true;
}

/* Handle a ticket from the worker. */
void ckl_session_read_ticket(struct ckl_session *s)
{
	struct ckl_job *job = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);
	struct ckl_ticket ticket;
	int fd;

	if (ckl_ticket_receive(s->worker.sock, &ticket, &fd) < 0) {
		ckl_session_lost(s);
		return;
	}
	if (ticket.what == CK_TICKET_READY) {
		s->worker.ready = true;
		return;
	}
	if (!job || ckl_block_map(&job->block, ticket.capacity, 0) < 0) {
		ckl_session_lost(s);
		return;
	}
	job->state = CK_JOB_DONE;
	job->exit = ticket.exit;
	job->reply_at = ticket.reply_at;
	job->reply = ticket.reply;
	if (ticket.lost) {
		struct ckl_fail none = {0};

		ckl_session_replace(s, &none);
	}
}

void ckl_session_time_out(struct ckl_session *s, struct ckl_job *job)
{
	struct ckl_fail fail = {0};

	ckl_fail(&fail, CK_EXIT_TIMEOUT, "timeout", "TIMEOUT",
		 "not done within %u ms; arrays kept on the GPU are gone", job->timeout_ms);
	ckl_session_replace(s, &fail);
}
