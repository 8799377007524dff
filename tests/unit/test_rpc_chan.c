/*
 * tests/unit/test_rpc_chan.c - addresses, connecting, listening, and bytes over real sockets.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "tests/unit/rpc_ends.h"

#define BIG (24u << 20) /* more than the buffers of both ends hold */

static void bad_addresses_are_einval(void **state)
{
	static const char *const bad[] = {
		"",	    ":",	   ":9909",	 "host:",	"host:x",
		"host:+1",  "host: 1",	   "host:65536", "host:123456", "host:99999999999999999999",
		"host:1:2", "::1",	   "::1:9909",	 "[::1",	"[::1]9909",
		"[::1]:",   "[]",	   "[]:1",	 "[host]:1",	"[127.0.0.1]:1",
		"[::g]",    "[:]",	   "ho st",	 "host/",	"tcp://",
		"tcp://:1", "tcp://host/", "tcp:host",	 "udp://host",	"/run/x",
		"unix:",    "unix:run/x",  " host",	 "host\n",
	};
	struct ck_chan *chan = (void *)42;
	char longest[400], address[500];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (ck_chan_dial(bad[i], 1000, &chan) != -EINVAL)
			fail_msg("dial \"%s\"", bad[i]);
		if (ck_chan_listen(bad[i]) != -EINVAL)
			fail_msg("listen \"%s\"", bad[i]);
	}
	assert_int_equal(ck_chan_dial("127.0.0.1:0", 1000, &chan), -EINVAL);
	assert_int_equal(ck_chan_dial(NULL, 1000, &chan), -EINVAL);
	assert_int_equal(ck_chan_listen(NULL), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(((struct sockaddr_un *)0)->sun_path)] = '\0';
	snprintf(address, sizeof(address), "unix:%s", longest);
	assert_int_equal(ck_chan_dial(address, 1000, &chan), -EINVAL);
	assert_int_equal(ck_chan_listen(address), -EINVAL);
	longest[0] = 'a';
	memset(longest, 'a', sizeof(longest));
	longest[300] = '\0';
	assert_int_equal(ck_chan_dial(longest, 1000, &chan), -EINVAL);
	assert_ptr_equal(chan, (void *)42);
}

static void an_error_of_dialing_says_what_to_do(void **state)
{
	char text[160];

	(void)state;
	assert_string_equal(ck_chan_dial_error("nobody", -ENXIO, text, sizeof(text)),
			    "no host has this name");
	assert_non_null(
		strstr(ck_chan_dial_error("h h", -EINVAL, text, sizeof(text)), "HOST:PORT"));
	assert_non_null(
		strstr(ck_chan_dial_error("::", -EINVAL, text, sizeof(text)), "[::1]:9909"));
	assert_non_null(
		strstr(ck_chan_dial_error("http://h", -EINVAL, text, sizeof(text)), "http://"));
	assert_non_null(
		strstr(ck_chan_dial_error("h:0", -EINVAL, text, sizeof(text)), "a port is"));
	assert_non_null(
		strstr(ck_chan_dial_error("h", -ECONNREFUSED, text, sizeof(text)), "--listen"));
	assert_null(strstr(ck_chan_dial_error("unix:/s", -ENOENT, text, sizeof(text)), "--listen"));
	assert_non_null(strstr(text, "cricket-rpc-server"));
	assert_non_null(
		strstr(ck_chan_dial_error("h:1", -ETIMEDOUT, text, sizeof(text)), "firewall"));
	assert_string_equal(ck_chan_dial_error("h", -EIO, text, sizeof(text)), strerror(EIO));
	assert_int_equal(strlen(ck_chan_dial_error("h", -ECONNREFUSED, text, 10)), 9);
}

static void a_host_alone_means_the_default_port(void **state)
{
	int listener = ck_chan_listen("127.9.9.9"), again;
	struct ck_chan *ends[2];

	(void)state;
	if (listener == -EADDRINUSE)
		skip(); /* a server of this machine has the port on all its addresses */
	assert_true(listener >= 0);
	assert_int_equal(bound_port(listener), CK_DEFAULT_PORT);
	assert_int_equal(ck_chan_dial("tcp://127.9.9.9", 1000, &ends[0]), 0);
	assert_string_equal(ck_chan_peer(ends[0]), "tcp 127.9.9.9:9909");
	ends[1] = accept_chan(listener);
	assert_talk(ends);
	assert_int_equal(ck_chan_listen("127.9.9.9:9909"), -EADDRINUSE);
	close(listener);
	again = ck_chan_listen("127.9.9.9"); /* with the old connection still there */
	assert_true(again >= 0);
	close(again);
	close_pair(ends);
}

