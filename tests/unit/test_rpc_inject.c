/*
 * test_rpc_inject.c - a played network: what is sent, what arrives, and when at the earliest.
 *
 * A loaded machine makes everything late, so nothing here is bounded from above but by what doing
 * it wrong would take.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>

#include "tests/network/inject.h"
#include "tests/unit/rpc_ends.h"

#define MUCH (16u << 20)

static void times_and_rates_are_read_to_the_letter(void **state)
{
	struct ck_inject n = {.delay_ns = 77};
	static const char *const wrong[] = {
		"",
		",",
		"rtt",
		"rtt=",
		"rtt=5",
		"rtt=us",
		"rtt=-5us",
		"rtt= 5us",
		"rtt=5us ",
		"rtt=5US",
		"rtt=5us,",
		",rtt=5us",
		"rtt=5us,rtt=6us",
		"rtt=5us;bw=1G",
		"rtt=5.5ms",
		"rtt=0x5us",
		"rtt=11s",
		"rtt=99999999999999999999us",
		"bw=",
		"bw=0",
		"bw=999",
		"bw=1g",
		"bw=10Gbit",
		"bw=1G,bw=1G",
		"bw=99999999999T",
		"delay=5us",
		"500us",
		"rtt=5us,x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (ck_inject_parse(wrong[i], &n) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
	}
	assert_int_equal(n.delay_ns, 77);
	assert_int_equal(ck_inject_parse("rtt=500us,bw=10G", &n), 0);
	assert_int_equal(n.delay_ns, 250000);
	assert_int_equal(n.bits_per_second, 10000000000);
	assert_int_equal(ck_inject_parse("bw=1k,rtt=10s", &n), 0);
	assert_int_equal(n.delay_ns, 5000000000);
	assert_int_equal(n.bits_per_second, 1000);
	assert_int_equal(ck_inject_parse("rtt=0us", &n), 0);
	assert_int_equal(n.delay_ns, 0);
	assert_int_equal(n.bits_per_second, 0);
}

/* A client's end (0) and a server's (1) of a connection over a network like @text. */
static void network(const char *text, struct ck_chan *ends[2])
{
	struct ck_inject like;
	char address[100];

	unix_address(address, sizeof(address), "s");
	assert_int_equal(ck_inject_parse(text, &like), 0);
	connect_pair(address, "", ends);
	ck_inject_connect(&like);
	assert_int_equal(ck_inject_wrap(&like, ends[0], &ends[0]), 0);
}

static void close_ends(struct ck_chan *ends[2])
{
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
}

static void each_direction_takes_half_of_the_round_trip(void **state)
{
	struct ck_chan *ends[2];
	double began = now(), there;
	char text[4];

	(void)state;
	network("rtt=60ms", ends);
	assert_true(now() - began >= 0.060); /* connecting is a round trip */
	began = now();
	send_text(ends[0], "ping");
	assert_int_equal(ck_chan_read(ends[1], text, 4), 0);
	there = now();
	assert_true(there - began >= 0.030);
	send_text(ends[1], "pong");
	assert_int_equal(ck_chan_read(ends[0], text, 4), 0);
	assert_memory_equal(text, "pong", 4);
	assert_true(now() - there >= 0.030);
	close_ends(ends);
}

static void messages_that_are_under_way_do_not_wait_for_one_another(void **state)
{
	struct ck_chan *ends[2];
	char text[4];
	double began;

	(void)state;
	network("rtt=100ms", ends);
	began = now();
	for (int i = 0; i < 100; i++)
		send_text(ends[0], "ping");
	for (int i = 0; i < 100; i++)
		assert_int_equal(ck_chan_read(ends[1], text, 4), 0);
	assert_true(now() - began < 2.5); /* one after another they would take 5 s */
	close_ends(ends);
}

/* The byte at @at of a stream in which neighbours differ. */
static unsigned char pattern(size_t at)
{
	return (unsigned char)(at * 31 + at / 251);
}

/* Writes MUCH bytes in pieces of many sizes, some of several parts. */
static void *write_much(void *arg)
{
	static unsigned char bytes[MUCH];
	struct ck_chan *chan = arg;
	size_t at = 0, size = 1;

	for (size_t i = 0; i < MUCH; i++)
		bytes[i] = pattern(i);
	while (at < MUCH) {
		size_t n = size < MUCH - at ? size : MUCH - at;
		struct iovec iov[3] = {
			{bytes + at, n / 3}, {NULL, 0}, {bytes + at + n / 3, n - n / 3}};

		if (ck_chan_writev(chan, iov, 3) < 0)
			break;
		at += n;
		size = size * 7 % 300007;
	}
	return NULL;
}

static size_t read_much(struct ck_chan *chan)
{
	unsigned char buf[70001];
	size_t at = 0;
	long n;

	while (at < MUCH && (n = ck_chan_read_some(chan, buf, sizeof(buf))) > 0) {
		for (long i = 0; i < n; i++) {
			if (buf[i] != pattern(at + (size_t)i))
				return at + (size_t)i;
		}
		at += (size_t)n;
	}
	return at;
}

static void the_bytes_are_the_same_in_both_directions(void **state)
{
	for (int from = 0; from < 2; from++) {
		struct ck_chan *ends[2];
		pthread_t writer;

		(void)state;
		network("rtt=2ms,bw=20G", ends);
		assert_int_equal(pthread_create(&writer, NULL, write_much, ends[from]), 0);
		assert_int_equal(read_much(ends[!from]), MUCH);
		pthread_join(writer, NULL);
		close_ends(ends);
	}
}

