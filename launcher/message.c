/*
 * launcher/message.c - how a session handles a message of its client.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/request.h"
#include "launcher/session.h"

static void message_cancel(struct ck_session *s, struct ck_job *job)
{
	struct ck_fail fail = {0};

	if (job->state == CK_JOB_RUNNING) {
		ck_fail(&fail, CK_EXIT_TIMEOUT, "cancel", "CANCELLED", "cancelled");
		ck_session_replace(s, &fail);
	}
	ck_session_status(s, s->input.frame, job->id, "cancelled");
	ck_jobs_done(job);
}

/* A message about an asynchronous launch. */
static void message_about(struct ck_session *s, const struct ck_request *request)
{
	static const char *const states[] = {
		[CK_JOB_QUEUED] = "queued", [CK_JOB_RUNNING] = "running"};
	struct ck_job *job = request->id ? ck_jobs_find(&s->jobs, request->id) : NULL;
	struct ck_fail fail = {0};

	if (!job) {
		ck_fail_input(&fail, "there is no launch %llu to ask for",
			      (unsigned long long)request->id);
		ck_session_fail(s, s->input.frame, 0, &fail);
	} else if (request->command == CK_CANCEL) {
		message_cancel(s, job);
	} else if (job->state == CK_JOB_DONE) {
		ck_session_reply(s, job);
	} else if (request->command == CK_POLL) {
		ck_session_status(s, s->input.frame, job->id, states[job->state]);
	} else {
		job->awaited = true;
	}
}

/* A launch, read or free: into the queue. */
static void message_queue(struct ck_session *s, const struct ck_request *request)
{
	struct ck_job *job = s->filling;

	s->filling = NULL;
	job->state = CK_JOB_QUEUED;
	job->frame = s->input.frame;
	job->message = s->input.have;
	job->order = s->jobs.count++;
	job->timeout_ms = request->timeout_ms;
	job->awaited = !request->async;
	if (request->async) {
		job->id = ++s->ids;
		ck_session_status(s, job->frame, job->id, "queued");
	}
}

static void message_defaults(struct ck_session *s, struct ck_request *request, const char *message)
{
	struct ck_fail fail = {0};
	json_t *defaults;

	if (s->input.frame)
		ck_fail_input(&fail, "defaults are JSON, not a frame");
	defaults = s->input.frame ? NULL : ck_request_defaults(request, message, &fail);
	if (!defaults) {
		ck_session_fail(s, s->input.frame, 0, &fail);
		return;
	}
	json_decref(s->client_defaults);
	free(s->defaults);
	s->client_defaults = defaults;
	s->defaults = json_dumps(defaults, JSON_COMPACT);
}

/* A complete message lies in the job that is being filled. */
void ck_session_take(struct ck_session *s)
{
	const char *message = s->filling->block.map + s->input.base;
	struct ck_request request;
	struct ck_fail fail = {0};

	s->filling->message = s->input.have;
	if (ck_request_peek(&request, message, s->input.have,
			    s->input.frame ? NULL : &s->input.scan, s->client_defaults,
			    &fail) < 0) {
		ck_session_fail(s, s->input.frame, 0, &fail);
	} else if (request.command <= CK_FREE) {
		message_queue(s, &request);
	} else if (request.command == CK_DEFAULTS) {
		message_defaults(s, &request, message);
	} else if (request.command == CK_PING) {
		ck_session_status(s, s->input.frame, 0, "ready");
	} else if (request.command == CK_QUIT) {
		s->closing = true;
	} else {
		message_about(s, &request);
	}
	ck_request_free(&request);
	if (s->filling)
		ck_jobs_done(s->filling);
	s->filling = NULL;
	if (s->options->mode == CK_MODE_ONCE)
		s->closing = true;
}
