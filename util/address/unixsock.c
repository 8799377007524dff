/*
 * util/address/unixsock.c - where a unix socket is, and how its file is taken over from a dead
 * process.
 */
#define _GNU_SOURCE
#include "util/address/unixsock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/util.h"

/* Waiting for another server that examines the same directory: 1 s in all. */
#define LOCK_TRIES 500
#define LOCK_WAIT_MS 2

int ck_unix_address(const char *path, struct sockaddr_un *address)
{
	size_t length = strlen(path);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (length == 0 || length >= sizeof(address->sun_path))
		return -EINVAL;
	memcpy(address->sun_path, path, length);
	if (*path != '@')
		return (int)sizeof(*address);
	address->sun_path[0] = '\0';
	return (int)(offsetof(struct sockaddr_un, sun_path) + length);
}

int ck_unix_dial(const char *path, int type)
{
	struct sockaddr_un address;
	int size = ck_unix_address(path, &address), fd, ret;

	if (size < 0)
		return size;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	do {
		ret = connect(fd, (struct sockaddr *)&address, (socklen_t)size) < 0 ? -errno : 0;
	} while (ret == -EINTR);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

/* 0: there is a socket at @address, and nothing listens at it. */
static int check_stale(const struct sockaddr_un *address, int type)
{
	struct stat st;
	int fd, ret;

	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	ret = -EADDRINUSE; /* connected, its queue is full, or it is not ours to ask */
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	    (errno == ECONNREFUSED || errno == ENOENT))
		ret = 0;
	close(fd);
	return ret;
}

/* The directory of @path, opened; or -errno. */
static int open_directory(const char *path)
{
	char *dir = strdup(path);
	int fd;

	if (!dir)
		return -ENOMEM;
	fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	return fd < 0 ? -errno : fd;
}

int ck_unix_check(const char *path, int type)
{
	struct sockaddr_un address;
	int size = ck_unix_address(path, &address), fd, ret = 0;

	if (size < 0 || *path == '@')
		return ck_min(size, 0);
	fd = open_directory(path);
	if (fd < 0)
		return fd;
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		ret = -errno;
	close(fd);
	return ret < 0 ? ret : check_stale(&address, type);
}

/*
 * The directory of @path, locked: two servers that start at once must not each take the other's
 * new socket for a dead one. Never waits for long, since anybody who can read the directory can
 * hold its lock. The descriptor, or -errno.
 */
static int lock_directory(const char *path)
{
	struct timespec wait = {.tv_nsec = LOCK_WAIT_MS * 1000000L};
	int fd = open_directory(path), tries;

	if (fd < 0)
		return fd;
	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		nanosleep(&wait, NULL);
	}
	close(fd);
	return -EADDRINUSE;
}

/* bind @fd and listen, under the directory's lock: a bound socket that does not listen yet looks
 * as dead as a stale one. */
static int bind_locked(int fd, const struct sockaddr_un *address, int size, int type)
{
	const struct sockaddr *generic = (const struct sockaddr *)address;
	int ret;

	if (bind(fd, generic, (socklen_t)size) < 0) {
		if (errno != EADDRINUSE || !address->sun_path[0])
			return -errno;
		ret = check_stale(address, type);
		if (ret < 0)
			return ret;
		if (unlink(address->sun_path) < 0 && errno != ENOENT)
			return -errno;
		if (bind(fd, generic, (socklen_t)size) < 0)
			return -errno;
	}
	return listen(fd, SOMAXCONN) < 0 ? -errno : 0;
}

int ck_unix_listen(const char *path, int type)
{
	struct sockaddr_un address;
	int size = ck_unix_address(path, &address), fd, lock = -1, ret;

	if (size < 0)
		return size;
	if (*path != '@') {
		lock = lock_directory(path);
		if (lock < 0)
			return lock;
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : 0;
	/* Linux gives the file the mode of the unbound socket: no moment when it is open to all,
	 * and no change of the process's umask. */
	if (ret == 0 && fchmod(fd, 0600) < 0)
		ret = -errno;
	if (ret == 0)
		ret = bind_locked(fd, &address, size, type & ~SOCK_NONBLOCK);
	if (lock >= 0)
		close(lock);
	if (ret < 0 && fd >= 0)
		close(fd);
	return ret < 0 ? ret : fd;
}
