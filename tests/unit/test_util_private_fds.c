/*
 * tests/unit/test_util_private_fds.c - descriptors that stay ours in a program that closes and
 * opens what it likes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/process/private_fds.h"

#define LIMIT 256

static int a_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static ino_t inode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* What the program does when a check of this thread has just looked at a descriptor, before the
 * next statement. */
static _Thread_local void (*after_fstat)(int fd);

int fstat(int fd, struct stat *st)
{
	void (*act)(int fd) = after_fstat;
	int ret = fstatat(fd, "", st, AT_EMPTY_PATH);

	after_fstat = NULL;
	if (act)
		act(fd);
	return ret;
}

static void its_number_is_high_and_its_flags_stay(void **state)
{
	struct ck_private_fd k;
	int low = a_file(), fd;

	(void)state;
	ck_private_fd_take(&k, low, false);
	fd = ck_private_fd_number(&k);
	assert_in_range(fd, LIMIT / 2, LIMIT - 1);
	assert_false(is_open(low));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_private_fd_close(&k);
	assert_false(is_open(fd));
	assert_int_equal(ck_private_fd_number(&k), -1);
}

static void zero_bytes_are_no_descriptor(void **state)
{
	struct ck_private_fd k = {0};

	(void)state;
	assert_int_equal(ck_private_fd_number(&k), -1);
	assert_int_equal(ck_private_fd_recent(&k), -1);
	ck_private_fd_close(&k);
	ck_private_fd_take(&k, -1, true);
	assert_int_equal(ck_private_fd_number(&k), -1);
	assert_true(is_open(0));
}

static void a_number_that_is_another_files_is_left_alone(void **state)
{
	struct ck_private_fd k;
	int other = a_file(), fd;

	(void)state;
	ck_private_fd_take(&k, a_file(), false);
	fd = ck_private_fd_number(&k);
	assert_int_equal(dup2(other, fd), fd);
	errno = ENOENT;
	assert_int_equal(ck_private_fd_number(&k), -1);
	assert_int_equal(errno, ENOENT);
	usleep(1000);
	assert_int_equal(ck_private_fd_recent(&k), -1);
	ck_private_fd_close(&k);
	assert_int_equal(inode(fd), inode(other));
	close(fd);
	close(other);
}

static bool is_unused(void)
{
	bool unused = after_fstat != NULL;

	after_fstat = NULL;
	return unused;
}

static int others;

static void replace_and_rest(int fd)
{
	assert_int_equal(dup2(others, fd), fd);
	usleep(1000); /* as a thread that loses its processor */
}

/* The time of a check is when it began. */
static void a_check_that_took_long_is_not_recent(void **state)
{
	struct ck_private_fd k;
	int fd;

	(void)state;
	others = a_file();
	ck_private_fd_take(&k, a_file(), false);
	after_fstat = replace_and_rest;
	fd = ck_private_fd_number(&k);
	if (is_unused())
		skip(); /* a libc that has fstat in its headers alone */

	assert_int_equal(inode(fd), inode(others));
	assert_int_equal(ck_private_fd_recent(&k), -1);
	ck_private_fd_close(&k);
	assert_int_equal(inode(fd), inode(others));
	close(fd);
	close(others);
}

static void replace_next(int fd)
{
	(void)fd;
	after_fstat = replace_and_rest; /* the file that the check opens */
}

/* The check of a number that is another file's opens a file for a moment. */
static void a_file_in_the_place_of_one_that_a_check_has_open_stays(void **state)
{
	struct ck_private_fd k;
	int lowest, fd;

	(void)state;
	others = a_file();
	ck_private_fd_take(&k, a_file(), false);
	fd = ck_private_fd_number(&k);
	assert_int_equal(dup2(others, fd), fd);
	assert_int_equal(pwrite(others, "USERDATA", 8, 0), 8);
	lowest = dup(others);
	close(lowest);
	after_fstat = replace_next;
	assert_int_equal(ck_private_fd_number(&k), -1);
	if (is_unused())
		skip();
	assert_int_equal(inode(lowest), inode(others));
	assert_int_equal(lseek(lowest, 0, SEEK_CUR), 0);
	close(lowest);
	close(fd);
	close(others);
}

static void a_spare_takes_the_place_again_and_again(void **state)
{
	struct ck_private_fd k;
	ino_t ino;

	(void)state;
	ck_private_fd_take(&k, a_file(), true);
	ino = inode(ck_private_fd_number(&k));
	for (int i = 0; i < 5; i++) {
		int fd = ck_private_fd_number(&k);

		close(fd);
		assert_int_not_equal(ck_private_fd_number(&k), -1);
		assert_int_equal(inode(ck_private_fd_number(&k)), ino);
	}
	close(k.spare);
	close(k.fd);
	assert_int_equal(ck_private_fd_number(&k), -1);
	ck_private_fd_close(&k);
}

