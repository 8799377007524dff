/*
 * server/processes/sockets.c - see sockets.h.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/processes/sockets.h"
#include "util/log.h"
#include "util/address/unixsock.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_IN_USE_S 3
#define CK_IN_USE_STEP_MS 10

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

bool cks_wait_in_use(const char *what, int64_t *by)
{
	const struct timespec step = {.tv_nsec = CK_IN_USE_STEP_MS * 1000000L};
	int64_t now = ck_now_ms();

	if (*by == 0) {
		*by = now + CK_IN_USE_S * 1000;
		ck_info("%s is in use: trying again for %d s", what, CK_IN_USE_S);
	}
	if (now >= *by)
		return false;
	nanosleep(&step, NULL);
	return true;
}

int cks_socket_listen(const char *path, int type)
{
	int64_t by = 0;
	int fd;

	do
		fd = ck_unix_listen(path, type);
	while (fd == -EADDRINUSE && cks_wait_in_use(path, &by));
	return fd;
}

void cks_unlink_own(const char *path, const struct stat *own)
{
	struct stat now;

	if (stat(path, &now) == 0 && now.st_ino == own->st_ino && now.st_dev == own->st_dev)
		unlink(path);
}