static void every_form_of_address_connects(void **state)
{
	struct ck_chan *ends[2];
	char path[100];

	(void)state;
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	assert_talk(ends);
	close_pair(ends);
	connect_pair("tcp://localhost:0", "tcp://localhost", ends);
	assert_talk(ends);
	close_pair(ends);
	unix_address(path, sizeof(path), "s");
	connect_pair(path, NULL, ends);
	assert_talk(ends);
	assert_memory_equal(ck_chan_peer(ends[0]), "unix /tmp/ck-test-", 18);
	assert_string_equal(ck_chan_peer(ends[0]), ck_chan_peer(ends[1]));
	close_pair(ends);
	socket_pair(ends);
	assert_memory_equal(ck_chan_peer(ends[0]), "unix pid ", 9);
	close_pair(ends);
}

static void ipv6_connects_and_its_any_address_takes_ipv4_too(void **state)
{
	struct ck_chan *ends[2];
	int probe = ck_chan_listen("[::1]:0");

	(void)state;
	if (probe < 0) {
		assert_true(probe == -EADDRNOTAVAIL || probe == -EAFNOSUPPORT);
		skip(); /* no IPv6 on this machine */
	}
	close(probe);
	connect_pair("[::1]:0", "[::1]", ends);
	assert_talk(ends);
	assert_memory_equal(ck_chan_peer(ends[0]), "tcp [::1]:", 10);
	close_pair(ends);
	connect_pair("[::]:0", "127.0.0.1", ends);
	assert_talk(ends);
	close_pair(ends);
}

static int option(struct ck_chan *chan, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	assert_int_equal(getsockopt(ck_chan_fd(chan), level, name, &value, &size), 0);
	return value;
}

