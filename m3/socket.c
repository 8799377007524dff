/*
 * m3/socket.c - the path of the broker's socket, connecting to it, and listening.
 *
 * The path is that of the server that carries the broker, with ".m3" appended. A path that begins
 * with @ is an abstract address, for a server that was started without a socket file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/message.h"
#include "util/env.h"
#include "util/address/unixsock.h"

const char *ck_m3_path(unsigned int index, char *buffer, size_t size)
{
	const char *given = ck_env_string("CRICKET_M3"),
		   *runtime = secure_getenv("XDG_RUNTIME_DIR");

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

/* Processes have different folders: such a path is the same place in each of them. */
static bool is_absolute(const char *path)
{
	return *path == '/' || *path == '@';
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
	int fd = is_absolute(path) ? ck_unix_dial(path, SOCK_SEQPACKET) : -EINVAL, ret;

	if (fd < 0)
		return fd;
	ret = check_owner(fd, path);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

int ck_m3_listen(const char *path)
{
	return is_absolute(path) ? ck_unix_listen(path, SOCK_SEQPACKET | SOCK_NONBLOCK) : -EINVAL;
}
