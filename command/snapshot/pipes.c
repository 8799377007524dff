/*
 * command/snapshot/pipes.c - see pipes.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "command/snapshot/pipes.h"
#include "util/process/fd.h"

int ckx_pipes_make(struct ckx_pipes *p, bool takes)
{
	*p = (struct ckx_pipes){.takes = takes};
	for (int i = 0; i < CKX_PIPES; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return -errno;
		p->ends[i] = ends[i == 0];
		p->others[i] = ends[i != 0];
	}
	return 0;
}

void ckx_pipes_close_others(struct ckx_pipes *p)
{
	for (int i = 0; i < CKX_PIPES; i++)
		close(p->others[i]);
}

static void close_end(struct ckx_pipes *p, int i)
{
	close(p->ends[i]);
	p->ends[i] = -1;
}

void ckx_pipes_close_ends(struct ckx_pipes *p)
{
	for (int i = 0; i < CKX_PIPES; i++)
		close_end(p, i);
}

void ckx_pipes_poll(const struct ckx_pipes *p, struct pollfd fds[CKX_PIPES])
{
	bool input = p->takes && p->ends[0] >= 0;

	fds[0] = p->full ? (struct pollfd){.fd = p->ends[0], .events = POLLOUT}
			 : (struct pollfd){.fd = input ? STDIN_FILENO : -1, .events = POLLIN};
	for (int i = 1; i < CKX_PIPES; i++)
		fds[i] = (struct pollfd){.fd = p->ends[i], .events = POLLIN};
}

/* A pipe that has room takes PIPE_BUF bytes at least. */
static void pass_input(struct ckx_pipes *p)
{
	struct pollfd room = {.fd = p->ends[0], .events = POLLOUT};
	char text[PIPE_BUF];
	ssize_t n;

	poll(&room, 1, 0);
	p->full = room.revents == 0;
	if (p->full)
		return;
	n = room.revents & POLLERR ? 0 : read(STDIN_FILENO, text, sizeof(text));
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
	    (n > 0 && ck_fd_write_full(p->ends[0], text, (size_t)n) < 0))
		close_end(p, 0);
}

static void pass_output(struct ckx_pipes *p, int i)
{
	char text[4096];
	ssize_t n = read(p->ends[i], text, sizeof(text));

	if (n == 0 || (n < 0 && errno != EINTR) ||
	    (n > 0 && ck_fd_write_full(i, text, (size_t)n) < 0))
		close_end(p, i); /* the program gets SIGPIPE if nothing takes its output */
}

void ckx_pipes_pass(struct ckx_pipes *p, const struct pollfd fds[CKX_PIPES])
{
	if (fds[0].revents && p->ends[0] >= 0)
		pass_input(p);
	for (int i = 1; i < CKX_PIPES; i++) {
		if (fds[i].revents && p->ends[i] >= 0)
			pass_output(p, i);
	}
}

void ckx_pipes_end(struct ckx_pipes *p)
{
	for (int i = 1; i < CKX_PIPES; i++) {
		while (p->ends[i] >= 0)
			pass_output(p, i);
	}
}
