/*
 * tests/unit/test_rpc_fds.c - descriptors that go along with bytes: they arrive with these, in
 * order, and a peer that sends too many breaks nothing but its own channel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "rpc/record.h"
#include "tests/unit/rpc_ends.h"

static int file_of_size(off_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void send_with_fd(struct ck_chan *chan, const char *text, int fd)
{
	struct iovec iov = {(char *)(uintptr_t)text, strlen(text)};

	assert_int_equal(ck_chan_writev_fd(chan, &iov, 1, fd), 0);
}

static void assert_next_fd(struct ck_chan *chan, off_t size)
{
	struct stat st;
	int fd = ck_chan_take_fd(chan);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, size);
	close(fd);
}

static int open_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void descriptors_arrive_in_order_with_their_bytes(void **state)
{
	struct ck_chan *ends[2];
	int one = file_of_size(1), two = file_of_size(2), before = open_fds();

	(void)state;
	socket_pair(ends);
	assert_true(ck_chan_passes_fds(ends[0]));
	send_text(ends[0], "none");
	send_with_fd(ends[0], "first", one);
	send_with_fd(ends[0], "second", two);
	assert_text(ends[1], "none");
	assert_int_equal(ck_chan_take_fd(ends[1]), -ENOENT);
	assert_text(ends[1], "first");
	assert_text(ends[1], "second");
	assert_next_fd(ends[1], 1);
	assert_next_fd(ends[1], 2);
	assert_int_equal(ck_chan_take_fd(ends[1]), -ENOENT);
	send_with_fd(ends[1], "back", one);
	assert_text(ends[0], "back");
	assert_next_fd(ends[0], 1);
	close_pair(ends);
	assert_int_equal(open_fds(), before);
	close(one);
	close(two);
}

static void a_descriptor_is_there_when_its_record_is(void **state)
{
	unsigned char out[64];
	struct ck_reader *reader;
	struct ck_record record;
	struct ck_chan *ends[2];
	int fd = file_of_size(3);

	(void)state;
	socket_pair(ends);
	assert_int_equal(ck_reader_create(ends[1], &reader), 0);
	for (uint32_t i = 0; i < 20; i++) {
		long n = ck_call_encode(out, sizeof(out), i, 1, ck_code_nothing, NULL, 0);
		struct iovec iov = {out, (size_t)n};

		assert_true(n > 0);
		assert_int_equal(i % 5 ? ck_chan_writev(ends[0], &iov, 1)
				       : ck_chan_writev_fd(ends[0], &iov, 1, fd),
				 0);
	}
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(ck_reader_next(reader, &record), 0);
		if (i % 5 == 0)
			assert_next_fd(ends[1], 3);
	}
	ck_reader_destroy(reader);
	close_pair(ends);
	close(fd);
}

static void what_nobody_takes_is_closed_with_the_channel(void **state)
{
	struct ck_chan *ends[2];
	int fd = file_of_size(1), before = open_fds();

	(void)state;
	socket_pair(ends);
	send_with_fd(ends[0], "x", fd);
	send_with_fd(ends[0], "y", fd);
	assert_text(ends[1], "x");
	close_pair(ends); /* one that has come, one that waits in the socket */
	assert_int_equal(open_fds(), before);
	close(fd);
}

static void a_peer_that_sends_too_many_breaks_its_channel(void **state)
{
	struct ck_chan *ends[2];
	int fd = file_of_size(1), before = open_fds(), ret = 0;
	char byte;

	(void)state;
	socket_pair(ends);
	for (int i = 0; i < 20; i++)
		send_with_fd(ends[0], "x", fd);
	for (int i = 0; i < 20 && ret == 0; i++)
		ret = ck_chan_read(ends[1], &byte, 1);
	assert_int_equal(ret, -EPROTO);
	close_pair(ends);
	assert_int_equal(open_fds(), before);
	close(fd);
}

static void tcp_passes_none(void **state)
{
	struct ck_chan *ends[2];
	struct iovec iov = {(char *)(uintptr_t) "x", 1};

	(void)state;
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	assert_false(ck_chan_passes_fds(ends[0]));
	assert_int_equal(ck_chan_writev_fd(ends[0], &iov, 1, 0), -EOPNOTSUPP);
	assert_int_equal(ck_chan_take_fd(ends[1]), -EOPNOTSUPP);
	assert_talk(ends);
	close_pair(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_arrive_in_order_with_their_bytes),
		cmocka_unit_test(a_descriptor_is_there_when_its_record_is),
		cmocka_unit_test(what_nobody_takes_is_closed_with_the_channel),
		cmocka_unit_test(a_peer_that_sends_too_many_breaks_its_channel),
		cmocka_unit_test(tcp_passes_none),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
