/*
 * server/life/upgrade.c - see upgrade.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/life/upgrade.h"
#include "server/options/options.h"
#include "server/processes/child.h"
#include "server/processes/state.h"
#include "server/session/driver.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_CHECK_MS 60000 /* waking GPUs takes the driver seconds */
#define CK_NEW_ARGUMENTS 2

/* The path by which the program was executed, which may go through links that an upgrade changes;
 * only an absolute one that still leads to this program is of use. */
static bool executed_as(char program[PATH_MAX])
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	struct stat this, there;

	if (!path || *path != '/' || strlen(path) >= PATH_MAX || strncmp(path, "/proc/", 6) == 0 ||
	    strncmp(path, "/dev/", 5) == 0 || stat("/proc/self/exe", &this) < 0 ||
	    stat(path, &there) < 0 || this.st_ino != there.st_ino || this.st_dev != there.st_dev)
		return false;
	strcpy(program, path);
	return true;
}

void cks_upgrade_init(struct cks_upgrade *u, char **argv)
{
	ssize_t n;

	*u = (struct cks_upgrade){.argv = argv};
	if (executed_as(u->program))
		return;
	n = readlink("/proc/self/exe", u->program, sizeof(u->program) - 1);
	u->program[n > 0 ? n : 0] = '\0';
}

/* Execute the program with @argument, the number of @fd, and the arguments of this process.
 * Returns -errno. */
static int execute_program(const struct cks_upgrade *u, const char *argument, int fd)
{
	size_t count = 1;
	char number[16], **argv;
	int ret;

	while (u->argv[count])
		count++;
	argv = calloc(count + CK_NEW_ARGUMENTS + 1, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	snprintf(number, sizeof(number), "%d", fd);
	argv[0] = u->argv[0];
	argv[1] = (char *)(uintptr_t)argument;
	argv[2] = number;
	memcpy(argv + 1 + CK_NEW_ARGUMENTS, u->argv + 1, (count - 1) * sizeof(*argv));
	ret = ck_fd_set_cloexec(fd, false);
	if (ret == 0) {
		execv(u->program, argv);
		ret = -errno;
		ck_fd_set_cloexec(fd, true);
	}
	free(argv);
	return ret;
}

void cks_upgrade_refuse(struct cks_upgrade *u, const char *format, ...)
{
	size_t n = (size_t)snprintf(u->refusal, sizeof(u->refusal), "%.128s ", u->program);
	va_list args;

	va_start(args, format);
	vsnprintf(u->refusal + n, sizeof(u->refusal) - n, format, args);
	va_end(args);
	u->due = false;
	ck_err("upgrade: refused: %s", u->refusal);
}

void cks_upgrade_check(struct cks_upgrade *u, const struct cks_state *state)
{
	int fd = cks_state_write(state), ret = fd;

	if (fd >= 0) {
		u->check = fork();
		ret = u->check < 0 ? -errno : 0;
	}
	if (ret == 0 && u->check == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cks_child_signals();
		execute_program(u, CK_CHECK_ARGUMENT, fd);
		_exit(127);
	}
	if (fd >= 0)
		close(fd);
	if (ret < 0) {
		u->check = 0;
		cks_upgrade_refuse(u, "cannot be checked: %s", strerror(-ret));
		return;
	}
	u->check_by = ck_now_ms() + CK_CHECK_MS;
	ck_info("upgrade: checking %s", u->program);
}

int cks_upgrade_check_main(const struct cks_options *options, int fd)
{
	const char *driver;
	struct cks_state state;
	char why[256];
	int ret = cks_state_read(fd, &state);

	if (ret < 0) {
		ck_err("upgrade: this release cannot continue from the server's state: %s",
		       strerror(-ret));
		return 1;
	}
	driver = cks_state_driver(&state, options->driver);
	if (cks_driver_probe(driver, why, sizeof(why)))
		_exit(0); /* without the driver's exit handlers */
	ck_err("upgrade: driver %s: %s", driver, why);
	return 1;
}

bool cks_upgrade_ended(struct cks_upgrade *u, pid_t pid, int status)
{
	if (u->check == 0 || pid != u->check)
		return false;
	u->check = 0;
	u->due = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (u->due)
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		cks_upgrade_refuse(u, "cannot be executed");
	else if (WIFEXITED(status))
		cks_upgrade_refuse(
			u, "cannot continue this server's work (exit status %d; see the log)",
			WEXITSTATUS(status));
	else
		cks_upgrade_refuse(u, "crashed or took too long (signal %d)", WTERMSIG(status));
	return true;
}

int64_t cks_upgrade_tend(struct cks_upgrade *u)
{
	int64_t left = u->check_by - ck_now_ms();

	if (u->check == 0)
		return -1;
	if (left > 0)
		return left;
	kill(u->check, SIGKILL);
	return 1000; /* it may hang in the kernel */
}

void cks_upgrade_exec(struct cks_upgrade *u, const struct cks_state *state)
{
	int fd = cks_state_write(state), ret = fd;

	u->due = false;
	if (fd >= 0)
		ret = cks_state_inherit(state, true);
	if (ret == 0) {
		ck_info("upgrade: executing %s", u->program);
		ck_log_report_dropped(true);
		ret = execute_program(u, CK_CONTINUE_ARGUMENT, fd);
	}
	cks_state_inherit(state, false);
	if (fd >= 0)
		close(fd);
	cks_upgrade_refuse(u, "cannot be executed: %s", strerror(-ret));
}
