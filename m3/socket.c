/*
 * m3/socket.c - where the broker's socket is, connecting to it, and listening.
 *
 * The socket stands beside that of the server that carries the broker, and has its name with ".m3"
 * behind it. A path that begins with @ is an abstract address, for a server that was told to have
 * no socket file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "m3/message.h"
#include "util/env.h"

#define BACKLOG 128

const char *ck_m3_path(unsigned int index, char *buffer, size_t size)
{
	const char *given = ck_env_string("CRICKET_M3"), *runtime = getenv("XDG_RUNTIME_DIR");

	if (given && *given)
		return index == 0 ? given : NULL;
	if (!runtime || *runtime != '/')
		index++;
	if (index == 0)
		snprintf(buffer, size, "%s/cricket.sock.m3", runtime);
	else if (index == 1)
		snprintf(buffer, size, "/run/cricket.sock.m3");
	else if (index == 2)
		snprintf(buffer, size, "/tmp/cricket-%u.sock.m3", (unsigned int)geteuid());
	else
		return NULL;
	return buffer;
}

/* The length of the address, or -EINVAL. */
static int address_of(const char *path, struct sockaddr_un *address)
{
	size_t length = strlen(path);

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if ((*path != '/' && *path != '@') || length >= sizeof(address->sun_path))
		return -EINVAL;
	memcpy(address->sun_path, path, length);
	if (*path == '@')
		address->sun_path[0] = '\0';
	return (int)(offsetof(struct sockaddr_un, sun_path) + length + (*path == '/'));
}

/* In a folder where anybody may make files, the broker must be our own user's, or root's. */
static int check_owner(int fd, const char *path)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (strncmp(path, "/tmp/", 5) != 0 && *path != '@')
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == geteuid() || peer.uid == 0 ? 0 : -EPERM;
}

int ck_m3_dial(const char *path)
{
	struct sockaddr_un address;
	int length = address_of(path, &address), fd, ret;

	if (length < 0)
		return length;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	while ((ret = connect(fd, (struct sockaddr *)&address, (socklen_t)length)) < 0 &&
	       errno == EINTR)
		;
	ret = ret < 0 ? -errno : check_owner(fd, path);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

/* Whether the file at @path is a socket at which nobody listens. */
static bool is_stale(const char *path)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = ck_m3_dial(path);
	if (fd >= 0)
		close(fd);
	return fd == -ECONNREFUSED;
}

int ck_m3_listen(const char *path)
{
	struct sockaddr_un address;
	int length = address_of(path, &address), fd, ret = 0;
	mode_t mask;

	if (length < 0)
		return length;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (*path == '/' && is_stale(path))
		unlink(path);
	mask = umask(0177); /* as the server's socket: who may open it may use the GPU */
	if (bind(fd, (struct sockaddr *)&address, (socklen_t)length) < 0 || listen(fd, BACKLOG) < 0)
		ret = -errno;
	umask(mask);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}
