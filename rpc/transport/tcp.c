/*
 * rpc/transport/tcp.c - channels to other machines.
 *
 * A peer that vanishes (its machine lost power, the cable is out) is noticed in about 30 seconds.
 * If idle, by TCP's keep-alive. With bytes in transit, when keep-alive does not work, by tcp_check,
 * which a thread blocked in read or write calls every 10 seconds. TCP_USER_TIMEOUT seems suitable
 * but is not used: on Linux, it also ends connections whose peer is alive and answers probes but
 * does not read for that long. A server is such a peer while it waits for a kernel of a minute and
 * the client sends ahead.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "rpc/transport/transport.h"
#include "util/address/sockaddr.h"
#include "util/process/stack.h"

#define CK_TCP_TICK_S 10 /* interval at which a blocked read or write checks its peer */
#ifndef CK_TCP_SILENCE_MS
#define CK_TCP_SILENCE_MS 30000 /* a peer that owes an answer and is silent for this long is dead */
#endif

/* Translate errors of getaddrinfo to those of connect(2). */
static int resolve_error(int error, bool literal)
{
	switch (error) {
	case EAI_SYSTEM:
		return errno ? -errno : -EIO;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_NONAME:
		if (errno == EMFILE || errno == ENFILE) /* for the files with names */
			return -errno;
		return literal ? -EINVAL : -ENXIO; /* the name does not exist */
	default:
		return -EAGAIN; /* name servers fail or do not answer */
	}
}

struct lookup {
	const char *host, *port;
	const struct addrinfo *hints;
	struct addrinfo **list;
	int ret, error; /* of getaddrinfo(), and errno then */
};

static void look_up(void *lookup)
{
	struct lookup *l = lookup;

	errno = 0;
	l->ret = getaddrinfo(l->host, l->port, l->hints, l->list);
	l->error = errno;
}

static int resolve_address(const struct ck_address *where, bool listening, struct addrinfo **list)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	char port[8];
	struct lookup lookup = {where->host, port, &hints, list, 0, 0};
	int ret;

	if (where->port == 0 && !listening)
		return -EINVAL;
	snprintf(port, sizeof(port), "%u", (unsigned int)where->port & 0xffff);
	hints.ai_flags = AI_NUMERICSERV;
	if (where->ipv6) {
		hints.ai_family = AF_INET6;
		hints.ai_flags |= AI_NUMERICHOST;
	}
	ret = ck_stack_run(CK_NAMES_STACK, look_up, &lookup);
	if (ret < 0)
		return ret;
	errno = lookup.error;
	return lookup.ret ? resolve_error(lookup.ret, where->ipv6) : 0;
}

/* Does the system's limit in @file (rmem_max or wmem_max) permit CK_SOCKET_BUFFER with a plain
 * setsockopt? */
static bool buffer_allowed(const char *file)
{
	char path[64];
	long limit = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/core/%s", file);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%ld", &limit) != 1)
		limit = 0;
	fclose(f);
	return limit >= CK_SOCKET_BUFFER;
}

/*
 * Setting a size disables the kernel's tuning of a TCP buffer. A size above the system's limit is
 * silently reduced, often below the result of tuning. So set both sizes or none. Call before
 * connect or listen, because the window scale is fixed with the connection.
 */
static void set_buffers(int fd)
{
	if (ck_socket_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, CK_SOCKET_BUFFER) < 0 &&
	    buffer_allowed("rmem_max"))
		ck_socket_option(fd, SOL_SOCKET, SO_RCVBUF, CK_SOCKET_BUFFER);
	if (ck_socket_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, CK_SOCKET_BUFFER) < 0 &&
	    buffer_allowed("wmem_max"))
		ck_socket_option(fd, SOL_SOCKET, SO_SNDBUF, CK_SOCKET_BUFFER);
}

/* Set a connection's options; only a failure of TCP_NODELAY is an error. */
static int set_options(int fd)
{
	struct timeval tick = {.tv_sec = CK_TCP_TICK_S};

	ck_socket_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	ck_socket_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
	ck_socket_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	ck_socket_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof(tick));
	return ck_socket_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* -ETIMEDOUT: the peer owes acknowledgements and has been silent for too long. A peer that only
 * keeps its window closed answers the probes; each answer resets the count. */
static int tcp_check(struct ck_chan *chan)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(ck_socket_fd(chan), IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return -errno;
	if (info.tcpi_last_ack_recv < CK_TCP_SILENCE_MS)
		return 0;
	return info.tcpi_retransmits + info.tcpi_probes >= 2 ? -ETIMEDOUT : 0;
}

/* Is @fd connected to itself? That happens on an ephemeral port of this host without a listener. */
static bool is_own_peer(int fd)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

	return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
	       getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
	       own_size == peer_size && memcmp(&own, &peer, own_size) == 0;
}

/* Wait until @deadline for a non-blocking connect. */
static int finish_connect(struct ck_private_fd *kept, int64_t deadline)
{
	struct pollfd pfd = {.fd = ck_private_fd_recent(kept), .events = POLLOUT};
	socklen_t size = sizeof(int);
	int ready, fd, error = 0;

	do {
		ready = poll(&pfd, 1, ck_deadline_left(deadline));
	} while (ready < 0 && errno == EINTR);
	fd = ck_private_fd_number(kept);
	if (fd < 0)
		return -EBADF;
	if (ready < 0)
		return -errno;
	if (ready == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	if (error)
		return -error;
	return is_own_peer(fd) ? -ECONNREFUSED : 0;
}

static void close_all(struct ck_private_fd *socks, unsigned int count)
{
	while (count-- > 0)
		ck_private_fd_close(&socks[count]);
}

/* Begin to connect a new socket. */
static int begin_connect(const struct addrinfo *ai, struct ck_private_fd *kept)
{
	int ret, fd;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (fd < 0)
		return -errno;
	ck_private_fd_take(kept, fd, false);
	fd = ck_private_fd_recent(kept);
	set_buffers(fd);
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS &&
	    errno != EINTR) {
		ret = -errno;
		ck_private_fd_close(kept);
		return ret;
	}
	return 0;
}

