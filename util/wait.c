/*
 * util/wait.c - see wait.h. Old C libraries lack these functions: see old_libc.h.
 */
#define _GNU_SOURCE
#include "util/wait.h"

int ck_mutex_lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until);
}

int ck_sem_wait_until(sem_t *sem, const struct timespec *until)
{
	return sem_clockwait(sem, CLOCK_MONOTONIC, until);
}
