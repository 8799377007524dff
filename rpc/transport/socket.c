/*
 * rpc/transport/socket.c - transfer over a blocking stream socket, for tcp.c and unix.c.
 *
 * Raise no SIGPIPE: the client is a library in another program. That program's signals interrupt
 * system calls, which are then retried.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "rpc/transport/transport.h"
#include "util/until.h"

int ck_socket_chan_create(const struct ck_transport_ops *ops, int fd, const char *peer,
			  struct ck_chan **out)
{
	struct ck_chan *chan = calloc(1, sizeof(*chan));

	if (!chan)
		return -ENOMEM;
	chan->ops = ops;
	ck_private_fd_plain(&chan->kept, fd);
	atomic_init(&chan->down, false);
	snprintf(chan->peer, sizeof(chan->peer), "%s", peer);
	*out = chan;
	return 0;
}

/* EAGAIN happens if the transport set SO_RCVTIMEO and SO_SNDTIMEO, or if another process with the
 * same socket made it non-blocking. */
int ck_socket_retry(struct ck_chan *chan, int error, short events)
{
	struct pollfd pfd = {.events = events};

	if (error == EINTR)
		return 0;
	if (error != EAGAIN && error != EWOULDBLOCK)
		return -error;
	pfd.fd = ck_private_fd_number(&chan->kept);
	if (pfd.fd < 0)
		return -EBADF;
	if (poll(&pfd, 1, CK_STALL_MS) != 0)
		return 0; /* ready, or failed: the retry reports the error */
	if (chan->quiet)
		chan->quiet(chan->quiet_closure);
	return chan->ops->check ? chan->ops->check(chan) : 0;
}

/* With the poll in ck_socket_retry, this adds up to a second. */
void ck_socket_awake(struct ck_chan *chan)
{
	const struct timeval tick = {.tv_usec = CK_STALL_MS * 1000};

	setsockopt(ck_socket_fd(chan), SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	setsockopt(ck_socket_fd(chan), SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof(tick));
}

/* Remove @sent bytes from the front of @iov; returns the number of entries finished. */
static int iov_advance(struct iovec *iov, int count, size_t sent)
{
	int done = 0;

	while (done < count && sent >= iov[done].iov_len)
		sent -= iov[done++].iov_len;
	if (done < count) {
		iov[done].iov_base = (char *)iov[done].iov_base + sent;
		iov[done].iov_len -= sent;
	}
	return done;
}

/* Wait for bytes, or for room, within the channel's timeout. */
static int wait_for_events(struct ck_chan *chan, short events)
{
	struct pollfd pfd = {.events = events};
	int64_t deadline = ck_deadline(chan->timeout_ms);

	for (;;) {
		int left = ck_deadline_left(deadline);
		int n;

		pfd.fd = ck_socket_fd(chan);
		if (pfd.fd < 0)
			return -EBADF;
		n = poll(&pfd, 1, left < 2 * CK_STALL_MS ? left : 2 * CK_STALL_MS);
		if (n > 0 || (n < 0 && errno != EINTR))
			return 0; /* the next call reports an error of the socket */
		if (n == 0 && chan->quiet)
			chan->quiet(chan->quiet_closure);
		if (n == 0 && left == 0)
			return -ETIMEDOUT;
	}
}

/* Buffer for the control message with descriptors, aligned. */
union fd_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * CK_FDS_WAITING)];
};

static void attach_fd(struct msghdr *msg, union fd_control *control, int fd)
{
	struct cmsghdr *header;

	memset(control, 0, sizeof(*control));
	msg->msg_control = control->bytes;
	msg->msg_controllen = CMSG_SPACE(sizeof(int));
	header = CMSG_FIRSTHDR(msg);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
}

