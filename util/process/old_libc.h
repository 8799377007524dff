/*
 * util/process/old_libc.h - functions that the C library of old systems lacks.
 *
 * Only the portable build (tools/portable.sh) includes it, ahead of every source file. A system
 * call that the kernel lacks too fails with ENOSYS, as the functions do. The headers may declare
 * the functions nevertheless, so ours have names of their own.
 */
#ifndef CK_UTIL_PROCESS_OLD_LIBC_H
#define CK_UTIL_PROCESS_OLD_LIBC_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 25)
static inline ssize_t ck_old_getrandom(void *buffer, size_t size, unsigned int flags)
{
	return syscall(SYS_getrandom, buffer, size, flags);
}
#define getrandom ck_old_getrandom

/* The barrier keeps the compiler from removing the writes. */
static inline void ck_old_explicit_bzero(void *p, size_t size)
{
	memset(p, 0, size);
	__asm__ volatile("" : : "r"(p) : "memory");
}
#define explicit_bzero ck_old_explicit_bzero
#endif

#if !__GLIBC_PREREQ(2, 26)
static inline void *ck_old_reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(count, size, &bytes))
		return realloc(p, bytes);
	errno = ENOMEM;
	return NULL;
}
#define reallocarray ck_old_reallocarray

/* 64-bit systems pass the whole offset in one register, and zero beside it. */
static inline ssize_t ck_old_pwritev2(int fd, const struct iovec *parts, int count, off_t at,
				      int flags)
{
	return syscall(SYS_pwritev2, fd, parts, count, at, 0L, flags);
}
#define pwritev2 ck_old_pwritev2
#endif

#if !__GLIBC_PREREQ(2, 27)
static inline int ck_old_memfd_create(const char *name, unsigned int flags)
{
	return syscall(SYS_memfd_create, name, flags);
}
#define memfd_create ck_old_memfd_create
#endif

#if !__GLIBC_PREREQ(2, 28)
static inline int ck_old_renameat2(int from, const char *old, int to, const char *name,
				   unsigned int flags)
{
	return syscall(SYS_renameat2, from, old, to, name, flags);
}
#define renameat2 ck_old_renameat2
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

#if !__GLIBC_PREREQ(2, 30)
static inline pid_t ck_old_gettid(void)
{
	return syscall(SYS_gettid);
}
#define gettid ck_old_gettid

/* These poll: the library waits for locks and semaphores on the clock that can be set only. */
static inline bool ck_old_late(clockid_t clock, const struct timespec *until)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct timespec now;

	clock_gettime(clock, &now);
	if (now.tv_sec > until->tv_sec ||
	    (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
		return true;
	nanosleep(&pause, NULL);
	return false;
}

static inline int ck_old_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
					 const struct timespec *until)
{
	int ret;

	while ((ret = pthread_mutex_trylock(mutex)) == EBUSY) {
		if (ck_old_late(clock, until))
			return ETIMEDOUT;
	}
	return ret;
}
#define pthread_mutex_clocklock ck_old_mutex_clocklock

static inline int ck_old_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	int ret;

	while ((ret = sem_trywait(sem)) < 0 && errno == EAGAIN) {
		if (!ck_old_late(clock, until))
			continue;
		errno = ETIMEDOUT;
		return -1;
	}
	return ret;
}
#define sem_clockwait ck_old_sem_clockwait
#endif

#if !__GLIBC_PREREQ(2, 34)
static inline int ck_old_close_range(unsigned int first, unsigned int last, int flags)
{
	return syscall(SYS_close_range, first, last, flags);
}
#define close_range ck_old_close_range
#endif

#endif
