/*
 * server/processes/child.c - see child.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/processes/child.h"
#include "server/processes/messages.h"
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

void cks_child_signals(void)
{
	sigset_t none;

	cks_signals_ignore();
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Keep only descriptors 3 and 4 of the supervisor's. */
static void prepare_descriptors(int third, int fourth)
{
	/* move them away from their final numbers first */
	int high_third = fcntl(third, F_DUPFD_CLOEXEC, 10);
	int high_fourth = fourth < 0 ? -1 : fcntl(fourth, F_DUPFD_CLOEXEC, 10);

	if (high_third < 0 || dup2(high_third, CK_WORKER_CONNECTION) < 0 ||
	    (fourth >= 0 && dup2(high_fourth, CK_WORKER_CONTROL) < 0))
		_exit(126);
	cks_child_signals();
}

void cks_child_execute(char **arguments, int third, int fourth)
{
	prepare_descriptors(third, fourth);
	execv("/proc/self/exe", arguments);
	_exit(127);
}

/* The path of this program, for another one to execute. That of a file which has been replaced
 * leads to it as long as the supervisor lives. */
static void find_program(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	struct stat named, own;

	path[n > 0 ? n : 0] = '\0';
	if (stat(path, &named) < 0 || stat("/proc/self/exe", &own) < 0 ||
	    named.st_ino != own.st_ino || named.st_dev != own.st_dev)
		snprintf(path, size, "/proc/%d/exe", (int)getppid());
}

void cks_child_execute_through(char *const *prefix, char **arguments, int third, int fourth)
{
	size_t before = 0, count = 0;
	char path[PATH_MAX], **all;

	while (prefix[before])
		before++;
	while (arguments[count])
		count++;
	all = calloc(before + count + 1, sizeof(*all));
	if (!all)
		_exit(126);
	memcpy(all, prefix, before * sizeof(*all));
	memcpy(all + before, arguments, count * sizeof(*all));
	find_program(path, sizeof(path));
	all[before] = path; /* in the place of arguments[0] */
	prepare_descriptors(third, fourth);
	execv(all[0], all);
	_exit(127);
}
