/*
 * server/checkpoint/criu.c - see criu.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/checkpoint/criu.h"
#include "util/process/pid_namespace.h"
#include "util/process/criu.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_CRIU_ARGUMENTS 64
#define CK_CRIU_ARGUMENT 4096

/* The arguments of one run. */
struct command {
	pid_t space; /* run in the namespaces of this process; 0: in those of the caller */
	int pages;   /* a socket for memory; CK_CRIU_FILES: none */
	int held;    /* descriptor 0; 0: nothing */
	char text[CK_CRIU_ARGUMENTS][CK_CRIU_ARGUMENT];
	char *argv[CK_CRIU_ARGUMENTS + 1];
	size_t count;
	bool full;
};

static void add_argument(struct command *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add_argument(struct command *c, const char *format, ...)
{
	va_list args;
	int n;

	if (c->count == CK_CRIU_ARGUMENTS) {
		c->full = true;
		return;
	}
	va_start(args, format);
	n = vsnprintf(c->text[c->count], CK_CRIU_ARGUMENT, format, args);
	va_end(args);
	c->full |= n >= CK_CRIU_ARGUMENT;
	c->argv[c->count] = c->text[c->count];
	c->argv[++c->count] = NULL;
}

/* Have this child's child be CRIU, in another process's namespaces; end as it does. */
static void move_into(pid_t space)
{
	pid_t child;
	int status;

	if (ck_pid_namespace_join(space) < 0)
		_exit(126);
	child = fork();
	if (child == 0)
		return;
	if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		_exit(126);
	_exit(WEXITSTATUS(status));
}

/* The child: CRIU, with nothing of the server's but @inherited. */
static _Noreturn void become_criu(const struct command *c, const int *inherited)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (c->space)
		move_into(c->space);
	if (null < 0 || dup2(c->held ? c->held : null, 0) < 0 || dup2(null, 1) < 0 ||
	    dup2(null, 2) < 0)
		_exit(126);
	for (int i = 0; inherited && i < CK_EXTERNAL_FDS_ROLES; i++)
		ck_fd_set_cloexec(inherited[i], false);
	if (c->pages >= 0)
		ck_fd_set_cloexec(c->pages, false);
	execvp(c->argv[0], c->argv);
	_exit(127);
}

/* Run it and wait; the exit status, 128 and the signal, or -errno. */
static int run_criu(const struct command *c, const int *inherited)
{
	pid_t child;

	if (c->full)
		return -E2BIG;
	child = fork();
	if (child == 0)
		become_criu(c, inherited);
	if (child < 0)
		return -errno;
	return ck_criu_wait(child);
}

static int report_failure(const struct cks_criu *criu, const char *what, int status,
			  struct cks_why *why)
{
	const char *kept = criu->kept ? criu->kept : criu->log;
	char error[300];

	if (status < 0)
		return cks_why_set(why, -status, "%s: cannot run %s: %m", what, criu->program);
	if (status == 127)
		return cks_why_set(why, ENOENT, "%s: %s was not found (--criu)", what,
				   criu->program);
	if (!ck_criu_error(criu->log, error, sizeof(error)))
		error[0] = '\0';
	if (ck_criu_ids_used(error))
		return cks_why_set(why, EEXIST, "%s: process ids are in use (log: %s)", what, kept);
	if (error[0])
		return cks_why_set(why, EIO, "%s: CRIU: %s (log: %s)", what, error, kept);
	return cks_why_set(why, EIO, "%s: CRIU ended with status %d (log: %s)", what, status, kept);
}

int cks_criu_check(const char *program, struct cks_why *why)
{
	char text[CK_CRIU_WHY];
	int ret = ck_criu_check(program, text);

	if (ret == 0)
		return 0;
	return cks_why_set(why, -ret, "%s; checkpoints need CRIU %d.%d or newer (--criu)", text,
			   CK_CRIU_MAJOR, CK_CRIU_MINOR);
}

/* What dump and restore have in common. The driver library has moved the GPU's state already, so
 * CRIU's plugins must not: it looks for them among the images. Cgroups are those of the server. */
