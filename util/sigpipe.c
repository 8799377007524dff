/*
 * util/sigpipe.c - see sigpipe.h.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "util/sigpipe.h"

static sigset_t only_sigpipe(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	return set;
}

void ck_sigpipe_hold(struct ck_sigpipe *s)
{
	const sigset_t set = only_sigpipe();
	sigset_t pending;

	sigpending(&pending);
	s->pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &set, &s->was);
}

void ck_sigpipe_release(const struct ck_sigpipe *s, bool broken)
{
	const sigset_t set = only_sigpipe();

	if (broken && !s->pending)
		while (sigtimedwait(&set, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &s->was, NULL);
}
