/*
 * launcher/send.c - what a session writes to its client.
 */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/reply.h"
#include "launcher/session.h"
#include "launcher/run.h"
#include "util/fd.h"

#define TRIM_MS 1000

static void send_bytes(struct ck_session *s, const void *data, size_t size)
{
	if (!s->gone && ck_fd_write_full(s->out, data, size) < 0)
		s->gone = true;
}

void ck_session_note(struct ck_session *s, int exit)
{
	if (s->exit == 0)
		s->exit = exit;
}

void ck_session_fail(struct ck_session *s, bool frame, uint64_t id, struct ck_fail *fail)
{
	struct ck_out out = {0};

	ck_session_note(s, fail->exit);
	ck_reply_fail(&out, frame, id, fail);
	send_bytes(s, out.base, out.size);
	free(out.base);
	ck_fail_clear(fail);
}

void ck_session_status(struct ck_session *s, bool frame, uint64_t id, const char *status)
{
	struct ck_out out = {0};
	char text[96];
	int n;

	n = id ? snprintf(text, sizeof(text), "{\"id\":%llu,\"status\":\"%s\"}",
			  (unsigned long long)id, status)
	       : snprintf(text, sizeof(text), "{\"status\":\"%s\"}", status);
	ck_reply_document(&out, frame, text, (size_t)n);
	send_bytes(s, out.base, out.size);
	free(out.base);
}

void ck_session_reply(struct ck_session *s, struct ck_job *job)
{
	send_bytes(s, job->block.map + job->reply_at, job->reply);
	ck_session_note(s, (int)job->exit);
	ck_jobs_done(job);
	/* The next request most likely needs as much, and pages that are there are faster. */
	s->trim_at = ck_milliseconds() + TRIM_MS;
}
