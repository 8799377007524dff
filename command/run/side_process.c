/*
 * command/run/side_process.c - see side_process.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/run/side_process.h"
#include "util/process/machine.h"

#define DESCRIPTORS 1024
#define LOOK_US 100000 /* where the kernel cannot report the end of a process */

/* No process waits for this one, and no pipe stays open because of it. */
static void leave_all(const struct ckx_side_process *aside)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	prctl(PR_SET_NAME, aside->name);
	for (int fd = 0; fd < (aside->speaks ? 2 : 3) && null >= 0; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < DESCRIPTORS; fd++) {
		if (fd != aside->watch && fd != aside->pipe)
			close(fd);
	}
	if (chdir("/") < 0)
		return; /* it keeps a file system in use */
}

int ckx_side_process_start(struct ckx_side_process *aside, void *argument)
{
	int ret = 0, status;
	pid_t child;

	aside->program = getpid();
	aside->watch = ck_machine_watch(aside->program);
	child = fork();
	if (child < 0)
		ret = -errno;
	if (child == 0) {
		child = fork();
		if (child != 0)
			_exit(child < 0);
		leave_all(aside);
		aside->work(aside, argument);
		_exit(0);
	}
	if (child > 0 && waitpid(child, &status, 0) == child && status != 0)
		ret = -EAGAIN; /* it could not fork either */
	if (aside->watch >= 0)
		close(aside->watch);
	return ret;
}

void ckx_side_process_wait(const struct ckx_side_process *aside)
{
	struct pollfd p = {.fd = aside->watch, .events = POLLIN};

	if (aside->watch < 0) {
		while (!ck_machine_ended(aside->program))
			usleep(LOOK_US);
		return;
	}
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}
