/*
 * launcher/processes/session.c - the loop between a client and its worker; see session.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launch/run.h"
#include "launcher/processes/session.h"

#define START_MS 120000 /* a driver that takes longer to start never will */

/* A block for the next message, with the defaults in front of it. -errno; -EBUSY: all are used. */
static int filling_begin(struct ckl_session *s)
{
	size_t size = s->defaults ? strlen(s->defaults) : 0;
	struct ckl_job *job;
	int ret = ckl_jobs_take(&s->jobs, &job);

	if (ret < 0)
		return ret;
	ret = ckl_block_map(&job->block, CK_BLOCK_ALIGN(size) + 1, 1);
	if (ret < 0) {
		job->state = CK_JOB_FREE;
		return ret;
	}
	memcpy(job->block.map, s->defaults ? s->defaults : "", size);
	job->defaults = size;
	ckl_input_begin(&s->input, CK_BLOCK_ALIGN(size));
	s->filling = job;
	return 0;
}

/* No block for the next message: nothing more is read. */
static void filling_failed(struct ckl_session *s, int error)
{
	struct ckl_fail fail = {0};

	if (error == -EBUSY)
		ckl_fail(&fail, CK_EXIT_MEMORY, "memory", "TOO_MANY_LAUNCHES",
			 "%d launches are outstanding; ask for results first", CK_JOBS_MAX);
	else if (error == -EMFILE || error == -ENFILE)
		ckl_fail(&fail, CK_EXIT_MEMORY, "memory", "OUT_OF_DESCRIPTORS",
			 "no memory that session and worker share: %s", strerror(-error));
	else
		ckl_fail_memory(&fail);
	ckl_session_fail(s, s->options->frames, &fail);
	s->closing = true;
}

/* The input has ended: finish, or report a message that is incomplete. */
static void input_ended(struct ckl_session *s)
{
	struct ckl_fail fail = {0};

	s->closing = true;
	if (s->filling && s->input.have > 0) {
		ckl_fail_input(&fail, "the message is cut off after %zu bytes", s->input.have);
		ckl_session_fail(s, s->input.frame, &fail);
	} else if (s->options->mode == CK_MODE_ONCE) {
		ckl_fail_input(&fail, "there is no request on stdin");
		ckl_session_fail(s, s->options->frames, &fail);
	}
}

static void handle_client(struct ckl_session *s)
{
	struct ckl_fail fail = {0};
	int ret = s->filling ? 0 : filling_begin(s);

	if (ret < 0) {
		filling_failed(s, ret);
		return;
	}
	ret = ckl_input_read(&s->input, &s->filling->block, &fail);
	if (ret < 0) {
		/* Input that is no message has no known end. */
		ckl_session_fail(s, s->input.frame, &fail);
		s->closing = true;
	} else if (ret == 1) {
		ckl_session_take(s);
	} else if (s->input.ended) {
		input_ended(s);
	}
}

/* --- the loop */

/* Something that needs no waiting: a reply that is due, the next job. False: there is nothing. */
static bool progress_session(struct ckl_session *s)
{
	struct ckl_job *job = ckl_jobs_awaited(&s->jobs);
	bool busy = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);

	if (job && job->state == CK_JOB_DONE) {
		ckl_session_reply(s, job);
		return true;
	}
	job = ckl_jobs_first(&s->jobs, CK_JOB_QUEUED);
	if (job && s->worker.ready && !busy) {
		ckl_session_dispatch(s, job);
		return true;
	}
	if (job || busy || !s->closing)
		return false;
	/* At the end, also return results that the client has not requested. */
	job = ckl_jobs_first(&s->jobs, CK_JOB_DONE);
	if (job)
		ckl_session_reply(s, job);
	return job != NULL;
}

static bool is_over(struct ckl_session *s)
{
	return s->gone || (s->closing && !ckl_jobs_first(&s->jobs, CK_JOB_QUEUED) &&
			   !ckl_jobs_first(&s->jobs, CK_JOB_RUNNING) &&
			   !ckl_jobs_first(&s->jobs, CK_JOB_DONE));
}