static void the_link_is_no_faster_than_it_is_said_to_be(void **state)
{
	static unsigned char bytes[50000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ck_chan *ends[2];
	double began;

	(void)state;
	network("bw=4M", ends);
	began = now();
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	assert_int_equal(ck_chan_read(ends[1], bytes, sizeof(bytes)), 0);
	assert_true(now() - began >= 0.0999); /* 400,000 bits */
	began = now();
	iov = (struct iovec){bytes, sizeof(bytes)};
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), 0);
	assert_int_equal(ck_chan_read(ends[0], bytes, sizeof(bytes)), 0);
	assert_true(now() - began >= 0.0999);
	close_ends(ends);
}

static void two_connections_share_the_link(void **state)
{
	static unsigned char bytes[25000];
	struct iovec iov[2] = {{bytes, sizeof(bytes)}, {bytes, sizeof(bytes)}};
	struct ck_chan *a[2], *b[2];
	double began;

	(void)state;
	network("bw=4M", a);
	network("bw=4M", b);
	began = now();
	assert_int_equal(ck_chan_writev(a[0], &iov[0], 1), 0);
	assert_int_equal(ck_chan_writev(b[0], &iov[1], 1), 0);
	assert_int_equal(ck_chan_read(a[1], bytes, sizeof(bytes)), 0);
	assert_int_equal(ck_chan_read(b[1], bytes, sizeof(bytes)), 0);
	assert_true(now() - began >= 0.0999);
	ck_chan_close(a[0]);
	ck_chan_close(a[1]);
	close_ends(b);
}

static void what_was_written_arrives_although_the_channel_is_closed(void **state)
{
	struct ck_chan *ends[2];
	char text[4];

	(void)state;
	network("rtt=20ms", ends);
	send_text(ends[0], "last");
	ck_chan_close(ends[0]);
	assert_int_equal(ck_chan_read(ends[1], text, 4), 0);
	assert_memory_equal(text, "last", 4);
	assert_int_equal(ck_chan_read(ends[1], text, 1), -EPIPE);
	ck_chan_close(ends[1]);
}

static void the_peers_last_bytes_come_before_its_end(void **state)
{
	struct ck_chan *ends[2];
	char text[4];

	(void)state;
	network("rtt=20ms", ends);
	send_text(ends[1], "last");
	ck_chan_close(ends[1]);
	assert_int_equal(ck_chan_read(ends[0], text, 4), 0);
	assert_memory_equal(text, "last", 4);
	assert_int_equal(ck_chan_read(ends[0], text, 1), -EPIPE);
	assert_int_equal(ck_chan_read(ends[0], text, 1), -EPIPE); /* and stays */
	ck_chan_close(ends[0]);
}

static void *shut_down_soon(void *chan)
{
	usleep(20000);
	ck_chan_shutdown(chan);
	return NULL;
}

static void a_shutdown_wakes_who_reads(void **state)
{
	struct ck_chan *ends[2];
	pthread_t thread;
	char byte;

	(void)state;
	network("rtt=100ms", ends);
	send_text(ends[1], "x"); /* under way when the channel goes down, or has come */
	usleep(1000);
	assert_int_equal(pthread_create(&thread, NULL, shut_down_soon, ends[0]), 0);
	while (ck_chan_read(ends[0], &byte, 1) == 0)
		;
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), -EPIPE);
	pthread_join(thread, NULL);
	close_ends(ends);
}

static void a_silent_peer_times_out(void **state)
{
	struct ck_chan *ends[2];
	double began;
	char byte;

	(void)state;
	network("rtt=1ms", ends);
	ck_chan_timeout(ends[0], 50);
	began = now();
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), -ETIMEDOUT);
	assert_true(now() - began >= 0.050);
	send_text(ends[1], "x");
	ck_chan_timeout(ends[0], 0);
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), 0);
	close_ends(ends);
}

static void a_peer_that_does_not_read_does_not_keep_a_channel_from_closing(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	network("rtt=1ms", ends);
	write_much(ends[0]); /* more than a socket holds, and less than may be under way */
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
}

static void a_forked_child_closes_its_copy(void **state)
{
	struct ck_chan *ends[2];
	int status;
	char byte;
	pid_t child;

	(void)state;
	network("rtt=1ms", ends);
	assert_false(ck_chan_passes_fds(ends[0]));
	child = fork();
	if (child == 0) {
		alarm(20);
		ck_chan_close(ends[0]);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	send_text(ends[0], "x");
	assert_int_equal(ck_chan_read(ends[1], &byte, 1), 0);
	close_ends(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_and_rates_are_read_to_the_letter),
		cmocka_unit_test(each_direction_takes_half_of_the_round_trip),
		cmocka_unit_test(messages_that_are_under_way_do_not_wait_for_one_another),
		cmocka_unit_test(the_bytes_are_the_same_in_both_directions),
		cmocka_unit_test(the_link_is_no_faster_than_it_is_said_to_be),
		cmocka_unit_test(two_connections_share_the_link),
		cmocka_unit_test(what_was_written_arrives_although_the_channel_is_closed),
		cmocka_unit_test(the_peers_last_bytes_come_before_its_end),
		cmocka_unit_test(a_shutdown_wakes_who_reads),
		cmocka_unit_test(a_silent_peer_times_out),
		cmocka_unit_test(a_peer_that_does_not_read_does_not_keep_a_channel_from_closing),
		cmocka_unit_test(a_forked_child_closes_its_copy),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
