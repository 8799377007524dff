/*
 * tests/unit/rpc_ends.h - both ends of a channel in one program, and a directory for its sockets.
 */
#ifndef CK_TEST_RPC_ENDS_H
#define CK_TEST_RPC_ENDS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "rpc/lasting.h"

static char dir[64]; /* of this program's own */

static inline int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/ck-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir); /* fails where a test leaves something */
}

static inline void unix_address(char *address, size_t size, const char *name)
{
	snprintf(address, size, "unix:%s/%s", dir, name);
}

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline int bound_port(int fd)
{
	struct sockaddr_storage addr;
	socklen_t size = sizeof(addr);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
	return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
						: ((struct sockaddr_in *)&addr)->sin_port);
}

static inline struct ck_chan *accept_chan(int listener)
{
	struct pollfd pfd = {.fd = listener, .events = POLLIN};
	struct ck_chan *chan = NULL;
	int fd;

	assert_int_equal(poll(&pfd, 1, 5000), 1);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ck_chan_adopt(fd, &chan), 0);
	return chan;
}

/* Both ends of a connection to a listener at @address; a %d in it becomes the port. */
static inline void connect_pair(const char *listen_address, const char *dial_format,
				struct ck_chan *ends[2])
{
	char address[160];
	int listener = ck_chan_listen(listen_address);

	assert_true(listener >= 0);
	if (strncmp(listen_address, "unix:", 5) == 0)
		snprintf(address, sizeof(address), "%s", listen_address);
	else
		snprintf(address, sizeof(address), "%s:%d", dial_format, bound_port(listener));
	assert_int_equal(ck_chan_dial(address, 5000, &ends[0]), 0);
	ends[1] = accept_chan(listener);
	close(listener);
	if (strncmp(listen_address, "unix:", 5) == 0)
		unlink(listen_address + 5);
}

static inline void socket_pair(struct ck_chan *ends[2])
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(ck_chan_adopt(fds[0], &ends[0]), 0);
	assert_int_equal(ck_chan_adopt(fds[1], &ends[1]), 0);
}

/* Connect two lasting channels without a connection, and have @server send the bytes that it holds.
 * For any thread, so it asserts nothing. */
static inline void lasting_connect(struct ck_chan *client, struct ck_chan *server)
{
	struct ck_chan *connection[2];
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 ||
	    ck_chan_adopt(fds[0], &connection[0]) < 0 ||
	    ck_chan_adopt(fds[1], &connection[1]) < 0 ||
	    ck_lasting_attach(client, connection[0], 0, false) < 0 ||
	    ck_lasting_attach(server, connection[1], 0, false) < 0)
		abort();
	ck_lasting_resend(server);
}

/* The first record and its answer of a connection whose client offers rings; the server takes them
 * if @take. Whether both ends are in rings now. */
static inline bool rings_agree(struct ck_chan *client, struct ck_chan *server, size_t size,
			       bool take)
{
	struct iovec record = {(char *)(uintptr_t) "record", 6},
		     answer = {(char *)(uintptr_t) "ok", 2};
	char buf[8];
	bool in;

	assert_int_equal(ck_chan_offer_rings(client, size, size), 0);
	assert_int_equal(ck_chan_writev(client, &record, 1), 0);
	assert_int_equal(ck_chan_read(server, buf, 6), 0);
	if (take)
		assert_int_equal(ck_chan_take_rings(server), 0);
	assert_int_equal(ck_chan_writev(server, &answer, 1), 0);
	in = ck_chan_enter_rings(server);
	assert_int_equal(ck_chan_read(client, buf, 2), 0);
	assert_int_equal(ck_chan_enter_rings(client), in);
	assert_int_equal(ck_chan_in_rings(client), in);
	return in;
}

/* As socket_pair, in shared memory with rings of @size; ends[0] is the client. */
static inline void rings_pair(struct ck_chan *ends[2], size_t size)
{
	socket_pair(ends);
	assert_true(rings_agree(ends[0], ends[1], size, true));
}

static inline void send_text(struct ck_chan *chan, const char *text)
{
	struct iovec iov = {(char *)text, strlen(text)};

	assert_int_equal(ck_chan_writev(chan, &iov, 1), 0);
}

static inline void assert_text(struct ck_chan *chan, const char *text)
{
	char buf[64];

	assert_int_equal(ck_chan_read(chan, buf, strlen(text)), 0);
	assert_memory_equal(buf, text, strlen(text));
}

static inline void assert_talk(struct ck_chan *ends[2])
{
	send_text(ends[0], "there");
	assert_text(ends[1], "there");
	send_text(ends[1], "and back");
	assert_text(ends[0], "and back");
}

static inline void close_pair(struct ck_chan *ends[2])
{
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
}

/* A listener whose queue is full. Connections that wait there are put into @fds. */
static inline int busy_listener(int family, struct sockaddr *addr, socklen_t size, int fds[2])
{
	int listener = socket(family, SOCK_STREAM, 0), i;

	assert_int_equal(bind(listener, addr, size), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(getsockname(listener, addr, &size), 0);
	for (i = 0; i < 2; i++) {
		struct pollfd pfd = {.events = POLLOUT};

		fds[i] = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fds[i], addr, size);
		pfd.fd = fds[i];
		poll(&pfd, 1, 100);
	}
	return listener;
}

static inline void assert_dial_times_out(const char *address)
{
	struct ck_chan *chan;
	double start = now(), took;

	assert_int_equal(ck_chan_dial(address, 300, &chan), -ETIMEDOUT);
	took = now() - start;
	assert_true(took > 0.25 && took < 30); /* the machine may be busy */
}

#endif