int ck_socket_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	int done = iov_advance(iov, count, 0); /* skip empty entries at the front */
	union fd_control control;

	while (done < count) {
		struct msghdr msg = {.msg_iov = iov + done};
		ssize_t n;
		int ret;

		if (atomic_load_explicit(&chan->down, memory_order_relaxed))
			return -EPIPE;
		if (chan->timeout_ms > 0) {
			ret = wait_for_events(chan, POLLOUT);
			if (ret < 0)
				return ret;
		}
		if (fd >= 0)
			attach_fd(&msg, &control, fd);
		msg.msg_iovlen = count - done < IOV_MAX ? count - done : IOV_MAX;
		n = sendmsg(ck_socket_fd(chan), &msg,
			    MSG_NOSIGNAL | (chan->more ? MSG_MORE : 0) |
				    (chan->timeout_ms > 0 ? MSG_DONTWAIT : 0));
		if (n >= 0) {
			fd = -1; /* sent with the first byte */
			done += iov_advance(iov + done, count - done, (size_t)n);
			continue;
		}
		ret = ck_socket_retry(chan, errno, POLLOUT);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Keep the descriptors of @msg; close those without room. */
static int keep_fds(struct ck_chan *chan, struct msghdr *msg)
{
	struct cmsghdr *header;
	int ret = msg->msg_flags & MSG_CTRUNC ? -EPROTO : 0;

	for (header = CMSG_FIRSTHDR(msg); header; header = CMSG_NXTHDR(msg, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
			if (chan->fd_count < CK_FDS_WAITING) {
				chan->fds[chan->fd_count++] = fd;
				continue;
			}
			close(fd);
			ret = -EPROTO;
		}
	}
	return ret;
}

ssize_t ck_socket_receive(struct ck_chan *chan, void *buf, size_t size, int flags)
{
	struct iovec iov = {buf, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control control;
	ssize_t n;

	if (!chan->ops->take_fd && !chan->ops->collects_fds)
		return recv(ck_socket_fd(chan), buf, size, flags);
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	n = recvmsg(ck_socket_fd(chan), &msg, flags | MSG_CMSG_CLOEXEC);
	if (n > 0 && msg.msg_controllen > 0 && keep_fds(chan, &msg) < 0) {
		errno = EPROTO;
		n = -1;
	}
	return n;
}

int ck_socket_take_fd(struct ck_chan *chan)
{
	int fd;

	if (chan->fd_count == 0)
		return -ENOENT;
	fd = chan->fds[0];
	chan->fd_count--;
	memmove(chan->fds, chan->fds + 1, chan->fd_count * sizeof(fd));
	return fd;
}

size_t ck_socket_pending(struct ck_chan *chan)
{
	int queued = 0;

	return ioctl(ck_socket_fd(chan), FIONREAD, &queued) < 0 ? 0 : (size_t)queued;
}

/* Spin on recv while that pays; then -1 with EAGAIN. */
static ssize_t recv_spinning(struct ck_chan *chan, struct ck_spin_turn *turn, void *buf,
			     size_t size)
{
	ssize_t n;

	do {
		n = ck_socket_receive(chan, buf, size, MSG_DONTWAIT);
	} while (n < 0 && errno == EAGAIN && ck_spin_again(turn) &&
		 !atomic_load_explicit(&chan->down, memory_order_relaxed));
	return n;
}

static long read_turn(struct ck_chan *chan, void *buf, size_t size, size_t least,
		      struct ck_spin_turn *turn)
{
	/* only a read of the whole buffer can wait in the kernel */
	int flags = least == size && !chan->timeout_ms ? MSG_WAITALL : 0;
	bool spin = chan->spin.most_ns > 0 && !flags;

	for (;;) {
		ssize_t n;
		int ret;

		if (atomic_load_explicit(&chan->down, memory_order_relaxed))
			return -EPIPE;
		if (!spin && chan->timeout_ms > 0) {
			ret = wait_for_events(chan, POLLIN);
			if (ret < 0)
				return ret;
		}
		n = spin ? recv_spinning(chan, turn, buf, size)
			 : ck_socket_receive(chan, buf, size, flags);
		if (n > 0)
			return n;
		if (n == 0)
			return ck_private_fd_number(&chan->kept) < 0 ? -EBADF : -EPIPE;
		if (spin && errno == EAGAIN) {
			spin = false;
			continue;
		}
		ret = ck_socket_retry(chan, errno, POLLIN);
		if (ret < 0)
			return ret;
	}
}

long ck_socket_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct ck_spin_turn turn = ck_spin_begin(&chan->spin);
	long n = read_turn(chan, buf, size, least, &turn);

	ck_spin_end(&turn);
	return n;
}

void ck_socket_shutdown(struct ck_chan *chan)
{
	/* ENOTCONN: the peer closed first */
	shutdown(ck_private_fd_number(&chan->kept), SHUT_RDWR);
}

void ck_socket_close(struct ck_chan *chan)
{
	while (chan->fd_count > 0)
		close(chan->fds[--chan->fd_count]);
	ck_private_fd_close(&chan->kept);
	if (chan->release)
		chan->release(chan); /* woken sleepers find the socket closed */
	free(chan);
}

int ck_socket_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int ck_socket_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

int64_t ck_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? -1 : (int64_t)(ck_now_ns() / 1000000) + timeout_ms;
}

int ck_deadline_left(int64_t deadline)
{
	int64_t left;

	if (deadline < 0)
		return -1;
	left = deadline - (int64_t)(ck_now_ns() / 1000000);
	return left > 0 ? (int)left : 0;
}
