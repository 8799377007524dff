/*
 * util/process/disk_cache.c - see disk_cache.h.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/process/disk_cache.h"

#define PREFIX "tmp."
#define AGE_MAX 3600 /* seconds; no entry takes an hour to write */

int ck_disk_cache_make(const char *path)
{
	char part[PATH_MAX];

	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	strcpy(part, path);
	for (char *c = part + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return -errno;
		*c = '/';
	}
	return mkdir(part, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

void ck_disk_cache_temporary(char name[CK_DISK_CACHE_TEMPORARY])
{
	static atomic_uint number;

	snprintf(name, CK_DISK_CACHE_TEMPORARY, PREFIX "%ld.%u", (long)getpid(),
		 atomic_fetch_add(&number, 1));
}

bool ck_disk_cache_is_temporary(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

bool ck_disk_cache_is_abandoned(const char *name, const struct stat *st)
{
	long pid = strtol(name + strlen(PREFIX), NULL, 10);

	if (time(NULL) - st->st_mtime > AGE_MAX)
		return true;
	return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

int ck_disk_cache_order(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? 1 : -1;
	if (a->tv_nsec != b->tv_nsec)
		return a->tv_nsec < b->tv_nsec ? 1 : -1;
	return 0;
}