static void put_common(struct command *c, const struct cks_criu *criu, const char *action)
{
	add_argument(c, "%s", criu->program);
	add_argument(c, "%s", action);
	add_argument(c, "--images-dir=%s", criu->images);
	add_argument(c, "--log-file=%s", criu->log);
	add_argument(c, "-v3");
	add_argument(c, "--libdir=%s", criu->images);
	add_argument(c, "--manage-cgroups=ignore");
	add_argument(c, "--shell-job"); /* a worker belongs to its server's session and terminal */
	add_argument(c, "--ext-unix-sk");
	add_argument(c, "--file-locks");
	if (geteuid() != 0)
		add_argument(c, "--unprivileged");
}

/* A pipe needs no word: one that has lost its other end can be dumped. */
static void put_external(struct command *c, const char *id)
{
	unsigned long ino;

	if (sscanf(id, "socket:[%lu]", &ino) == 1)
		add_argument(c, "--external=unix[%lu]", ino);
	else if (strncmp(id, "pipe:", 5) != 0)
		add_argument(c, "--external=%s", id);
}

static void put_pages(struct command *c)
{
	add_argument(c, "--page-server");
	add_argument(c, "--ps-socket=%d", c->pages);
}

int cks_criu_dump(const struct cks_criu *criu, pid_t pid, enum cks_criu_after after, int pages,
		  struct cks_why *why)
{
	struct command c = {.space = ck_pid_namespace_is_other(pid) ? pid : 0,
			    .pages = pages,
			    .held = criu->held};
	pid_t id = ck_pid_namespace_inner(pid, pid);
	int status;

	if (id < 0)
		return cks_why_set(why, -id, "dump: worker %d: %m", (int)pid);
	put_common(&c, criu, "dump");
	add_argument(&c, "--tree=%d", (int)id);
	add_argument(&c, after == CK_CRIU_GOES_ON ? "--leave-running" : "--leave-stopped");
	if (pages >= 0)
		put_pages(&c);
	for (size_t i = 0; i < criu->outside->count; i++)
		put_external(&c, criu->outside->files[i].id);
	status = run_criu(&c, NULL);
	return status == 0 ? 0 : report_failure(criu, "dump", status, why);
}

int cks_criu_take_pages(const struct cks_criu *criu, int pages, struct cks_why *why)
{
	struct command c = {.pages = pages};
	int status;

	add_argument(&c, "%s", criu->program);
	add_argument(&c, "page-server");
	add_argument(&c, "--images-dir=%s", criu->images);
	add_argument(&c, "--log-file=%s", criu->log);
	add_argument(&c, "-v3");
	add_argument(&c, "--ps-socket=%d", pages);
	status = run_criu(&c, NULL);
	return status == 0 ? 0 : report_failure(criu, "receiving memory", status, why);
}

static int read_pid(const char *path, pid_t *pid, struct cks_why *why)
{
	FILE *f = fopen(path, "re");
	int number = 0, n = f ? fscanf(f, "%d", &number) : 0;

	if (f)
		fclose(f);
	if (n != 1 || number <= 0)
		return cks_why_set(why, EIO, "restore: CRIU has not reported the process (%s)",
				   path);
	*pid = number;
	return 0;
}

int cks_criu_restore(const struct cks_criu *criu, const int inherited[CK_EXTERNAL_FDS_ROLES],
		     pid_t *pid, struct cks_why *why)
{
	struct command c = {.pages = CK_CRIU_FILES};
	char pidfile[CK_CRIU_ARGUMENT];
	int status;

	snprintf(pidfile, sizeof(pidfile), "%s/pid", criu->images);
	unlink(pidfile); /* CRIU does not overwrite it */
	put_common(&c, criu, "restore");
	add_argument(&c, "--restore-detached");
	add_argument(&c, "--restore-sibling"); /* of CRIU: a child of this process */
	add_argument(&c, "--pidfile=%s", pidfile);
	for (size_t i = 0; i < criu->outside->count; i++) {
		const struct cks_external_fds_file *file = &criu->outside->files[i];

		add_argument(&c, "--inherit-fd=fd[%d]:%s", inherited[file->role], file->id);
	}
	status = run_criu(&c, inherited);
	return status == 0 ? read_pid(pidfile, pid, why)
			   : report_failure(criu, "restore", status, why);
}
