/*
 * util/process/criu.c - see criu.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/process/criu.h"

int ck_criu_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The output of `@program --version`. Its exit status, or -errno. */
static int read_version(const char *program, char *text, size_t size)
{
	int ends[2];
	ssize_t n;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(ends[1], 1) < 0 || dup2(null, 2) < 0)
			_exit(126);
		execlp(program, program, "--version", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	n = child < 0 ? 0 : read(ends[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	if (child < 0)
		return -EAGAIN;
	return ck_criu_wait(child);
}

int ck_criu_check(const char *program, char why[CK_CRIU_WHY])
{
	unsigned int major = 0, minor = 0;
	char text[128];
	int status = read_version(program, text, sizeof(text));

	if (status < 0) {
		snprintf(why, CK_CRIU_WHY, "cannot run %s: %s", program, strerror(-status));
		return status;
	}
	if (status == 127) {
		snprintf(why, CK_CRIU_WHY, "%s was not found", program);
		return -ENOENT;
	}
	if (status == 0)
		sscanf(text, "Version: %u.%u", &major, &minor);
	if (major * 1000 + minor >= CK_CRIU_MAJOR * 1000 + CK_CRIU_MINOR)
		return 0;
	snprintf(why, CK_CRIU_WHY, "%s is release %u.%u", program, major, minor);
	return -ENOTSUP;
}

/* An error that CRIU goes on after, or that only repeats that it failed. */
static bool is_beside(const char *line)
{
	return strstr(line, "RLIMIT_NOFILE") || strstr(line, "FAILED.");
}

bool ck_criu_ids_used(const char *error)
{
	/* EEXIST of clone3(2), for a thread and for a process */
	return strstr(error, "create a thread: -17") ||
	       (strstr(error, "Can't fork for ") && strstr(error, "File exists"));
}

bool ck_criu_error(const char *path, char *text, size_t size)
{
	char line[1024], *at;
	FILE *f = fopen(path, "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		at = strstr(line, "Error (");
		if (!at || is_beside(at))
			continue;
		line[strcspn(line, "\n")] = '\0';
		at = strstr(at, "): ") ? strstr(at, "): ") + 3 : at;
		snprintf(text, size, "%s", at);
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}
