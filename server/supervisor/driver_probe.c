/*
 * server/supervisor/driver_probe.c - check whether the requested driver works, and choose the
 * driver for --driver auto. This runs in a separate process, because the supervisor must never load
 * a driver.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/processes/child.h"
#include "server/session/driver.h"
#include "server/supervisor/host.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_PROBE_FD 3
#define CK_PROBE_STEP_MS 100
#define CK_PROBE_END_STEP_MS 1
#define CK_PROBE_END_MS 1000
#define CK_PROBE_MS 60000 /* waking GPUs takes the driver seconds */

/* Sent in one write, so it arrives as a whole or not at all. */
struct answer {
	enum { CK_NONE, CK_CUDA, CK_EMU, CK_AS_ASKED } driver;
	char why[508];
	char gpus[CK_DRIVER_GPUS];
};
_Static_assert(sizeof(struct answer) <= PIPE_BUF, "it arrives as a whole");

int cks_driver_probe_main(const char *which)
{
	const char *driver;
	struct answer a;

	memset(&a, 0, sizeof(a));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	driver = cks_driver_probe(which, a.why, sizeof(a.why));
	if (!driver)
		a.driver = CK_NONE;
	else if (strcmp(driver, "cuda") == 0)
		a.driver = CK_CUDA;
	else if (strcmp(driver, "emu") == 0)
		a.driver = CK_EMU;
	else
		a.driver = CK_AS_ASKED;
	if (driver)
		cks_driver_gpus(a.gpus);
	_exit(ck_fd_write_full(CK_PROBE_FD, &a, sizeof(a)) < 0);
}

static pid_t start_probe(const char *which, int fd)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	cks_child_signals();
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	if (fd >= 0 && dup2(fd, CK_PROBE_FD) >= 0)
		execl("/proc/self/exe", "cricket-rpc-server", "--probe", which, NULL);
	_exit(127);
}

/* A signal asks the supervisor to stop; its loop, which runs next, handles it. */
static bool stop_wanted(void)
{
	sigset_t set;

	return sigpending(&set) == 0 &&
	       (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}

/* Read the whole answer within the time limit; false: failed. */
static bool wait_answer(int fd, struct answer *a)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = 0;

	for (int ms = 0; ms < CK_PROBE_MS && n == 0 && !stop_wanted(); ms += CK_PROBE_STEP_MS)
		n = poll(&p, 1, CK_PROBE_STEP_MS);
	return n == 1 && ck_fd_read_full(fd, a, sizeof(*a)) == 0;
}

static const char *choose_driver(const char *which, const struct answer *a, char why[CK_DRIVER_WHY])
{
	static const char *const names[] = {[CK_CUDA] = "cuda", [CK_EMU] = "emu"};

	snprintf(why, CK_DRIVER_WHY, "%.*s%s", (int)sizeof(a->why) - 1, a->why,
		 a->driver == CK_NONE && strcmp(which, "cuda") == 0
			 ? "; without an NVIDIA driver use --driver emu"
			 : "");
	if (a->driver == CK_NONE)
		return NULL;
	return a->driver == CK_CUDA || a->driver == CK_EMU ? names[a->driver] : which;
}

/* Kill the probe. If it hangs in the kernel, as with a GPU that has fallen off the bus, the
 * supervisor reaps it later, like any child. */
static void end_probe(pid_t pid)
{
	const struct timespec step = {.tv_nsec = CK_PROBE_END_STEP_MS * 1000000L};

	kill(pid, SIGKILL);
	for (int ms = 0; ms < CK_PROBE_END_MS && waitpid(pid, NULL, WNOHANG) == 0;
	     ms += CK_PROBE_END_STEP_MS)
		nanosleep(&step, NULL);
}

/* False: there is no answer. */
static bool ask_probe(const char *which, struct answer *a)
{
	int ends[2];
	bool answered;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	pid = start_probe(which, ends[1]);
	close(ends[1]);
	answered = pid > 0 && wait_answer(ends[0], a);
	close(ends[0]);
	if (pid > 0)
		end_probe(pid);
	return answered;
}

const char *cks_driver_choose(const char *which, char gpus[CK_DRIVER_GPUS])
{
	const char *driver = NULL;
	char why[CK_DRIVER_WHY] = "trying it crashed or took too long";
	struct answer a;

	gpus[0] = '\0';
	if (ask_probe(which, &a)) {
		driver = choose_driver(which, &a, why);
		snprintf(gpus, CK_DRIVER_GPUS, "%.*s", (int)sizeof(a.gpus) - 1, a.gpus);
	} else if (stop_wanted()) {
		return which;
	} else if (strcmp(which, "auto") == 0) {
		ck_warn("driver emu: trying libcuda.so.1 crashed or took too long");
		return "emu";
	}
	if (driver)
		ck_info("driver %s: %s", driver, why);
	else
		ck_err("driver %s: %s", which, why);
	return driver;
}

bool cks_driver_check(const char *which, char why[CK_DRIVER_WHY])
{
	struct answer a;

	snprintf(why, CK_DRIVER_WHY, "trying it crashed or took too long");
	return strcmp(which, "auto") == 0 ||
	       (ask_probe(which, &a) && choose_driver(which, &a, why) != NULL);
}
