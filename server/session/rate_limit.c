/*
 * server/session/rate_limit.c - see rate_limit.h.
 */
#include <time.h>

#include "server/session/rate_limit.h"
#include "util/until.h"

#define CK_AT_ONCE_US 1000000 /* so many bytes may come without a wait */

void cks_rate_limit_count(struct cks_rate_limit *pace, enum cks_way way, size_t size)
{
	int64_t now = ck_now_us(), from = atomic_load(&pace->until[way]), until;
	int64_t us = (int64_t)((double)size / (double)pace->rate * 1e6);

	do
		until = ck_max(from, now) + us;
	while (!atomic_compare_exchange_weak(&pace->until[way], &from, until));
}

void cks_rate_limit_sleep(const struct cks_rate_limit *pace, enum cks_way way)
{
	int64_t us;
	struct timespec rest;

	while ((us = atomic_load(&pace->until[way]) - CK_AT_ONCE_US - ck_now_us()) > 0) {
		rest = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
		nanosleep(&rest, NULL);
	}
}