static void *look(void *kept)
{
	for (int i = 0; i < 2000; i++) {
		if (ck_private_fd_number(kept) < 0)
			return kept;
	}
	return NULL;
}

static void threads_find_the_spare_together(void **state)
{
	struct ck_private_fd k;
	pthread_t threads[3];
	void *lost;

	(void)state;
	ck_private_fd_take(&k, a_file(), true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &k), 0);
	for (int i = 0; i < 20; i++) {
		close(ck_private_fd_number(&k));
		assert_int_not_equal(ck_private_fd_number(&k), -1);
		while (k.spare == k.fd) /* the thread that took the spare makes another one */
			usleep(200);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &lost);
		assert_null(lost);
	}
	ck_private_fd_close(&k);
}

/* Fill all numbers but the last @left; returns the first of those. */
static int fill(int left)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		;
	for (fd = LIMIT - left; fd < LIMIT; fd++)
		close(fd);
	return LIMIT - left;
}

static void without_room_it_stays_where_it_is_and_has_no_spare(void **state)
{
	struct ck_private_fd k;
	int first = fill(4), fd;

	(void)state;
	ck_private_fd_take(&k, a_file(), true);
	assert_in_range(ck_private_fd_number(&k), first, LIMIT - 1);
	assert_int_equal(k.spare, -1);
	ck_private_fd_close(&k);
	close(fill(1));
	fd = a_file();
	ck_private_fd_take(&k, fd, true);
	assert_int_equal(ck_private_fd_number(&k), fd);
	ck_private_fd_close(&k);
	for (fd = 3; fd < LIMIT; fd++)
		close(fd);
}

static void without_room_a_number_that_is_another_files_is_not_ours(void **state)
{
	struct ck_private_fd k;
	int other = a_file(), fd;

	(void)state;
	ck_private_fd_take(&k, a_file(), false);
	fd = ck_private_fd_number(&k);
	assert_int_equal(dup2(other, fd), fd);
	fill(0);
	assert_int_equal(ck_private_fd_number(&k), -1);
	ck_private_fd_close(&k);
	assert_int_equal(inode(fd), inode(other));
	for (fd = 3; fd < LIMIT; fd++)
		close(fd);
}

static void a_plain_one_is_not_checked(void **state)
{
	struct ck_private_fd k;
	int fd = a_file();

	(void)state;
	ck_private_fd_plain(&k, fd);
	close(fd);
	assert_int_equal(ck_private_fd_number(&k), fd);
	assert_int_equal(ck_private_fd_recent(&k), fd);
}

static void a_number_that_is_closed_before_it_is_kept_is_none(void **state)
{
	struct ck_private_fd k;
	int fd = a_file();

	(void)state;
	close(fd);
	ck_private_fd_note(&k, fd);
	assert_int_equal(a_file(), fd); /* the program's */
	assert_int_equal(ck_private_fd_number(&k), -1);
	ck_private_fd_close(&k);
	assert_true(is_open(fd));
	close(fd);
}

static void a_memory_file_is_high_and_of_one_size(void **state)
{
	struct ck_private_fd k;
	int fd, low = a_file();

	(void)state;
	close(low);
	assert_int_equal(ck_private_fd_memory(&k, "test", 4096, true), 0);
	fd = ck_private_fd_number(&k);
	assert_in_range(fd, LIMIT / 2, LIMIT - 1);
	assert_false(is_open(low));
	assert_int_equal(lseek(fd, 0, SEEK_END), 4096);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	ck_private_fd_close(&k);
	assert_int_equal(ck_private_fd_memory(&k, "test", SIZE_MAX, false), -EINVAL);
	assert_int_equal(ck_private_fd_number(&k), -1);
	assert_int_equal(a_file(), low); /* nothing is left */
	close(low);
}

static int limit_descriptors(void **state)
{
	const struct rlimit limit = {LIMIT, LIMIT};

	(void)state;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_number_is_high_and_its_flags_stay),
		cmocka_unit_test(zero_bytes_are_no_descriptor),
		cmocka_unit_test(a_number_that_is_another_files_is_left_alone),
		cmocka_unit_test(a_check_that_took_long_is_not_recent),
		cmocka_unit_test(a_file_in_the_place_of_one_that_a_check_has_open_stays),
		cmocka_unit_test(a_spare_takes_the_place_again_and_again),
		cmocka_unit_test(threads_find_the_spare_together),
		cmocka_unit_test(without_room_it_stays_where_it_is_and_has_no_spare),
		cmocka_unit_test(without_room_a_number_that_is_another_files_is_not_ours),
		cmocka_unit_test(a_plain_one_is_not_checked),
		cmocka_unit_test(a_number_that_is_closed_before_it_is_kept_is_none),
		cmocka_unit_test(a_memory_file_is_high_and_of_one_size),
	};

	return cmocka_run_group_tests(tests, limit_descriptors, NULL);
}
