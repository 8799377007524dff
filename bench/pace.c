/*
 * bench/pace.c - preloaded: the kernel sends no more than PACE_BYTES a second on each TCP
 * connection (SO_MAX_PACING_RATE, socket(7)), so that this host's loopback carries what a link of
 * that rate would.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static void pace(int fd)
{
	const char *wish = getenv("PACE_BYTES");
	unsigned long rate = wish ? strtoul(wish, NULL, 10) : 0;

	if (fd >= 0 && rate) /* other sockets than TCP's take it too, and do nothing of it */
		setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");

	pace(fd);
	return next(fd, address, size);
}

int accept(int fd, struct sockaddr *address, socklen_t *size)
{
	int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
	int got = next(fd, address, size);

	pace(got);
	return got;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	int (*next)(int, struct sockaddr *, socklen_t *, int) = dlsym(RTLD_NEXT, "accept4");
	int got = next(fd, address, size, flags);

	pace(got);
	return got;
}
