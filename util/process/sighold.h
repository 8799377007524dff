/*
 * util/process/sighold.h - calls that must not end the program by a signal, where the system call
 * has no flag for that.
 */
#ifndef CK_UTIL_PROCESS_SIGHOLD_H
#define CK_UTIL_PROCESS_SIGHOLD_H

#include <signal.h>
#include <stdbool.h>

struct ck_sighold {
	sigset_t was;
	int signal;
	bool pending;
};

/* Block @signal (SIGPIPE, SIGXFSZ) in this thread. */
void ck_sighold_begin(struct ck_sighold *s, int signal);

/* Unblock it as before. @raised: a call has failed with EPIPE or EFBIG: the signal that came with
 * it is taken away, unless one was there before. errno is kept. */
void ck_sighold_end(const struct ck_sighold *s, bool raised);

#endif
