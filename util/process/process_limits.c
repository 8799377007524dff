/*
 * util/process/process_limits.c - see process_limits.h.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "util/process/process_limits.h"
#include "util/util.h"

static const struct {
	int error;
	int resource;
	const char *name, *command;
	rlim_t unit; /* of the command */
} limits[] = {
	{-EMFILE, RLIMIT_NOFILE, "open files", "ulimit -n", 1},
	{-EAGAIN, RLIMIT_NPROC, "processes and threads of the user", "ulimit -u", 1},
	{-EFBIG, RLIMIT_FSIZE, "the size of files in KiB", "ulimit -f", 1024},
};

const char *ck_limit_text(int error, char text[CK_LIMIT_TEXT])
{
	struct rlimit limit;
	int n = snprintf(text, CK_LIMIT_TEXT, "%s", strerror(-error));

	if (n < 0 || n >= CK_LIMIT_TEXT)
		return text;
	if (error == -EPERM)
		snprintf(text + n, (size_t)(CK_LIMIT_TEXT - n),
			 " (a seccomp filter, for example of a container?)");
	for (size_t i = 0; i < CK_ARRAY_SIZE(limits); i++) {
		if (error != limits[i].error || getrlimit(limits[i].resource, &limit) < 0 ||
		    limit.rlim_cur == RLIM_INFINITY)
			continue;
		snprintf(text + n, (size_t)(CK_LIMIT_TEXT - n), " (limit of %s: %llu; %s)",
			 limits[i].name, (unsigned long long)(limit.rlim_cur / limits[i].unit),
			 limits[i].command);
	}
	return text;
}

static unsigned long count_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned long n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

unsigned long ck_limit_free_files(void)
{
	unsigned long open = count_open_files();
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= open)
		return 0;
	return limit.rlim_cur - open;
}
