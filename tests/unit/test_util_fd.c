/*
 * tests/unit/test_util_fd.c - whole reads and writes, flags, passing descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/process/fd.h"

#define BIG (4u << 20) /* more than any pipe or socket buffer holds */

static void *read_big(void *arg)
{
	char *data = malloc(BIG);

	if (ck_fd_read_full(*(int *)arg, data, BIG) != 0) {
		free(data);
		return NULL;
	}
	return data;
}

/* Write BIG bytes in `count` pieces into to[1] while a thread reads them from to[0]. */
static void pass_big(int to[2], size_t count)
{
	struct iovec *iov = calloc(count, sizeof(*iov));
	char *data = malloc(BIG), *got;
	pthread_t thread;
	void *result;

	for (size_t i = 0; i < BIG; i++)
		data[i] = (char)(i * 7 + (i >> 12));
	for (size_t i = 0; i < count; i++)
		iov[i] = (struct iovec){data + i * (BIG / count), BIG / count};
	assert_int_equal(pthread_create(&thread, NULL, read_big, &to[0]), 0);
	assert_int_equal(ck_fd_writev_full(to[1], iov, count), 0);
	pthread_join(thread, &result);
	got = result;
	assert_non_null(got);
	assert_memory_equal(got, data, BIG);
	free(got);
	free(data);
	free(iov);
}

static void all_bytes_arrive_through_pipes_and_nonblocking_sockets(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pass_big(fds, 4096); /* more pieces than one writev takes */
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(ck_fd_set_nonblock(fds[0], true), 0);
	assert_int_equal(ck_fd_set_nonblock(fds[1], true), 0);
	assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	pass_big(fds, 1);
	pass_big(fds, 4096);
	assert_int_equal(ck_fd_set_nonblock(fds[1], false), 0);
	assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	close(fds[0]);
	close(fds[1]);
}

static void empty_pieces_are_passed_over(void **state)
{
	struct iovec iov[] = {{NULL, 0}, {"ab", 2}, {NULL, 0}, {"c", 1}, {NULL, 0}};
	char got[3];
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(ck_fd_writev_full(fds[1], iov, 5), 0);
	assert_int_equal(ck_fd_write_full(fds[1], NULL, 0), 0);
	assert_int_equal(ck_fd_read_full(fds[0], got, 3), 0);
	assert_memory_equal(got, "abc", 3);
	close(fds[0]);
	close(fds[1]);
}

static void a_closed_end_is_told_apart_by_where_it_closed(void **state)
{
	char got[4];
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(ck_fd_write_full(fds[1], "ab", 2), 0);
	close(fds[1]);
	assert_int_equal(ck_fd_read_full(fds[0], got, 4), -ECONNRESET);
	assert_int_equal(ck_fd_read_full(fds[0], got, 4), -ENODATA);
	/* no SIGPIPE, which would end this program */
	assert_int_equal(ck_fd_write_full(fds[0], "x", 1), -EPIPE);
	close(fds[0]);
	assert_int_equal(ck_fd_read_full(fds[0], got, 1), -EBADF);
	assert_int_equal(ck_fd_set_cloexec(fds[0], true), -EBADF);
}

static void a_descriptor_travels_with_its_bytes(void **state)
{
	char got[6] = {0};
	int socks[2], file[2], fd = -2;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	assert_int_equal(pipe(file), 0);
	assert_int_equal(ck_fd_send(socks[0], file[1], "hello", 5), 0);
	assert_int_equal(ck_fd_recv(socks[1], got, 5, &fd), 0);
	assert_string_equal(got, "hello");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ck_fd_set_cloexec(fd, false), 0);
	assert_false(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ck_fd_write_full(fd, "z", 1), 0);
	assert_int_equal(ck_fd_read_full(file[0], got, 1), 0);
	assert_int_equal(got[0], 'z');
	assert_int_equal(ck_fd_send(socks[0], file[1], "", 0), -EINVAL);
	close(fd);
	close(file[0]);
	close(file[1]);
	close(socks[0]);
	close(socks[1]);
}

static void bytes_without_a_descriptor_give_none(void **state)
{
	char got[4];
	int socks[2], fd = -2;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	assert_int_equal(ck_fd_write_full(socks[0], "abcd", 4), 0);
	assert_int_equal(ck_fd_recv(socks[1], got, 4, &fd), 0);
	assert_int_equal(fd, -1);
	close(socks[0]);
	assert_int_equal(ck_fd_recv(socks[1], got, 4, &fd), -ENODATA);
	close(socks[1]);
}

/* A sender that attaches two: the receiver keeps one and leaks none. */
static void extra_descriptors_are_closed(void **state)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec iov = {"x", 1};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int socks[2], fd, before, after, both[2] = {0, 0};
	char got;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socks), 0);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(both));
	memcpy(CMSG_DATA(header), both, sizeof(both));
	before = dup(0);
	assert_int_equal(sendmsg(socks[0], &message, 0), 1);
	assert_int_equal(ck_fd_recv(socks[1], &got, 1, &fd), 0);
	assert_true(fd >= 0);
	close(fd);
	after = dup(0);
	assert_int_equal(after, before + 1);
	close(after);
	close(before);
	close(socks[0]);
	close(socks[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_bytes_arrive_through_pipes_and_nonblocking_sockets),
		cmocka_unit_test(empty_pieces_are_passed_over),
		cmocka_unit_test(a_closed_end_is_told_apart_by_where_it_closed),
		cmocka_unit_test(a_descriptor_travels_with_its_bytes),
		cmocka_unit_test(bytes_without_a_descriptor_give_none),
		cmocka_unit_test(extra_descriptors_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
