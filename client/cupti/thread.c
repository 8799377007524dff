/*
 * client/cupti/thread.c - ids, calls and ranges that a thread has begun.
 *
 * It is outside of the thread's own memory, of which a library that is loaded late gets little
 * (tools/check-tls).
 */
#include <stdlib.h>

#include "client/cupti/cupti.h"
#include "client/link/hooks.h"

static __thread struct ckc_cupti_self *self __attribute__((tls_model("initial-exec")));

struct ckc_cupti_self *ckc_cupti_self(void)
{
	if (unlikely(!self) && ckc_thread()) /* whose end is reported */
		self = calloc(1, sizeof(*self));
	return self;
}

static void thread_ended(struct ckc_thread *thread)
{
	(void)thread;
	if (!self)
		return;
	ckc_cupti_ranges_free(self->range);
	free(self);
	self = NULL;
}
CK_ON_THREAD_END(thread_ended);
