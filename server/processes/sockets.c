/*
 * server/processes/sockets.c - see sockets.h.
 */
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/processes/sockets.h"
#include "util/util.h"

void cks_socket_path(struct cks_socket *s)
{
	struct sockaddr_un bound = {.sun_family = AF_UNSPEC};
	socklen_t size = sizeof(bound), head = offsetof(struct sockaddr_un, sun_path);

	s->path[0] = '\0';
	if (getsockname(s->fd, (struct sockaddr *)&bound, &size) < 0 ||
	    bound.sun_family != AF_UNIX || size <= head)
		return;
	size = ck_min(size - head, (socklen_t)sizeof(s->path) - 1);
	memcpy(s->path, bound.sun_path, size);
	s->path[size] = '\0';
	if (!bound.sun_path[0])
		s->path[0] = '@';
}

void cks_unlink_own(const char *path, const struct stat *own)
{
	struct stat now;

	if (stat(path, &now) == 0 && now.st_ino == own->st_ino && now.st_dev == own->st_dev)
		unlink(path);
}
