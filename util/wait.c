/*
 * util/wait.c - see wait.h. Old C libraries lack these functions: see old_libc.h.
 *
 * ThreadSanitizer knows only those that wait on the clock that can be set, so its builds use those.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

#include "util/wait.h"

#ifdef __SANITIZE_THREAD__
/* The same point in time on the other clock. */
static struct timespec real_time_of(const struct timespec *until)
{
	struct timespec now, real;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_REALTIME, &real);
	ns = (int64_t)(until->tv_sec - now.tv_sec + real.tv_sec) * 1000000000 + until->tv_nsec -
	     now.tv_nsec + real.tv_nsec;
	return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

int ck_mutex_lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
	struct timespec real = real_time_of(until);

	return pthread_mutex_timedlock(mutex, &real);
}

int ck_sem_wait_until(sem_t *sem, const struct timespec *until)
{
	struct timespec real = real_time_of(until);

	return sem_timedwait(sem, &real);
}
#else
int ck_mutex_lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until);
}

int ck_sem_wait_until(sem_t *sem, const struct timespec *until)
{
	return sem_clockwait(sem, CLOCK_MONOTONIC, until);
}
#endif
