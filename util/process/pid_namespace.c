/*
 * util/process/pid_namespace.c - see pid_namespace.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/process/pid_namespace.h"
#include "util/util.h"

#define CK_SPACE_STEP_MS 5

static bool same_space(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

bool ck_pid_namespace_is_other(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return access(path, F_OK) == 0 && !same_space("/proc/self/ns/pid", path);
}

pid_t ck_pid_namespace_inner(pid_t pid, pid_t thread)
{
	char path[64], line[256];
	int id = -ESRCH, used, n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)thread);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		/* the ids from here inwards */
		if (strncmp(line, "NSpid:", 6) == 0)
			for (used = 6; sscanf(line + used, "%d%n", &id, &n) == 1; used += n)
				;
	}
	if (f)
		fclose(f);
	return id;
}

int ck_pid_namespace_join(pid_t pid)
{
	static const struct {
		const char *name;
		int type;
	} spaces[] = {{"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"mnt", CLONE_NEWNS}};
	int fds[CK_ARRAY_SIZE(spaces)], ret = 0;
	char path[64];

	/* the paths are not there any more when the mounts are those of @pid */
	for (size_t i = 0; i < CK_ARRAY_SIZE(spaces); i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, spaces[i].name);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(spaces); i++) {
		if (ret == 0 && setns(fds[i], spaces[i].type) < 0)
			ret = -errno;
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return ret;
}

/* CRIU connects to itself, to find out what the kernel can do. */
static int start_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

int ck_pid_namespace_create(bool network)
{
	if (unshare(network ? CLONE_NEWPID | CLONE_NEWNET : CLONE_NEWPID) < 0)
		return -errno;
	return network ? start_loopback() : 0;
}

int ck_pid_namespace_begin(pid_t id)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)id), fd, ret = 0;

	/* later mounts outside are visible here, but mounts here are not visible outside */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

static bool is_alone(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	bool alone = true;

	while (dir && alone && (entry = readdir(dir)))
		alone = atoi(entry->d_name) <= 1;
	if (dir)
		closedir(dir);
	return alone;
}

void ck_pid_namespace_wait(void)
{
	const struct timespec step = {.tv_nsec = CK_SPACE_STEP_MS * 1000000L};

	while (!is_alone()) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		nanosleep(&step, NULL);
	}
}

pid_t ck_pid_namespace_outer(pid_t init, pid_t id)
{
	char own[64], path[300];
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	pid_t found = -ESRCH;

	snprintf(own, sizeof(own), "/proc/%d/ns/pid", (int)init);
	while (dir && found < 0 && (entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		snprintf(path, sizeof(path), "/proc/%s/ns/pid", entry->d_name);
		if (pid > 0 && ck_pid_namespace_inner(pid, pid) == id && same_space(own, path))
			found = pid;
	}
	if (dir)
		closedir(dir);
	return found;
}
