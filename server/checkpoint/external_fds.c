/*
 * server/checkpoint/external_fds.c - see external_fds.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/external_fds.h"

static const char *const role_names[CK_EXTERNAL_FDS_ROLES] = {
	[CK_EXTERNAL_FDS_CONTROL] = "control",
	[CK_EXTERNAL_FDS_LOG] = "log",
};

const char *cks_external_fds_role_name(enum cks_external_fds_role role)
{
	return role_names[role];
}

int cks_external_fds_role_parse(const char *name, enum cks_external_fds_role *role)
{
	for (int i = 0; i < CK_EXTERNAL_FDS_ROLES; i++) {
		if (strcmp(role_names[i], name) == 0) {
			*role = (enum cks_external_fds_role)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* The mount that descriptor @fd of @pid was opened on. */
static int mount_of(pid_t pid, int fd, unsigned int *mount)
{
	char path[64], line[128];
	int ret = -ENOENT;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid, fd);
	f = fopen(path, "re");
	while (f && ret < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "mnt_id: %u", mount) == 1)
			ret = 0;
	}
	if (f)
		fclose(f);
	return ret;
}

/* CRIU's name of the open file that is descriptor @fd of @pid. */
static int name_file(pid_t pid, int fd, char id[CK_EXTERNAL_FDS_ID])
{
	char path[64], target[CK_EXTERNAL_FDS_ID];
	unsigned int mount;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || stat(path, &st) < 0)
		return -errno;
	target[n] = '\0';
	if (S_ISREG(st.st_mode) && mount_of(pid, fd, &mount) == 0)
		snprintf(id, CK_EXTERNAL_FDS_ID, "file[%x:%llx]", mount,
			 (unsigned long long)st.st_ino);
	else if (S_ISCHR(st.st_mode))
		snprintf(id, CK_EXTERNAL_FDS_ID, "tty[%llx:%llx]", (unsigned long long)st.st_rdev,
			 (unsigned long long)st.st_dev);
	else
		snprintf(id, CK_EXTERNAL_FDS_ID, "%s", target); /* "socket:[1]", "pipe:[1]" */
	return 0;
}

static void add_file(struct cks_external_fds *outside, enum cks_external_fds_role role,
		     const char *id)
{
	struct cks_external_fds_file *file = &outside->files[outside->count++];

	file->role = role;
	snprintf(file->id, sizeof(file->id), "%s", id);
}

/* The descriptor of @pid that is the open file of @st; -ENOENT: it has none. */
static int find_file(pid_t pid, const struct stat *st)
{
	struct dirent *entry;
	struct stat other;
	int found = -ENOENT;
	char path[300];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && found < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		if (entry->d_name[0] != '.' && stat(path, &other) == 0 &&
		    other.st_ino == st->st_ino && other.st_dev == st->st_dev)
			found = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

int cks_external_fds_find(pid_t pid, int control, int log, struct cks_external_fds *outside,
			  struct cks_why *why)
{
	char id[CK_EXTERNAL_FDS_ID];
	struct stat null, st;
	int ret = name_file(pid, control, id), fd;

	outside->count = 0;
	if (ret < 0)
		return cks_why_set(why, -ret, "worker %d: descriptor %d: %m", (int)pid, control);
	if (strncmp(id, "socket:", 7) != 0)
		return cks_why_set(why, ENOTSOCK, "worker %d: its descriptor %d is not a socket",
				   (int)pid, control);
	add_file(outside, CK_EXTERNAL_FDS_CONTROL, id);
	if (fstat(log, &st) < 0 || stat("/dev/null", &null) < 0 || st.st_rdev == null.st_rdev)
		return 0;
	fd = find_file(pid, &st);
	if (fd >= 0 && name_file(pid, fd, id) == 0)
		add_file(outside, CK_EXTERNAL_FDS_LOG, id);
	return 0;
}