/* Make connected sockets, still non-blocking. All connect at the same time: one round trip. */
static int connect_all(const struct addrinfo *ai, int timeout_ms, struct ck_private_fd *socks,
		       unsigned int count)
{
	int64_t deadline = ck_deadline(timeout_ms);
	unsigned int begun = 0;
	int ret = 0;

	while (ret == 0 && begun < count) {
		ret = begin_connect(ai, &socks[begun]);
		if (ret == 0)
			begun++;
	}
	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = finish_connect(&socks[i], deadline);
	if (ret < 0)
		close_all(socks, begun);
	return ret;
}

void ck_tcp_peer_name(const struct sockaddr_storage *peer, char *name, size_t size)
{
	char host[INET6_ADDRSTRLEN + 32], port[8];

	snprintf(name, size, "tcp ?");
	if (getnameinfo((const struct sockaddr *)peer, sizeof(*peer), host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(name, size, strchr(host, ':') ? "tcp [%s]:%s" : "tcp %s:%s", host, port);
}

static void peer_name(int fd, char *name, size_t size)
{
	struct sockaddr_storage peer;

	ck_sockaddr_peer(fd, &peer);
	ck_tcp_peer_name(&peer, name, size);
}

static int tcp_adopt(int fd, struct ck_chan **chan)
{
	char peer[CK_PEER_SIZE];
	int ret = set_options(fd);

	if (ret < 0)
		return ret;
	peer_name(fd, peer, sizeof(peer));
	return ck_socket_chan_create(&ck_transport_tcp, fd, peer, chan);
}

/*
 * Try all addresses of the name in the system's order of preference. Each gets an equal share of
 * the time left, so that a silent first one does not use it up. Returns the error of the first
 * address, which the system preferred. The name lookup counts towards the time but is not cut
 * short.
 */
static int connect_any(const struct ck_address *where, int timeout_ms, struct ck_private_fd *socks,
		       unsigned int count)
{
	int64_t deadline = ck_deadline(timeout_ms);
	int ret, error = 0, addresses = 0;
	struct addrinfo *list, *ai;

	ret = resolve_address(where, false, &list);
	if (ret < 0)
		return ret;
	for (ai = list; ai; ai = ai->ai_next)
		addresses++;
	ret = -1;
	for (ai = list; ai && ret < 0; ai = ai->ai_next) {
		int left = ck_deadline_left(deadline);

		ret = connect_all(ai, left < 0 ? left : left / addresses--, socks, count);
		if (ret < 0 && error == 0)
			error = ret;
	}
	freeaddrinfo(list);
	return ret < 0 ? error : 0;
}

static int tcp_dial(const struct ck_address *where, int timeout_ms, struct ck_chan **chans,
		    unsigned int count)
{
	struct ck_private_fd socks[CK_DIAL_MAX];
	unsigned int made = 0;
	int ret;

	if (count > CK_DIAL_MAX)
		return -EINVAL;
	ret = connect_any(where, timeout_ms, socks, count);
	if (ret < 0)
		return ret;
	while (ret == 0 && made < count) {
		int fd = ck_private_fd_recent(&socks[made]);

		ret = ck_socket_blocking(fd);
		if (ret == 0)
			ret = tcp_adopt(fd, &chans[made]);
		if (ret == 0)
			chans[made]->kept = socks[made];
		if (ret == 0)
			made++;
	}
	if (made == count)
		return 0;
	close_all(socks + made, count - made);
	while (made-- > 0)
		ck_chan_close(chans[made]);
	return ret;
}

static int listen_one(const struct addrinfo *ai)
{
	int ret, fd;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (fd < 0)
		return -errno;
	ck_socket_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (ai->ai_family == AF_INET6) /* let [::] mean every address of the host, IPv4 too */
		ck_socket_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	set_buffers(fd); /* accepted sockets inherit them */
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* Listen on the first address of the name that is available. */
static int tcp_listen(const struct ck_address *where)
{
	struct addrinfo *list, *ai;
	int fd = -EADDRNOTAVAIL, ret, error = 0;

	ret = resolve_address(where, true, &list);
	if (ret < 0)
		return ret;
	for (ai = list; ai && fd < 0; ai = ai->ai_next) {
		fd = listen_one(ai);
		if (fd < 0 && error == 0)
			error = fd;
	}
	freeaddrinfo(list);
	return fd < 0 && error ? error : fd;
}

const struct ck_transport_ops ck_transport_tcp = {
	.name = "tcp",
	.dial = tcp_dial,
	.listen = tcp_listen,
	.adopt = tcp_adopt,
	.writev = ck_socket_writev,
	.sends_pages = true,
	.read = ck_socket_read,
	.check = tcp_check,
	.pending = ck_socket_pending,
	.awake = ck_socket_awake,
	.shutdown = ck_socket_shutdown,
	.close = ck_socket_close,
};
