/*
 * loader/halves/descriptors.c - which descriptors a half's libraries have open, so that they go with
 * the half when it is dropped.
 *
 * A half's program is searched before libc, so the libraries' calls come here first. What libc
 * opens inside itself (stdio, name look-ups) it closes itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loader/halves/half.h"

#define EXPORT __attribute__((visibility("default")))
#define WORD(fd) ck_half_descriptors[(fd) / 64]
#define BIT(fd) (1ull << (fd) % 64)

uint64_t ck_half_descriptors[CK_HALF_DESCRIPTORS / 64];

#define NEXT(name)                                                       \
	__extension__({                                                  \
		static __typeof__(&name) next_;                          \
		if (!next_)                                              \
			*(void **)&next_ = dlsym(RTLD_NEXT, #name);      \
		next_;                                                   \
	})

static int opened(int fd)
{
	if (fd >= 0 && fd < CK_HALF_DESCRIPTORS)
		__atomic_or_fetch(&WORD(fd), BIT(fd), __ATOMIC_RELAXED);
	return fd;
}

EXPORT int close(int fd)
{
	if (fd >= 0 && fd < CK_HALF_DESCRIPTORS)
		__atomic_and_fetch(&WORD(fd), ~BIT(fd), __ATOMIC_RELAXED);
	return NEXT(close)(fd);
}

EXPORT int socket(int domain, int type, int protocol)
{
	return opened(NEXT(socket)(domain, type, protocol));
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int ret = NEXT(socketpair)(domain, type, protocol, fds);

	if (!ret) {
		opened(fds[0]);
		opened(fds[1]);
	}
	return ret;
}

EXPORT int pipe2(int fds[2], int flags)
{
	int ret = NEXT(pipe2)(fds, flags);

	if (!ret) {
		opened(fds[0]);
		opened(fds[1]);
	}
	return ret;
}

EXPORT int memfd_create(const char *name, unsigned int flags)
{
	return opened(NEXT(memfd_create)(name, flags));
}

EXPORT int eventfd(unsigned int value, int flags)
{
	return opened(NEXT(eventfd)(value, flags));
}

EXPORT int epoll_create1(int flags)
{
	return opened(NEXT(epoll_create1)(flags));
}

EXPORT int timerfd_create(int clock, int flags)
{
	return opened(NEXT(timerfd_create)(clock, flags));
}

EXPORT int dup(int fd)
{
	return opened(NEXT(dup)(fd));
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return opened(NEXT(open)(path, flags, mode));
}

/* Descriptors may come with a message. */
EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t ret = NEXT(recvmsg)(fd, message, flags);
	struct cmsghdr *c;

	if (ret < 0)
		return ret;
	for (c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fds[64];

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || count > 64)
			continue;
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		for (size_t i = 0; i < count; i++)
			opened(fds[i]);
	}
	return ret;
}
