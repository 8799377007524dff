/*
 * tests/e2e/pauses.c - a library to preload: it pauses threads at locks and sockets, as a busy
 * machine does. Orders of events that come once in hundreds of runs come in most then.
 *
 *     PAUSES=RATE,US LD_PRELOAD=.../pauses.so COMMAND...
 *
 * One of RATE calls pauses for up to US microseconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static unsigned int rate, most;

/* Before the program begins, but other libraries may have called this one. */
__attribute__((constructor)) static void begin(void)
{
	const char *words = getenv("PAUSES");

	if (!words || sscanf(words, "%u,%u", &rate, &most) != 2 || most > 999999)
		rate = most = 0;
}

/* xorshift; each thread has numbers of its own, in each run others. */
static uint32_t draw(void)
{
	static __thread uint32_t x;
	struct timespec t;

	if (x == 0) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		x = ((uint32_t)t.tv_nsec ^ (uint32_t)syscall(SYS_gettid) * 2654435761u) | 1;
	}
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x;
}

/* A system call, so that no function of the C library is a cancellation point that was none. */
static void pause_sometimes(void)
{
	struct timespec t = {.tv_sec = 0};
	uint32_t x;

	if (rate == 0 || most == 0)
		return;
	x = draw();
	if (x % rate != 0)
		return;
	t.tv_nsec = (long)((x >> 8) % most) * 1000;
	syscall(SYS_nanosleep, &t, NULL);
}

/* The next library's function of this name, with pauses before and after it. */
#define PAUSING(type, name, parameters, arguments)                                                 \
	type name parameters                                                                       \
	{                                                                                          \
		static type(*next) parameters;                                                     \
		type result;                                                                       \
                                                                                                   \
		if (!next)                                                                         \
			*(void **)&next = dlsym(RTLD_NEXT, #name);                                 \
		pause_sometimes();                                                                 \
		result = next arguments;                                                           \
		pause_sometimes();                                                                 \
		return result;                                                                     \
	}

PAUSING(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
PAUSING(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
PAUSING(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
PAUSING(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
PAUSING(int, pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))
PAUSING(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
PAUSING(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
PAUSING(ssize_t, send, (int fd, const void *b, size_t n, int flags), (fd, b, n, flags))
PAUSING(ssize_t, recv, (int fd, void *b, size_t n, int flags), (fd, b, n, flags))
PAUSING(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
PAUSING(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
PAUSING(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
