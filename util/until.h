/*
 * util/until.h - the clock, and deadlines of timed waits.
 */
#ifndef CK_UTIL_UNTIL_H
#define CK_UTIL_UNTIL_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define CK_NS_PER_MS 1000000ull

/* The time of CLOCK_MONOTONIC @ns nanoseconds from now, for the waits of util/wait.h. */
static inline struct timespec ck_until(uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(ns / (1000 * CK_NS_PER_MS));
	t.tv_nsec = (long)(ns % (1000 * CK_NS_PER_MS));
	return t;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t ck_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Milliseconds of the same. */
static inline int64_t ck_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Microseconds of the same. */
static inline int64_t ck_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* @ms as poll(2) and epoll_wait(2) take it: negative is without end, and nothing is longer than 24
 * days. */
static inline int ck_poll_ms(int64_t ms)
{
	return ms < 0 ? -1 : ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Lower *@timeout, such a time, to @ms. Negative @ms: there is nothing to wait for. */
static inline void ck_poll_sooner(int *timeout, int64_t ms)
{
	if (ms >= 0 && (*timeout < 0 || ms < *timeout))
		*timeout = ck_poll_ms(ms);
}

#endif
