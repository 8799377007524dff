/*
 * util/process/fd.c - helpers round file descriptors; see fd.h.
 */
#define _GNU_SOURCE /* pwritev2 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process/fd.h"
#include "util/process/sighold.h"
#include "util/util.h"

#define IOV_CHUNK 1024 /* the kernel takes no more pieces in one call */
#define RECV_FDS 4     /* room for more than the one expected, so that extra ones can be closed */

/* Has a read waited for as long as the socket may wait (SO_RCVTIMEO)? */
static bool has_waited(int fd)
{
	struct timeval limit = {.tv_sec = 0};
	socklen_t size = sizeof(limit);

	return getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0 &&
	       (limit.tv_sec > 0 || limit.tv_usec > 0) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* After a failed call: 0 when it should be tried again (having waited if needed), else -errno. */
static int retry_or_error(int fd, short events)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};

	if (errno == EINTR)
		return 0;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return -errno;
	if (events == POLLIN && has_waited(fd))
		return -ETIMEDOUT;
	if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

int ck_fd_read_full(int fd, void *data, size_t size)
{
	size_t done = 0;
	int ret;

	while (done < size) {
		ssize_t n = read(fd, (char *)data + done, size - done);

		if (n == 0)
			return done ? -ECONNRESET : -ENODATA;
		if (n < 0) {
			ret = retry_or_error(fd, POLLIN);
			if (ret < 0)
				return ret;
			continue;
		}
		done += (size_t)n;
	}
	return 0;
}

int ck_fd_pread_full(int fd, void *data, size_t size, off_t at)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, (char *)data + done, size - done, at + (off_t)done);

		if (n == 0)
			return -ENODATA;
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

ssize_t ck_fd_read_most(int fd, void *data, size_t size)
{
	size_t done = 0;
	ssize_t n;

	do {
		n = read(fd, (char *)data + done, size - done);
		done += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && done < size) || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : (ssize_t)done;
}

int ck_fd_write_full(int fd, const void *data, size_t size)
{
	struct iovec iov = {.iov_base = (void *)data, .iov_len = size};

	return ck_fd_writev_full(fd, &iov, 1);
}

/* One writev; for sockets in the form that raises no SIGPIPE. */
static ssize_t write_some(int fd, struct iovec *iov, size_t count)
{
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = ck_min(count, (size_t)IOV_CHUNK)};
	ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);

	if (n < 0 && errno == ENOTSOCK)
		n = writev(fd, iov, (int)message.msg_iovlen);
	return n;
}

/* A pipe takes a page whole or not at all. Kernels before 6.4 know no RWF_NOWAIT for pipes: there,
 * another writer may take the room between the two calls. */
static ssize_t pipe_write_now(int fd, const void *data, size_t size)
{
	struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	ssize_t n = pwritev2(fd, &iov, 1, -1, RWF_NOWAIT);

	if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
		return n;
	if (poll(&room, 1, 0) == 1)
		return write(fd, data, size);
	errno = EAGAIN;
	return -1;
}

ssize_t ck_fd_write_now(int fd, const void *data, size_t size)
{
	struct stat file;
	ssize_t n;

	do {
		if (fstat(fd, &file) < 0)
			return -errno;
		if (S_ISSOCK(file.st_mode))
			n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
		else if (S_ISFIFO(file.st_mode))
			n = pipe_write_now(fd, data, size);
		else
			n = write(fd, data, size);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int ck_fd_writev_full(int fd, struct iovec *iov, size_t count)
{
	ssize_t n;
	int ret;

	for (;;) {
		while (count > 0 && iov->iov_len == 0) {
			iov++;
			count--;
		}
		if (count == 0)
			return 0;
		n = write_some(fd, iov, count);
		if (n < 0) {
			ret = retry_or_error(fd, POLLOUT);
			if (ret < 0)
				return ret;
			continue;
		}
		while (n > 0) {
			size_t part = ck_min((size_t)n, iov->iov_len);

			iov->iov_base = (char *)iov->iov_base + part;
			iov->iov_len -= part;
			n -= (ssize_t)part;
			if (iov->iov_len == 0 && n > 0) {
				iov++;
				count--;
			}
		}
	}
}

static int flag_set(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -errno;
	flags = on ? flags | flag : flags & ~flag;
	return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int ck_fd_resize(int fd, off_t size)
{
	struct ck_sighold limit;
	int ret;

	ck_sighold_begin(&limit, SIGXFSZ);
	ret = ftruncate(fd, size) < 0 ? -errno : 0;
	ck_sighold_end(&limit, ret == -EFBIG);
	return ret;
}

int ck_fd_set_cloexec(int fd, bool on)
{
	return flag_set(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int ck_fd_set_nonblock(int fd, bool on)
{
	return flag_set(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int ck_fd_send(int sock, int fd, const void *data, size_t size)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	ssize_t n;
	int ret;

	if (size == 0)
		return -EINVAL;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	while ((n = sendmsg(sock, &message, MSG_NOSIGNAL)) < 0) {
		ret = retry_or_error(sock, POLLOUT);
		if (ret < 0)
			return ret;
	}
	return ck_fd_write_full(sock, (const char *)data + n, size - (size_t)n);
}

/* Keep the first descriptor of the message in *fd (if that is still -1), close all others. */
static void take_fds(struct msghdr *message, int *fd)
{
	struct cmsghdr *header;
	int got;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len;
		     at += sizeof(int)) {
			memcpy(&got, CMSG_DATA(header) + at, sizeof(int));
			if (*fd < 0)
				*fd = got;
			else
				close(got);
		}
	}
}

int ck_fd_recv(int sock, void *data, size_t size, int *fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(RECV_FDS * sizeof(int))];
	} control;
	size_t done = 0;
	int ret = 0, got = -1;

	while (done < size) {
		struct iovec iov = {.iov_base = (char *)data + done, .iov_len = size - done};
		struct msghdr message = {.msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = control.space,
					 .msg_controllen = sizeof(control.space)};
		ssize_t n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);

		if (n < 0)
			ret = retry_or_error(sock, POLLIN);
		else if (n == 0)
			ret = done ? -ECONNRESET : -ENODATA;
		if (n >= 0)
			take_fds(&message, &got);
		if (ret < 0)
			goto close_got;
		done += n > 0 ? (size_t)n : 0;
	}
	*fd = got;
	return 0;
close_got:
	if (got >= 0)
		close(got);
	return ret;
}

bool ck_fd_is(int fd, dev_t dev, ino_t ino)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

bool ck_fd_exposed(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} bound = {.any.sa_family = AF_UNSPEC};
	socklen_t size = sizeof(bound);

	if (getsockname(fd, &bound.any, &size) < 0)
		return true;
	if (bound.any.sa_family == AF_INET)
		return ntohl(bound.v4.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
	if (bound.any.sa_family != AF_INET6)
		return bound.any.sa_family != AF_UNIX;
	return !IN6_IS_ADDR_LOOPBACK(&bound.v6.sin6_addr) &&
	       !(IN6_IS_ADDR_V4MAPPED(&bound.v6.sin6_addr) &&
		 bound.v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}
