/*
 * loader/halves/descriptors.c - the descriptors that a half's libraries have open, so that they are
 * closed when the half is dropped.
 *
 * A half's program is searched before libc, so the libraries' calls come here first. Descriptors
 * that libc opens inside itself (name look-ups), it closes itself; those of a FILE or a DIR are
 * handled below.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loader/halves/half.h"

#define EXPORT __attribute__((visibility("default")))
#define WORD(fd) ck_half_descriptors[(fd) / 64]
#define BIT(fd) (1ull << (fd) % 64)

uint64_t ck_half_descriptors[CK_HALF_DESCRIPTORS / 64];

#define NEXT(name)                                                                                 \
	__extension__({                                                                            \
		static __typeof__(&name) next_;                                                    \
		if (!next_)                                                                        \
			*(void **)&next_ = dlsym(RTLD_NEXT, #name);                                \
		next_;                                                                             \
	})

static int mark_opened(int fd)
{
	if (fd >= 0 && fd < CK_HALF_DESCRIPTORS)
		__atomic_or_fetch(&WORD(fd), BIT(fd), __ATOMIC_RELAXED);
	return fd;
}

static void mark_closed(int fd)
{
	if (fd >= 0 && fd < CK_HALF_DESCRIPTORS)
		__atomic_and_fetch(&WORD(fd), ~BIT(fd), __ATOMIC_RELAXED);
}

EXPORT int close(int fd)
{
	mark_closed(fd);
	return NEXT(close)(fd);
}

/* FILE and DIR too: libc closes the descriptor behind one without coming here. */
EXPORT int fclose(FILE *file)
{
	mark_closed(fileno(file));
	return NEXT(fclose)(file);
}

EXPORT int closedir(DIR *folder)
{
	mark_closed(dirfd(folder));
	return NEXT(closedir)(folder);
}

/* Each has a second name for large files. */
#define FOPEN(name)                                                                                \
	EXPORT FILE *name(const char *path, const char *mode)                                      \
	{                                                                                          \
		FILE *file = NEXT(name)(path, mode);                                               \
		if (file)                                                                          \
			mark_opened(fileno(file));                                                 \
		return file;                                                                       \
	}
FOPEN(fopen)
FOPEN(fopen64)

EXPORT int socket(int domain, int type, int protocol)
{
	return mark_opened(NEXT(socket)(domain, type, protocol));
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int ret = NEXT(socketpair)(domain, type, protocol, fds);

	if (!ret) {
		mark_opened(fds[0]);
		mark_opened(fds[1]);
	}
	return ret;
}

EXPORT int pipe2(int fds[2], int flags)
{
	int ret = NEXT(pipe2)(fds, flags);

	if (!ret) {
		mark_opened(fds[0]);
		mark_opened(fds[1]);
	}
	return ret;
}

EXPORT int pipe(int fds[2])
{
	return pipe2(fds, 0);
}

EXPORT int memfd_create(const char *name, unsigned int flags)
{
	return mark_opened(NEXT(memfd_create)(name, flags));
}

EXPORT int eventfd(unsigned int value, int flags)
{
	return mark_opened(NEXT(eventfd)(value, flags));
}

EXPORT int epoll_create1(int flags)
{
	return mark_opened(NEXT(epoll_create1)(flags));
}

EXPORT int timerfd_create(int clock, int flags)
{
	return mark_opened(NEXT(timerfd_create)(clock, flags));
}

EXPORT int dup(int fd)
{
	return mark_opened(NEXT(dup)(fd));
}

/* A descriptor of the program, its stdout for example, stays the program's. */
static bool is_theirs(int as)
{
	bool noted = as >= 0 && as < CK_HALF_DESCRIPTORS &&
		     __atomic_load_n(&WORD(as), __ATOMIC_RELAXED) & BIT(as);

	return !noted && NEXT(fcntl)(as, F_GETFD) >= 0;
}

EXPORT int dup2(int fd, int as)
{
	bool theirs = is_theirs(as);
	int ret = NEXT(dup2)(fd, as);

	return theirs ? ret : mark_opened(ret);
}

EXPORT int dup3(int fd, int as, int flags)
{
	bool theirs = is_theirs(as);
	int ret = NEXT(dup3)(fd, as, flags);

	return theirs ? ret : mark_opened(ret);
}

EXPORT int inotify_init1(int flags)
{
	return mark_opened(NEXT(inotify_init1)(flags));
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	return mark_opened(NEXT(accept4)(fd, address, size, flags));
}

EXPORT int accept(int fd, struct sockaddr *address, socklen_t *size)
{
	return accept4(fd, address, size, 0);
}

/*
 * The argument behind @last: a mode, a command's argument, or unused. It is no longer than a long.
 */
#define REST(last)                                                                                 \
	__extension__({                                                                            \
		va_list args_;                                                                     \
		long rest_;                                                                        \
		va_start(args_, last);                                                             \
		rest_ = va_arg(args_, long);                                                       \
		va_end(args_);                                                                     \
		rest_;                                                                             \
	})

#define OPEN(name)                                                                                 \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		return mark_opened(NEXT(name)(path, flags, (int)REST(flags)));                     \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
	EXPORT int name(int folder, const char *path, int flags, ...)                              \
	{                                                                                          \
		return mark_opened(NEXT(name)(folder, path, flags, (int)REST(flags)));             \
	}
OPENAT(openat)
OPENAT(openat64)

#define FCNTL(name)                                                                                \
	EXPORT int name(int fd, int command, ...)                                                  \
	{                                                                                          \
		int ret = NEXT(name)(fd, command, REST(command));                                  \
		return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? mark_opened(ret) : ret;  \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

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
			mark_opened(fds[i]);
	}
	return ret;
}
