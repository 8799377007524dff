/*
 * server/processes/signals.c - see signals.h.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>

#include "server/processes/child.h"
#include "util/util.h"

void cks_signals_ignore(void)
{
	static const int meaningless[] = {SIGUSR1, SIGQUIT, SIGALRM,   SIGVTALRM, SIGPROF,
					  SIGIO,   SIGPWR,  SIGSTKFLT, SIGXCPU,	  SIGXFSZ};

	for (size_t i = 0; i < CK_ARRAY_SIZE(meaningless); i++)
		signal(meaningless[i], SIG_IGN);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		signal(i, SIG_IGN);
}
