/*
 * util/until.h - until when a timed wait lasts.
 */
#ifndef CK_UTIL_UNTIL_H
#define CK_UTIL_UNTIL_H

#include <stdint.h>
#include <time.h>

#define CK_NS_PER_MS 1000000ull

/* The moment @ns nanoseconds from now on @clock: that of the condition variable, CLOCK_REALTIME unless it was told another. */
static inline struct timespec ck_until(clockid_t clock, uint64_t ns)
{
	struct timespec t;

	clock_gettime(clock, &t);
	ns += (uint64_t)t.tv_nsec;
	t.tv_sec += (time_t)(ns / (1000 * CK_NS_PER_MS));
	t.tv_nsec = (long)(ns % (1000 * CK_NS_PER_MS));
	return t;
}

#endif
