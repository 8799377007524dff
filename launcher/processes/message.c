/*
 * launcher/processes/message.c - how a session handles a message of its client.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/processes/session.h"
#include "launcher/request/request.h"

static void message_cancel(struct ckl_session *s, struct ckl_job *job)
{
	struct ckl_fail fail = {0};

	if (job->state == CK_JOB_RUNNING) {
		ckl_fail(&fail, CK_EXIT_TIMEOUT, "cancel", "CANCELLED", "cancelled");
		ckl_session_replace(s, &fail);
	}
	ckl_session_status(s, s->input.frame, job->id, "cancelled");
	ckl_jobs_done(job);
}

/* A message about an asynchronous launch. */
static void message_about(struct ckl_session *s, const struct ckl_request *request)
{
	static const char *const states[] = {
		[CK_JOB_QUEUED] = "queued", [CK_JOB_RUNNING] = "running"};
	struct ckl_job *job = request->id ? ckl_jobs_find(&s->jobs, request->id) : NULL;
	struct ckl_fail fail = {0};

	if (!job) {
		ckl_fail_input(&fail, "there is no launch %llu to ask for",
			       (unsigned long long)request->id);
		ckl_session_fail(s, s->input.frame, &fail);
	} else if (request->command == CK_CANCEL) {
		message_cancel(s, job);
	} else if (job->state == CK_JOB_DONE) {
		ckl_session_reply(s, job);
	} else if (request->command == CK_POLL) {
		ckl_session_status(s, s->input.frame, job->id, states[job->state]);
	} else {
		job->awaited = true;
	}
}

/* A launch, read or free: into the queue. */
static void message_queue(struct ckl_session *s, const struct ckl_request *request)
{
	struct ckl_job *job = s->filling;

	s->filling = NULL;
	job->state = CK_JOB_QUEUED;
	job->frame = s->input.frame;
	job->message = s->input.have;
	job->order = s->jobs.count++;
	job->timeout_ms = request->timeout_ms;
	job->awaited = !request->async;
	if (request->async) {
		job->id = ++s->ids;
		ckl_session_status(s, job->frame, job->id, "queued");
	}
}

static void message_defaults(struct ckl_session *s, struct ckl_request *request,
			     const char *message)
{
	struct ckl_fail fail = {0};
	json_t *defaults;

	if (s->input.frame)
		ckl_fail_input(&fail, "defaults are JSON, not a frame");
	defaults = s->input.frame ? NULL : ckl_request_defaults(request, message, &fail);
	if (!defaults) {
		ckl_session_fail(s, s->input.frame, &fail);
		return;
	}
	json_decref(s->client_defaults);
	free(s->defaults);
	s->client_defaults = defaults;
	s->defaults = json_dumps(defaults, JSON_COMPACT);
}

/* A complete message lies in the job that is being filled. */
void ckl_session_take(struct ckl_session *s)
{
	const char *message = s->filling->block.map + s->input.base;
	struct ckl_request request;
	struct ckl_fail fail = {0};

	s->filling->message = s->input.have;
	if (ckl_request_peek(&request, message, s->input.have,
			     s->input.frame ? NULL : &s->input.scan, s->client_defaults,
			     &fail) < 0) {
		ckl_session_fail(s, s->input.frame, &fail);
	} else if (request.command <= CK_FREE) {
		message_queue(s, &request);
	} else if (request.command == CK_DEFAULTS) {
		message_defaults(s, &request, message);
	} else if (request.command == CK_PING) {
		ckl_session_status(s, s->input.frame, 0, "ready");
	} else if (request.command == CK_QUIT) {
		s->closing = true;
	} else {
		message_about(s, &request);
	}
	ckl_request_free(&request);
	if (s->filling)
		ckl_jobs_done(s->filling);
	s->filling = NULL;
	if (s->options->mode == CK_MODE_ONCE)
		s->closing = true;
}
