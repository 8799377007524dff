/*
 * util/until.h - the clock, and deadlines of timed waits.
 */
#ifndef CK_UTIL_UNTIL_H
#define CK_UTIL_UNTIL_H

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

#endif
