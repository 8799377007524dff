/*
 * server/processes/process.c - processes that are no children, by their pidfd.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/processes/process.h"

void cks_process_kill(int process)
{
	syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
}

bool cks_process_wait(int process, int ms)
{
	struct pollfd p = {.fd = process, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}
