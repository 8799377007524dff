/*
 * client/cupti/state.c - CUPTI's part of a session; see client/cupti/state.h.
 */
#include <time.h>

#include "client/cupti/cupti.h"
#include "client/link/hooks.h"

static void init_cupti(void *part)
{
	struct ckc_cupti *s = part;

	s->flush_lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CUPTI_FLUSH);
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CUPTI);
}
CK_CLIENT_PART(cupti, struct ckc_cupti, init_cupti);

CUptiResult ckc_cupti_result(CUptiResult result)
{
	struct ckc_cupti_self *self = result ? ckc_cupti_self() : NULL;

	if (self)
		self->last_result = result;
	return result;
}

CUptiResult ckc_cupti_last(void)
{
	struct ckc_cupti_self *self = ckc_cupti_self();
	CUptiResult last = self ? self->last_result : CUPTI_SUCCESS;

	if (self)
		self->last_result = CUPTI_SUCCESS;
	return last;
}

uint64_t ckc_cupti_clock(void)
{
	uint64_t (*clock)(void) =
		atomic_load_explicit(&ckc_client_current()->cupti->clock, memory_order_relaxed);
	struct timespec now;

	if (clock)
		return clock();
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