/* Milliseconds until a timeout is due; -1: never. */
static int get_timeout(struct ckl_session *s)
{
	struct ckl_job *job = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);
	double left;

	if (!s->worker.ready)
		left = s->worker_since + START_MS - ckl_milliseconds();
	else if (job && job->deadline > 0)
		left = job->deadline - ckl_milliseconds();
	else if (s->trim_at > 0)
		left = s->trim_at - ckl_milliseconds();
	else
		return -1;
	return left < 0 ? 0 : (int)ck_min(left, 1e9) + 1;
}

static void time_check(struct ckl_session *s)
{
	struct ckl_job *job = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);

	if (job && job->deadline > 0 && ckl_milliseconds() >= job->deadline)
		ckl_session_time_out(s, job);
	else if (!s->worker.ready && ckl_milliseconds() - s->worker_since >= START_MS)
		ckl_session_lost(s);
	if (s->trim_at > 0 && ckl_milliseconds() >= s->trim_at) {
		ckl_jobs_trim(&s->jobs);
		s->trim_at = 0;
	}
}

/* Poll. Waking a sleeper costs its waker time, so spin for a while if something may come soon. */
static int poll_events(struct ckl_session *s, struct pollfd *fds, nfds_t count, bool at_once)
{
	bool runs = ckl_jobs_first(&s->jobs, CK_JOB_RUNNING);
	struct ck_spin_turn turn = ck_spin_begin(runs ? &s->job_spin : &s->client_spin);
	int ret = poll(fds, count, 0);

	while (!at_once && ret == 0 && ck_spin_again(&turn))
		ret = poll(fds, count, 0);
	if (!at_once && ret == 0)
		ret = poll(fds, count, get_timeout(s));
	ck_spin_end(&turn);
	return ret;
}

static void wait_and_read(struct ckl_session *s)
{
	bool reads = !s->closing && !ckl_jobs_awaited(&s->jobs);
	/* Pending input needs no wait. */
	bool at_once = reads && s->input.pending_size > 0;
	struct pollfd fds[] = {
		{.fd = s->worker.sock, .events = POLLIN},
		{.fd = s->input.fd, .events = reads ? POLLIN : 0},
		{.fd = s->closing ? -1 : s->stop, .events = POLLIN},
	};

	/* A pipe that has ended reports it at every poll, so only the first report counts. */
	if (!reads && s->options->mode != CK_MODE_DAEMON)
		fds[1].fd = -1;
	if (poll_events(s, fds, CK_ARRAY_SIZE(fds), at_once) < 0 && errno != EINTR) {
		s->gone = true;
		return;
	}
	if (fds[0].revents)
		ckl_session_read_ticket(s);
	if (fds[2].revents) /* messages that have come since are not begun any more */
		s->closing = true;
	else if (at_once || (reads && fds[1].revents))
		handle_client(s);
	else if (fds[1].revents & (POLLHUP | POLLERR) && s->options->mode == CK_MODE_DAEMON)
		s->gone = true;
	time_check(s);
}

int ckl_session_serve(const struct ckl_options *options, int in, int out, struct ckl_worker *worker,
		      int stop)
{
	struct ckl_session *s = calloc(1, sizeof(*s));

	if (!s)
		return CK_EXIT_MEMORY;
	s->options = options;
	s->out = out;
	s->stop = stop;
	s->worker = *worker;
	s->worker_since = ckl_milliseconds();
	s->client_defaults = json_incref(options->defaults);
	s->defaults = json_dumps(options->defaults, JSON_COMPACT);
	ck_spin_init(&s->job_spin, CK_SESSION_SPIN_US);
	ck_spin_init(&s->client_spin, CK_SESSION_SPIN_US);
	ckl_session_lend(s);
	ckl_jobs_init(&s->jobs);
	if (ckl_input_open(&s->input, in, options->input_max) < 0)
		s->gone = true;
	if (s->worker.sock < 0 && !s->gone)
		ckl_session_start(s);
	while (!is_over(s)) {
		if (!progress_session(s))
			wait_and_read(s);
	}
	if (s->gone)
		ckl_session_note(s, CK_EXIT_SERVICE);
	ckl_worker_end(&s->worker);
	ckl_input_close(&s->input);
	ckl_jobs_free(&s->jobs);
	json_decref(s->client_defaults);
	free(s->defaults);
	stop = s->exit;
	free(s);
	return stop;
}
