/*
 * server/processes/child.c - see child.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "server/processes/child.h"
#include "server/processes/messages.h"

void cks_child_signals(void)
{
	sigset_t none;

	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Keep only descriptors 3 and 4 of the supervisor's. */
void cks_child_execute(char **arguments, int third, int fourth)
{
	/* move them away from their final numbers first */
	int high_third = fcntl(third, F_DUPFD_CLOEXEC, 10);
	int high_fourth = fourth < 0 ? -1 : fcntl(fourth, F_DUPFD_CLOEXEC, 10);

	if (high_third < 0 || dup2(high_third, CK_WORKER_CONNECTION) < 0 ||
	    (fourth >= 0 && dup2(high_fourth, CK_WORKER_CONTROL) < 0))
		_exit(126);
	cks_child_signals();
	execv("/proc/self/exe", arguments);
	_exit(127);
}
