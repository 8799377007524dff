/*
 * server/supervisor/pid_file.c - the file with the server's process id. It is locked while the
 * server lives, so a stale one does no harm.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/processes/sockets.h"
#include "server/supervisor/host.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

int cks_pid_file_write(const char *path, int *out)
{
	int64_t by = 0;
	int fd;

	if (!path)
		return 0;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		int ret = -errno;

		ck_err("pid file %s: %s", path,
		       ret == -ELOOP ? "it is a symbolic link" : strerror(-ret));
		return ret;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK && cks_wait_in_use(path, &by))
			continue;
		ck_err("pid file %s: another server holds it", path);
		close(fd);
		return -EEXIST;
	}
	*out = fd;
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
		ck_err("pid file %s: %m", path);
		return -EIO;
	}
	return 0;
}

void cks_pid_file_remove(const char *path, int fd)
{
	struct stat own;

	if (fd >= 0 && fstat(fd, &own) == 0)
		cks_unlink_own(path, &own);
}