static void both_ends_of_tcp_have_their_options(void **state)
{
	struct ck_chan *ends[2];
	int i;

	(void)state;
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	for (i = 0; i < 2; i++) {
		assert_int_equal(option(ends[i], IPPROTO_TCP, TCP_NODELAY), 1);
		assert_int_equal(option(ends[i], SOL_SOCKET, SO_KEEPALIVE), 1);
		assert_int_equal(option(ends[i], IPPROTO_TCP, TCP_KEEPIDLE), 15);
		assert_int_equal(option(ends[i], IPPROTO_TCP, TCP_KEEPINTVL), 5);
		assert_int_equal(option(ends[i], IPPROTO_TCP, TCP_KEEPCNT), 3);
		assert_int_equal(option(ends[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
		assert_true(fcntl(ck_chan_fd(ends[i]), F_GETFD) & FD_CLOEXEC);
		assert_false(fcntl(ck_chan_fd(ends[i]), F_GETFL) & O_NONBLOCK);
	}
	close_pair(ends);
}

static void listeners_are_nonblocking_and_close_on_exec(void **state)
{
	char path[100];
	int fds[2], i;

	(void)state;
	unix_address(path, sizeof(path), "s");
	fds[0] = ck_chan_listen("127.0.0.1:0");
	fds[1] = ck_chan_listen(path);
	for (i = 0; i < 2; i++) {
		assert_true(fds[i] >= 0);
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		assert_int_equal(accept(fds[i], NULL, NULL), -1);
		assert_int_equal(errno, EAGAIN);
		close(fds[i]);
	}
	unlink(path + 5);
}

static void adopting_takes_stream_sockets_only_and_leaves_the_others_open(void **state)
{
	struct ck_chan *chan = (void *)42;
	int fds[2], fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	assert_int_equal(ck_chan_adopt(fds[0], &chan), -EINVAL);
	assert_true(fcntl(fds[0], F_GETFD) >= 0);
	close(fds[0]);
	close(fds[1]);
	fd = open("/dev/null", O_RDWR);
	assert_int_equal(ck_chan_adopt(fd, &chan), -ENOTSOCK);
	close(fd);
	assert_int_equal(ck_chan_adopt(-1, &chan), -EBADF);
	assert_ptr_equal(chan, (void *)42);
}

static void many_channels_are_dialed_all_or_none(void **state)
{
	struct ck_chan *chans[CK_DIAL_MAX + 1], *far;
	char address[100];
	int listener = ck_chan_listen("127.0.0.1:0");

	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%d", bound_port(listener));
	assert_int_equal(ck_chan_dial_many(address, 1000, chans, CK_DIAL_MAX + 1), -EINVAL);
	assert_int_equal(ck_chan_dial_many(address, 1000, chans, 3), 0);
	for (int i = 0; i < 3; i++) {
		char byte = (char)('a' + i), got = 0;
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		struct iovec iov = {&byte, 1};

		while (fd < 0) /* the listener does not block */
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_int_equal(ck_chan_adopt(fd, &far), 0);
		assert_int_equal(ck_chan_writev(far, &iov, 1), 0);
		assert_int_equal(ck_chan_read(chans[i], &got, 1), 0);
		assert_int_equal(got, byte);
		ck_chan_close(far);
		ck_chan_close(chans[i]);
	}
	close(listener);
	assert_int_equal(ck_chan_dial_many(address, 1000, chans, 3), -ECONNREFUSED);
}

static void dialing_nobody_is_refused(void **state)
{
	struct ck_chan *chan = (void *)42;
	char address[100];
	int listener = ck_chan_listen("127.0.0.1:0");

	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%d", bound_port(listener));
	close(listener);
	assert_int_equal(ck_chan_dial(address, 1000, &chan), -ECONNREFUSED);
	assert_int_equal(ck_chan_dial(address, -1, &chan), -ECONNREFUSED);
	snprintf(address, sizeof(address), "localhost:%d", 1);
	assert_int_equal(ck_chan_dial(address, 1000, &chan), -ECONNREFUSED);
	unix_address(address, sizeof(address), "nobody");
	assert_int_equal(ck_chan_dial(address, 1000, &chan), -ENOENT);
	assert_ptr_equal(chan, (void *)42);
}

static void dialing_ends_at_its_time_limit(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char address[160];
	int listener, fds[2];

	(void)state;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = busy_listener(AF_INET, (struct sockaddr *)&in, sizeof(in), fds);
	snprintf(address, sizeof(address), "127.0.0.1:%d", bound_port(listener));
	assert_dial_times_out(address);
	close(fds[0]);
	close(fds[1]);
	close(listener);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/busy", dir);
	listener = busy_listener(AF_UNIX, (struct sockaddr *)&un, sizeof(un), fds);
	snprintf(address, sizeof(address), "unix:%s/busy", dir);
	assert_dial_times_out(address);
	assert_int_equal(ck_chan_listen(address), -EADDRINUSE); /* slow is not dead */
	close(fds[0]);
	close(fds[1]);
	close(listener);
	unlink(un.sun_path);
}

struct transfer {
	struct ck_chan *chan;
	unsigned char *data;
	size_t size;
	int ret;
};

static void *read_all(void *arg)
{
	struct transfer *t = arg;

	t->ret = ck_chan_read(t->chan, t->data, t->size);
	return NULL;
}

/* BIG bytes from ends[0] to ends[1] in @count pieces of different sizes, some of them empty. */
static void transfer(struct ck_chan *ends[2], int count)
{
	struct iovec *iov = calloc((size_t)count, sizeof(*iov));
	unsigned char *data = malloc(BIG), *at = data;
	struct transfer t = {.chan = ends[1], .data = malloc(BIG), .size = BIG};
	pthread_t thread;
	size_t i;
	int k;

	for (i = 0; i < BIG; i++)
		data[i] = (unsigned char)(i * 13 + (i >> 11));
	for (k = 0; k < count; k++) {
		size_t n = k == count - 1 ? (size_t)(data + BIG - at)
			   : k % 3 == 0	  ? 0
					  : BIG / (size_t)count / 2 + (size_t)k % 5;

		iov[k] = (struct iovec){at, n};
		at += n;
	}
	assert_int_equal(pthread_create(&thread, NULL, read_all, &t), 0);
	assert_int_equal(ck_chan_writev(ends[0], iov, count), 0);
	pthread_join(thread, NULL);
	assert_int_equal(t.ret, 0);
	assert_memory_equal(t.data, data, BIG);
	free(t.data);
	free(data);
	free(iov);
}

static void all_of_an_iovec_arrives(void **state)
{
	struct ck_chan *ends[2];
	struct iovec empty[3] = {0};

	(void)state;
	socket_pair(ends);
	assert_int_equal(ck_chan_writev(ends[0], empty, 3), 0);
	assert_int_equal(ck_chan_writev(ends[0], NULL, 0), 0);
	transfer(ends, 1);
	transfer(ends, 7);
	transfer(ends, 5000); /* more than one system call takes */
	close_pair(ends);
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	transfer(ends, 1);
	transfer(ends, 5000);
	close_pair(ends);
}

static void read_some_takes_what_is_there(void **state)
{
	struct ck_chan *ends[2];
	char buf[100];

	(void)state;
	socket_pair(ends);
	send_text(ends[0], "abc");
	assert_int_equal(ck_chan_read_some(ends[1], buf, sizeof(buf)), 3);
	send_text(ends[0], "abc");
	assert_int_equal(ck_chan_read_some(ends[1], buf, 1), 1);
	assert_int_equal(ck_chan_read_some(ends[1], buf, sizeof(buf)), 2);
	assert_int_equal(ck_chan_read_some(ends[1], buf, 0), -EINVAL);
	close_pair(ends);
}

static void check_peer_gone(struct ck_chan *ends[2])
{
	struct iovec iov = {"x", 1};
	char buf[8];
	int ret, tries = 0;

	send_text(ends[0], "last");
	ck_chan_close(ends[0]);
	assert_text(ends[1], "last");
	assert_int_equal(ck_chan_read(ends[1], buf, 8), -EPIPE);
	assert_int_equal(ck_chan_read_some(ends[1], buf, 8), -EPIPE);
	do { /* TCP learns of it by the answer to a first write */
		iov = (struct iovec){"x", 1};
		ret = ck_chan_writev(ends[1], &iov, 1);
		usleep(1000);
	} while (ret == 0 && tries++ < 1000);
	assert_true(ret == -EPIPE || ret == -ECONNRESET);
	iov = (struct iovec){"x", 1};
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), -EPIPE);
	ck_chan_close(ends[1]);
}

static void a_peer_that_is_gone_is_an_error_and_no_signal(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
	socket_pair(ends);
	check_peer_gone(ends);
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	check_peer_gone(ends);
}

static void *write_forever(void *arg)
{
	struct transfer *t = arg;

	while (t->ret == 0) {
		struct iovec iov = {t->data, t->size};

		t->ret = ck_chan_writev(t->chan, &iov, 1);
	}
	return NULL;
}

static void check_shutdown(struct ck_chan *ends[2])
{
	static unsigned char data[1 << 20];
	struct transfer in = {.chan = ends[0], .data = data, .size = 1};
	struct transfer out = {.chan = ends[0], .data = data + 1, .size = sizeof(data) - 1};
	pthread_t reader, writer;
	char byte;

	assert_int_equal(pthread_create(&reader, NULL, read_all, &in), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_forever, &out), 0);
	usleep(50000);
	ck_chan_shutdown(ends[0]);
	pthread_join(reader, NULL);
	pthread_join(writer, NULL);
	assert_int_equal(in.ret, -EPIPE);
	assert_int_equal(out.ret, -EPIPE);
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), -EPIPE); /* for good */
	close_pair(ends);
}

