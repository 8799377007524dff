/*
 * rpc/transport/splice.c - see splice.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "rpc/transport/splice.h"
#include "util/process/sighold.h"
#include "util/util.h"

#define PIPE_SIZE (1 << 20) /* the most that a user may have by default */

/* A user with many pipes gets only small ones. */
static bool open_pipe(struct ck_splice *s)
{
	int ends[2];

	if (s->open || s->failed)
		return s->open;
	s->failed = pipe2(ends, O_CLOEXEC) < 0;
	if (s->failed)
		return false;
	s->open = true;
	for (int i = 0; i < 2; i++)
		ck_private_fd_note(&s->ends[i], ends[i]);
	if (fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE) < PIPE_SIZE) {
		ck_splice_close(s);
		s->failed = true;
	}
	return s->open;
}

void ck_splice_close(struct ck_splice *s)
{
	if (s->open) {
		ck_private_fd_close(&s->ends[0]);
		ck_private_fd_close(&s->ends[1]);
	}
	s->open = false;
}

/* The kernel, or a filter of the program, does not permit the call. */
static bool is_declined(int error)
{
	return error == EINVAL || error == ENOSYS || error == EPERM || error == EACCES ||
	       error == EOPNOTSUPP || error == EFAULT || error == ENOMEM;
}

/* Move @size bytes from the pipe to the socket, as ck_splice_send. */
static long drain_pipe(struct ck_splice *s, struct ck_chan *chan, size_t size, bool more)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n;
		int ret;

		if (atomic_load_explicit(&chan->down, memory_order_relaxed))
			return -EPIPE;
		n = splice(ck_private_fd_recent(&s->ends[0]), NULL, ck_socket_fd(chan), NULL,
			   size - done, SPLICE_F_MOVE | (more ? SPLICE_F_MORE : 0));
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || is_declined(errno))
			break;
		ret = ck_socket_retry(chan, errno, POLLOUT);
		if (ret < 0)
			return ret;
	}
	return (long)done;
}

/* Fill the pipe, and empty it, until all is sent. */
static long send_all(struct ck_splice *s, struct ck_chan *chan, const char *data, size_t size)
{
	size_t done = 0;

	while (done < size && open_pipe(s)) {
		struct iovec iov = {(char *)(uintptr_t)data + done,
				    ck_min(size - done, (size_t)PIPE_SIZE)};
		ssize_t n = vmsplice(ck_private_fd_recent(&s->ends[1]), &iov, 1, 0);
		long sent;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->failed = errno != EFAULT; /* memory of a device has no pages to send */
			break;
		}
		sent = drain_pipe(s, chan, (size_t)n, done + (size_t)n < size);
		if (sent != n) {
			s->failed = true;
			ck_splice_close(s); /* with the bytes in it */
		}
		if (sent < 0)
			return sent;
		done += (size_t)sent;
	}
	return (long)done;
}

/* Unlike a send, splice raises SIGPIPE. */
long ck_splice_send(struct ck_splice *s, struct ck_chan *chan, const void *data, size_t size)
{
	struct ck_sighold sigpipe;
	long n;

	if (s->failed)
		return 0;
	ck_sighold_begin(&sigpipe, SIGPIPE);
	n = send_all(s, chan, data, size);
	ck_sighold_end(&sigpipe, n == -EPIPE);
	return n;
}
