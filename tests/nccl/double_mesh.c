/* tests/nccl/double_mesh.c - ranks find one another: the first one's process has a root that waits
 * for all of them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl/double.h"

struct hello {
	int ranks, rank, port;
};

static int listen_any(int *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 256) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		return -1;
	*port = ntohs(a.sin_port);
	return fd;
}

static int dial(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int put(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size > 0) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static int get(int fd, void *bytes, size_t size)
{
	char *at = bytes;

	while (size > 0) {
		ssize_t n = recv(fd, at, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Wait for all ranks, then tell them one another's ports. */
static void *root(void *arg)
{
	int listener = (int)(intptr_t)arg, ranks = 1, *fds = NULL, *ports = NULL;

	for (int i = 0; i < ranks; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		struct hello h;

		if (fd < 0 || get(fd, &h, sizeof(h)) < 0) {
			close(fd);
			i--;
			continue;
		}
		if (!fds) {
			ranks = h.ranks;
			fds = calloc((size_t)ranks, sizeof(int));
			ports = calloc((size_t)ranks, sizeof(int));
		}
		fds[h.rank % ranks] = fd;
		ports[h.rank % ranks] = h.port;
	}
	for (int i = 0; i < ranks; i++) {
		put(fds[i], ports, (size_t)ranks * sizeof(int));
		close(fds[i]);
	}
	close(listener);
	free(fds);
	free(ports);
	return NULL;
}

int mesh_root(ncclUniqueId *id)
{
	pthread_t thread;
	int port, fd = listen_any(&port);

	memset(id, 0, sizeof(*id));
	memcpy(id->internal, &port, sizeof(port));
	if (fd < 0 || pthread_create(&thread, NULL, root, (void *)(intptr_t)fd) != 0)
		return -1;
	pthread_detach(thread);
	return 0;
}

static int meet(struct mesh *m, const int *ports)
{
	for (int plane = 0; plane < 2; plane++) {
		for (int i = 0; i < m->rank; i++) {
			int fd = dial(ports[i]), mine[2] = {m->rank, plane};

			if (fd < 0)
				return -1;
			m->fds[plane][i] = fd;
			if (put(fd, mine, sizeof(mine)) < 0)
				return -1;
		}
	}
	for (int i = 0; i < 2 * (m->ranks - 1 - m->rank); i++) {
		int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC), theirs[2];

		if (fd < 0 || get(fd, theirs, sizeof(theirs)) < 0)
			return -1;
		m->fds[theirs[1]][theirs[0]] = fd;
	}
	return 0;
}

int mesh_make(struct mesh *m, const ncclUniqueId *id, int ranks, int rank, atomic_bool *stop)
{
	struct hello h = {.ranks = ranks, .rank = rank};
	int port, *ports = calloc((size_t)ranks, sizeof(int)), ret = -1;

	*m = (struct mesh){.ranks = ranks, .rank = rank, .stop = stop, .root = -1};
	for (int plane = 0; plane < 2; plane++) {
		m->fds[plane] = malloc((size_t)ranks * sizeof(int));
		for (int i = 0; i < ranks; i++)
			m->fds[plane][i] = -1;
	}
	memcpy(&port, id->internal, sizeof(port));
	m->listener = listen_any(&h.port);
	m->root = dial(port);
	if (!atomic_load(stop) && m->root >= 0 && put(m->root, &h, sizeof(h)) == 0 &&
	    get(m->root, ports, (size_t)ranks * sizeof(int)) == 0)
		ret = meet(m, ports);
	close(m->root);
	close(m->listener);
	m->root = m->listener = -1;
	free(ports);
	return atomic_load(stop) ? -1 : ret;
}

void mesh_stop(struct mesh *m)
{
	shutdown(m->root, SHUT_RDWR);
	shutdown(m->listener, SHUT_RDWR);
	for (int plane = 0; m->fds[1] && plane < 2; plane++) {
		for (int i = 0; i < m->ranks; i++)
			shutdown(m->fds[plane][i], SHUT_RDWR);
	}
}

void mesh_free(struct mesh *m)
{
	for (int plane = 0; plane < 2; plane++) {
		for (int i = 0; m->fds[plane] && i < m->ranks; i++) {
			if (m->fds[plane][i] >= 0)
				close(m->fds[plane][i]);
		}
		free(m->fds[plane]);
		m->fds[plane] = NULL;
	}
}

int mesh_send(struct mesh *m, int plane, int peer, const void *bytes, size_t size)
{
	return put(m->fds[plane][peer], bytes, size);
}

int mesh_recv(struct mesh *m, int plane, int peer, void *bytes, size_t size)
{
	return get(m->fds[plane][peer], bytes, size);
}

int mesh_barrier(struct mesh *m)
{
	char c = 'b';
	int ret = 0;

	for (int i = 1; m->rank == 0 && i < m->ranks; i++)
		ret |= mesh_recv(m, 1, i, &c, 1);
	for (int i = 1; m->rank == 0 && i < m->ranks; i++)
		ret |= mesh_send(m, 1, i, &c, 1);
	if (m->rank > 0)
		ret = mesh_send(m, 1, 0, &c, 1) | mesh_recv(m, 1, 0, &c, 1);
	return ret;
}
