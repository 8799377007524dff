/*
 * slurm/report.c - see report.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slurm/report.h"

#define ENTRY 4096 /* of the user's database */
#define OWN 4	   /* variables of each report */

struct command {
	const char *path;
	uid_t uid;
	gid_t gid;
	char home[CK_SLURM_PATH], address[CK_SLURM_ADDRESS + 32], token[CK_SLURM_TOKEN + 32];
	char **environment; /* points into this, and to the job's variables */
};

static int find_user(struct command *c, struct ck_slurm_why *why)
{
	char buffer[ENTRY];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(c->uid, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return ck_slurm_fail(why, -ENOENT, "there is no user %u", (unsigned int)c->uid);
	c->gid = found->pw_gid;
	snprintf(c->home, sizeof(c->home), "HOME=%s", found->pw_dir);
	return 0;
}

static int make_environment(struct command *c, char *const variables[])
{
	static char timeout[] = "CRICKET_TIMEOUT=3";
	size_t count = 0;

	while (variables[count])
		count++;
	c->environment = calloc(OWN + count + 1, sizeof(*c->environment));
	if (!c->environment)
		return -ENOMEM;
	c->environment[0] = c->home;
	c->environment[1] = c->address;
	c->environment[2] = c->token;
	c->environment[3] = timeout;
	memcpy(c->environment + OWN, variables, count * sizeof(*c->environment));
	return 0;
}

static bool become_user(const struct command *c)
{
	return geteuid() != 0 || c->uid == 0 ||
	       (setgroups(1, &c->gid) == 0 && setgid(c->gid) == 0 && setuid(c->uid) == 0);
}

/* In a child of a process with threads: async-signal-safe calls alone. */
static _Noreturn void exec_reap(const struct command *c)
{
	static char name[] = "cricket", verb[] = "reap";
	char *const argv[] = {name, verb, NULL};
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null < 0 || !become_user(c) || chdir("/") < 0)
		_exit(126);
	alarm(CK_SLURM_REPORT_S);
	execve(c->path, argv, c->environment);
	_exit(127);
}

static int run_reap(const struct command *c, struct ck_slurm_why *why)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		exec_reap(c);
	if (pid < 0)
		return ck_slurm_fail(why, -errno, "%s: %s", c->path, strerror(errno));
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 0; /* the process waits for all of its children elsewhere */
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return ck_slurm_fail(why, -EIO, "%s reap took longer than %d s", c->path,
				     CK_SLURM_REPORT_S);
	return ck_slurm_fail(why, -EIO, "%s reap has failed", c->path);
}

int ck_slurm_report(const struct ck_slurm_settings *settings, const struct ck_slurm_record *record,
		    uid_t uid, char *const variables[], struct ck_slurm_why *why)
{
	struct command c = {.path = settings->command, .uid = uid};
	int ret = find_user(&c, why);

	if (ret < 0)
		return ret;
	snprintf(c.address, sizeof(c.address), "REMOTE_GPU_ADDRESS=%s", record->server);
	snprintf(c.token, sizeof(c.token), "CRICKET_TOKEN=%s", record->token);
	ret = make_environment(&c, variables);
	if (ret == 0)
		ret = run_reap(&c, why);
	else
		ck_slurm_fail(why, ret, "%s", strerror(-ret));
	free(c.environment);
	explicit_bzero(c.token, sizeof(c.token));
	return ret;
}
