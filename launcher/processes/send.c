/*
 * launcher/processes/send.c - replies to a session's client.
 *
 * A large reply into a pipe is lent: the pipe gets the pages, which its reader copies, in place of
 * copies of them. A page in the pipe must not change. If more requests come, pages are therefore
 * lent only to readers that promise to copy (--lend), and none is left when the call returns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "launcher/launch/run.h"
#include "launcher/processes/session.h"
#include "launcher/request/reply.h"
#include "util/process/fd.h"

#define TRIM_MS 1000
#define PIPE_SIZE (1 << 20)

void ckl_session_lend(struct ckl_session *s)
{
	struct stat st;
	int size;

	if (s->options->mode != CK_MODE_ONCE && !s->options->lend)
		return;
	if (fstat(s->out, &st) < 0 || !S_ISFIFO(st.st_mode))
		return;
	fcntl(s->out, F_SETPIPE_SZ, PIPE_SIZE);
	size = fcntl(s->out, F_GETPIPE_SZ);
	s->pipe_size = size > 0 ? (size_t)size : 0;
}

/* Lend @size bytes to the pipe. -errno. */
static int splice_bytes(int fd, const char *data, size_t size)
{
	while (size > 0) {
		struct iovec piece = {(void *)(uintptr_t)data, size};
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		ssize_t n = vmsplice(fd, &piece, 1, 0);

		if (n < 0 && errno == EAGAIN)
			n = poll(&p, 1, -1) < 0 && errno != EINTR ? -1 : 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		data += ck_max(n, (ssize_t)0);
		size -= (size_t)ck_max(n, (ssize_t)0);
	}
	return 0;
}

static void send_bytes(struct ckl_session *s, const void *data, size_t size)
{
	if (!s->gone && ck_fd_write_full(s->out, data, size) < 0)
		s->gone = true;
}

/* The end of the reply is copied, as much as the pipe holds, so that no lent page is left in it. */
static void send_large(struct ckl_session *s, const char *data, size_t size)
{
	size_t lent = s->pipe_size && size > 2 * s->pipe_size ? size - s->pipe_size : 0;

	if (!s->gone && splice_bytes(s->out, data, lent) < 0)
		s->gone = true;
	send_bytes(s, data + lent, size - lent);
}

void ckl_session_note(struct ckl_session *s, int exit)
{
	if (s->exit == 0)
		s->exit = exit;
}

void ckl_session_fail(struct ckl_session *s, bool frame, struct ckl_fail *fail)
{
	struct ckl_out out = {0};

	ckl_session_note(s, fail->exit);
	ckl_reply_fail(&out, frame, 0, fail);
	send_bytes(s, out.base, out.size);
	free(out.base);
	ckl_fail_clear(fail);
}

void ckl_session_status(struct ckl_session *s, bool frame, uint64_t id, const char *status)
{
	struct ckl_out out = {0};
	char text[96];
	int n;

	n = id ? snprintf(text, sizeof(text), "{\"id\":%llu,\"status\":\"%s\"}",
			  (unsigned long long)id, status)
	       : snprintf(text, sizeof(text), "{\"status\":\"%s\"}", status);
	ckl_reply_document(&out, frame, text, (size_t)n);
	send_bytes(s, out.base, out.size);
	free(out.base);
}

void ckl_session_reply(struct ckl_session *s, struct ckl_job *job)
{
	send_large(s, job->block.map + job->reply_at, job->reply);
	ckl_session_note(s, (int)job->exit);
	ckl_jobs_done(job);
	/* The next request most likely needs as much, and pages that are there are faster. */
	s->trim_at = ckl_milliseconds() + TRIM_MS;
}
