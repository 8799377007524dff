/*
 * rpc/transport/unix.c - channels between processes of one host, through a socket file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "rpc/relayed.h"
#include "rpc/transport/transport.h"
#include "util/address/unixsock.h"

static struct {
	pthread_once_t once;
	char path[3][CK_UNIX_PATH_MAX];
	unsigned int count;
	unsigned int temporary; /* index of a path that any user may create */
} defaults = {.once = PTHREAD_ONCE_INIT};

static void add_default(const char *dir, const char *file)
{
	char *path = defaults.path[defaults.count];
	int length = snprintf(path, CK_UNIX_PATH_MAX, "%s/%s", dir, file);

	if (length > 0 && (size_t)length < CK_UNIX_PATH_MAX)
		defaults.count++;
}

static void fill_defaults(void)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char file[32];

	if (runtime && *runtime == '/') /* the standard says to ignore a relative path */
		add_default(runtime, "cricket.sock");
	add_default("/run", "cricket.sock");
	snprintf(file, sizeof(file), "cricket-%u.sock", (unsigned int)geteuid());
	defaults.temporary = defaults.count;
	add_default("/tmp", file);
}

const char *ck_chan_default_unix(unsigned int index)
{
	pthread_once(&defaults.once, fill_defaults);
	return index < defaults.count ? defaults.path[index] : NULL;
}

/*
 * connect(2) blocks for up to SO_SNDTIMEO while the server's queue is full. A signal before the
 * connection is made leaves no trace.
 */
static int connect_until(struct ck_private_fd *kept, const struct sockaddr_un *addr,
			 int64_t deadline)
{
	for (;;) {
		int left = ck_deadline_left(deadline), fd = ck_private_fd_number(kept);
		struct timeval limit = {0}; /* none */

		if (left == 0)
			left = 1;
		if (left > 0) {
			limit.tv_sec = left / 1000;
			limit.tv_usec = left % 1000 * 1000;
		}
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0)
			break;
		if (errno == EAGAIN)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
	setsockopt(ck_private_fd_number(kept), SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0},
		   sizeof(struct timeval));
	return 0;
}

/* In the temporary directory, any user may have made the socket: send data only to a server of the
 * same user or root. */
static int check_owner(int fd, const char *path)
{
	const char *temporary;
	struct ucred server;
	socklen_t size = sizeof(server);

	pthread_once(&defaults.once, fill_defaults);
	temporary = ck_chan_default_unix(defaults.temporary);
	if (!temporary || strcmp(path, temporary) != 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) < 0)
		return -errno;
	return server.uid == geteuid() || server.uid == 0 ? 0 : -EPERM;
}

static bool socket_path(const struct sockaddr_un *addr, socklen_t size)
{
	return size > offsetof(struct sockaddr_un, sun_path) && addr->sun_path[0] == '/';
}

/* The path of the connection: the peer's name at one end, its own at the other. A socketpair has
 * none; use the other process's id. */
static void peer_name(int fd, char *name, size_t size)
{
	struct sockaddr_un addr;
	struct ucred cred = {0};
	socklen_t length = sizeof(addr);

	memset(&addr, 0, sizeof(addr));
	if (getpeername(fd, (struct sockaddr *)&addr, &length) < 0 || !socket_path(&addr, length)) {
		length = sizeof(addr);
		memset(&addr, 0, sizeof(addr));
		if (getsockname(fd, (struct sockaddr *)&addr, &length) < 0)
			length = 0;
	}
	if (socket_path(&addr, length)) {
		snprintf(name, size, "unix %.*s", (int)sizeof(addr.sun_path), addr.sun_path);
		return;
	}
	length = sizeof(cred);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length);
	snprintf(name, size, "unix pid %d", (int)cred.pid);
}

static int unix_adopt(int fd, struct ck_chan **chan)
{
	struct ck_relayed who;
	char peer[CK_PEER_SIZE];

	/* Unix socket buffers are not tuned by the kernel, so any size that the limit allows helps.
	 * Only the sender's buffer matters. */
	if (ck_socket_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, CK_SOCKET_BUFFER) < 0)
		ck_socket_option(fd, SOL_SOCKET, SO_SNDBUF, CK_SOCKET_BUFFER);
	if (ck_relayed_get(fd, &who)) {
		ck_tcp_peer_name(&who.peer, peer, sizeof(peer));
		return ck_socket_chan_create(&ck_transport_relayed, fd, peer, chan);
	}
	peer_name(fd, peer, sizeof(peer));
	return ck_socket_chan_create(&ck_transport_unix, fd, peer, chan);
}

static int dial_one(const char *where, int64_t deadline, struct ck_chan **chan)
{
	struct sockaddr_un addr;
	struct ck_private_fd kept;
	int fd, ret;

	if (ck_unix_address(where, &addr) < 0)
		return -EINVAL;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* twice, because a session ends with its connection */
	ck_private_fd_take(&kept, fd, true);
	ret = connect_until(&kept, &addr, deadline);
	fd = ck_private_fd_recent(&kept);
	if (ret == 0)
		ret = check_owner(fd, where);
	if (ret == 0)
		ret = unix_adopt(fd, chan);
	if (ret < 0)
		ck_private_fd_close(&kept);
	else
		(*chan)->kept = kept;
	return ret;
}

static int unix_dial(const struct ck_address *where, int timeout_ms, struct ck_chan **chans,
		     unsigned int count)
{
	int64_t deadline = ck_deadline(timeout_ms);
	int ret = 0;

	for (unsigned int i = 0; i < count; i++) {
		ret = dial_one(where->path, deadline, &chans[i]);
		if (ret < 0) {
			while (i-- > 0)
				ck_chan_close(chans[i]);
			break;
		}
	}
	return ret;
}

static int unix_listen(const struct ck_address *where)
{
	return ck_unix_listen(where->path, SOCK_STREAM | SOCK_NONBLOCK);
}

const struct ck_transport_ops ck_transport_unix = {
	.name = "unix",
	.dial = unix_dial,
	.listen = unix_listen,
	.adopt = unix_adopt,
	.writev = ck_socket_writev,
	.read = ck_socket_read,
	.take_fd = ck_socket_take_fd,
	.pending = ck_socket_pending,
	.awake = ck_socket_awake,
	.shutdown = ck_socket_shutdown,
	.close = ck_socket_close,
};
