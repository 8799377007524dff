/*
 * util/process/sighold.c - see sighold.h.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "util/process/sighold.h"

static sigset_t make_signal_set(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	return set;
}

void ck_sighold_begin(struct ck_sighold *s, int signal)
{
	const sigset_t set = make_signal_set(signal);
	sigset_t pending;

	s->signal = signal;
	sigpending(&pending);
	s->pending = sigismember(&pending, signal) == 1;
	pthread_sigmask(SIG_BLOCK, &set, &s->was);
}

void ck_sighold_end(const struct ck_sighold *s, bool raised)
{
	const sigset_t set = make_signal_set(s->signal);
	int before = errno;

	if (raised && !s->pending)
		while (sigtimedwait(&set, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &s->was, NULL);
	errno = before;
}
