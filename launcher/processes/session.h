/*
 * launcher/processes/session.h - one client and its worker: messages in, replies out, in order.
 *
 * A session never calls the driver. It reads messages into blocks, hands them to its worker one at
 * a time, and writes the replies; so it can answer while a kernel runs, end one that does not, and
 * go on with a new worker when one is lost.
 */
#ifndef CK_LAUNCHER_PROCESSES_SESSION_H
#define CK_LAUNCHER_PROCESSES_SESSION_H

#include "launcher/options/options.h"
#include "launcher/processes/input.h"
#include "launcher/processes/job.h"
#include "launcher/processes/worker.h"
#include "launcher/text/failure.h"
#include "util/spin.h"

/*
 * Serve messages from @in until it ends, or only the first when options->mode is CK_MODE_ONCE;
 * replies go to @out. @worker: one that is started, which the session takes over; its sock may be
 * -1. A readable @stop (-1: none) ends the session after the requests that it has begun. Returns
 * the exit code: that of the first request that failed.
 */
int ckl_session_serve(const struct ckl_options *options, int in, int out, struct ckl_worker *worker,
		      int stop);

/* --- between session.c, message.c, session_worker.c and send.c */

struct ckl_session {
	const struct ckl_options *options;
	int out, stop;
	size_t pipe_size; /* of @out, when large replies are lent to it; else 0 */
	struct ckl_input input;
	struct ckl_worker worker;
	double worker_since; /* when it was started */
	struct ckl_jobs jobs;
	struct ckl_job *filling;
	uint64_t ids;	/* of asynchronous launches */
	char *defaults; /* JSON text, or NULL */
	json_t *client_defaults;
	int exit; /* of the first request that failed */
	/* Spinning before sleeping: for the end of a job, and for the client's next message. */
	struct ck_spin job_spin, client_spin;
	double trim_at; /* when idle memory is given back; 0: there is none */
	bool closing;	/* nothing more is read */
	bool gone;	/* the client has gone */
};

/* A complete message lies in the job that is being filled: answer it or queue it. */
void ckl_session_take(struct ckl_session *s);

/* Start a worker, which has no block yet. */
void ckl_session_start(struct ckl_session *s);

/* Hand a queued job to the worker, which is ready and idle. */
void ckl_session_dispatch(struct ckl_session *s, struct ckl_job *job);

/* Read a ticket of the worker, or its end. */
void ckl_session_read_ticket(struct ckl_session *s);

/* The worker has gone by itself. */
void ckl_session_lost(struct ckl_session *s);

/*
 * End the worker; its running job fails with @fail, which is cleared. A new worker runs the rest.
 */
void ckl_session_replace(struct ckl_session *s, struct ckl_fail *fail);

/* End the worker because of a job that took too long. */
void ckl_session_time_out(struct ckl_session *s, struct ckl_job *job);

/* To the client: an error object that belongs to no job (@fail is cleared), a status, a job's
 * reply. */
void ckl_session_fail(struct ckl_session *s, bool frame, struct ckl_fail *fail);
void ckl_session_status(struct ckl_session *s, bool frame, uint64_t id, const char *status);
void ckl_session_reply(struct ckl_session *s, struct ckl_job *job);

/* Find out whether large replies can be lent to the client. */
void ckl_session_lend(struct ckl_session *s);

/* A request has ended with this exit code. */
void ckl_session_note(struct ckl_session *s, int exit);

#endif