static void shutdown_wakes_who_reads_and_who_writes_for_good(void **state)
{
	struct ck_chan *ends[2];
	char byte;

	(void)state;
	socket_pair(ends);
	check_shutdown(ends);
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	check_shutdown(ends);
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	send_text(ends[0], "queued");
	ck_chan_shutdown(ends[1]);
	assert_int_equal(ck_chan_read(ends[1], &byte, 1), -EPIPE);
	close_pair(ends);
}

static atomic_int signals; /* of two threads */

static void count_signal(int number)
{
	int saved = errno;

	(void)number;
	atomic_fetch_add(&signals, 1);
	errno = saved;
}

static void signals_of_the_program_interrupt_nothing(void **state)
{
	struct sigaction action = {.sa_handler = count_signal}; /* without SA_RESTART */
	struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct ck_chan *ends[2];
	char address[100];
	int listener, fds[2];

	(void)state;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = busy_listener(AF_INET, (struct sockaddr *)&in, sizeof(in), fds);
	snprintf(address, sizeof(address), "127.0.0.1:%d", bound_port(listener));
	socket_pair(ends);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	transfer(ends, 100);
	transfer(ends, 100);
	assert_dial_times_out(address);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_true(signals > 10);
	close_pair(ends);
	close(listener);
	close(fds[0]);
	close(fds[1]);
}

static void a_socket_that_someone_made_nonblocking_still_waits(void **state)
{
	struct ck_chan *ends[2];
	int i;

	(void)state;
	socket_pair(ends);
	for (i = 0; i < 2; i++)
		assert_int_equal(fcntl(ck_chan_fd(ends[i]), F_SETFL, O_NONBLOCK), 0);
	transfer(ends, 7);
	close_pair(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_addresses_are_einval),
		cmocka_unit_test(an_error_of_dialing_says_what_to_do),
		cmocka_unit_test(a_host_alone_means_the_default_port),
		cmocka_unit_test(every_form_of_address_connects),
		cmocka_unit_test(ipv6_connects_and_its_any_address_takes_ipv4_too),
		cmocka_unit_test(both_ends_of_tcp_have_their_options),
		cmocka_unit_test(listeners_are_nonblocking_and_close_on_exec),
		cmocka_unit_test(adopting_takes_stream_sockets_only_and_leaves_the_others_open),
		cmocka_unit_test(many_channels_are_dialed_all_or_none),
		cmocka_unit_test(dialing_nobody_is_refused),
		cmocka_unit_test(dialing_ends_at_its_time_limit),
		cmocka_unit_test(all_of_an_iovec_arrives),
		cmocka_unit_test(read_some_takes_what_is_there),
		cmocka_unit_test(a_peer_that_is_gone_is_an_error_and_no_signal),
		cmocka_unit_test(shutdown_wakes_who_reads_and_who_writes_for_good),
		cmocka_unit_test(signals_of_the_program_interrupt_nothing),
		cmocka_unit_test(a_socket_that_someone_made_nonblocking_still_waits),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
