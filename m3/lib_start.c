/*
 * m3/lib_start.c - a broker for a program that finds none.
 *
 * Its socket is where every process of this user looks, whether or not it has XDG_RUNTIME_DIR. Of
 * two that are started at once the second finds the socket taken, and ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "m3/lib.h"
#include "util/log.h"

CK_LOG_DEFINE("m3");

#define NAME "m3-server"
#define IDLE "60"

extern char **environ;

/* Beside this library, links followed: so it is in the build and where it is installed. */
static const char *find_program(char path[PATH_MAX])
{
	Dl_info info;
	char *slash;

	if (dladdr((void *)(uintptr_t)find_program, &info) && info.dli_fname &&
	    realpath(info.dli_fname, path)) {
		slash = strrchr(path, '/');
		if ((size_t)(slash + 1 - path) + sizeof(NAME) <= PATH_MAX) {
			strcpy(slash + 1, NAME);
			if (access(path, X_OK) == 0)
				return path;
		}
	}
	return NAME;
}

/* The last of the usual places is in a folder that every process has. */
static const char *find_socket(char *buffer, size_t size)
{
	const char *path = NULL, *next;

	for (unsigned int i = 0; (next = ck_m3_path(i, buffer, size)) != NULL; i++)
		path = next;
	return path;
}

static int spawn_broker(pid_t *pid, const char *program, const char *socket)
{
	const char *const args[] = {NAME, "--detach", "--idle", IDLE, "--socket", socket, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int ret;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	ret = posix_spawnp(pid, program, &actions, &attributes, (char **)args, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -ret;
}

/* A program that ignores SIGCHLD, or waits for all its children, leaves no status: then 0. */
static int wait_end(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 0;
	}
	return status;
}

int ck_m3_start_broker(void)
{
	char program[PATH_MAX], place[sizeof(((struct m3_client *)0)->path)];
	const char *path = find_program(program), *socket = find_socket(place, sizeof(place));
	pid_t pid;
	int ret = spawn_broker(&pid, path, socket);

	if (ret < 0) {
		ck_err("M3: no broker runs, and %s cannot be started: %s", path, strerror(-ret));
		return ret;
	}
	ret = wait_end(pid);
	if (ret == 0)
		return 0;
	ck_err("M3: no broker runs, and %s for %s failed (%s %d)", path, socket,
	       WIFEXITED(ret) ? "exit status" : "signal",
	       WIFEXITED(ret) ? WEXITSTATUS(ret) : WTERMSIG(ret));
	return -EIO;
}
