/*
 * util/sigpipe.h - writes that must not end the program, where the system call has no flag for that.
 */
#ifndef CK_UTIL_SIGPIPE_H
#define CK_UTIL_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct ck_sigpipe {
	sigset_t was;
	bool pending;
};

/* Block SIGPIPE in this thread. */
void ck_sigpipe_hold(struct ck_sigpipe *s);

/* Unblock it as before. @broken: a write has failed with EPIPE: the signal that came with it is taken away, unless one was
 * there before. */
void ck_sigpipe_release(const struct ck_sigpipe *s, bool broken);

#endif
