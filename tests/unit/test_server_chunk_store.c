/*
 * tests/unit/test_server_chunk_store.c - uploads that are kept: how many, for whom, and that only
 * right bytes come back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/store/chunk_store.h"
#include "tests/unit/server_disk.h"

#define SIZE 65536u

static char dir[64];
static const struct ck_hash alice = {{1}}, bob = {{2}};

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ck-store-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct cks_chunk_store *open_store(const struct ck_hash *owner, size_t limit)
{
	struct cks_chunk_store *store;

	cks_chunk_store_create(dir, owner, limit, &store);
	return store;
}

/* The chunk of number @n. */
static struct ck_hash make_chunk(unsigned int n, unsigned char *bytes)
{
	struct ck_hash hash;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 7 + n * 31 + (i >> 8) * n);
	ck_hash(bytes, SIZE, &hash);
	return hash;
}

static int put(struct cks_chunk_store *store, unsigned int n)
{
	static unsigned char bytes[SIZE];
	struct ck_hash hash = make_chunk(n, bytes);

	return cks_chunk_store_put(store, &hash, bytes, SIZE);
}

/* 0 only if the bytes are right. */
static int get(struct cks_chunk_store *store, unsigned int n)
{
	static unsigned char bytes[SIZE], found[SIZE];
	const struct ck_hash hash = make_chunk(n, bytes);
	int ret = cks_chunk_store_get(store, &hash, found, SIZE);

	if (ret == 0)
		assert_memory_equal(bytes, found, SIZE);
	return ret;
}

static void file_of(const struct ck_hash *owner, unsigned int n, char path[256])
{
	static unsigned char bytes[SIZE];
	const struct ck_hash hash = make_chunk(n, bytes);
	char folder[CK_HASH_TEXT], name[CK_HASH_TEXT];

	ck_hash_print(owner, folder);
	ck_hash_print(&hash, name);
	snprintf(path, 256, "%s/store/%s/%s", dir, folder, name);
}

static void a_chunk_comes_back_in_a_later_session(void **state)
{
	struct cks_chunk_store *store = open_store(&alice, 1 << 20);
	char path[256];
	struct stat st;

	(void)state;
	assert_int_equal(get(store, 1), -ENOENT);
	assert_int_equal(put(store, 1), 0);
	cks_chunk_store_destroy(store);
	store = open_store(&alice, 1 << 20);
	assert_int_equal(get(store, 1), 0);
	file_of(&alice, 1, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	cks_chunk_store_destroy(store);
}

static void another_identity_does_not_find_it(void **state)
{
	struct cks_chunk_store *of_alice = open_store(&alice, 1 << 20);
	struct cks_chunk_store *of_bob = open_store(&bob, 1 << 20);

	(void)state;
	assert_int_equal(put(of_alice, 1), 0);
	assert_int_equal(get(of_bob, 1), -ENOENT);
	assert_int_equal(put(of_bob, 1), 0);
	assert_int_equal(get(of_bob, 1), 0);
	cks_chunk_store_destroy(of_alice);
	cks_chunk_store_destroy(of_bob);
}

static void bytes_of_another_hash_are_not_kept(void **state)
{
	static unsigned char bytes[SIZE];
	struct cks_chunk_store *store = open_store(&alice, 1 << 20);
	struct ck_hash hash = make_chunk(1, bytes);

	(void)state;
	bytes[5] ^= 1;
	assert_int_equal(cks_chunk_store_put(store, &hash, bytes, SIZE), -EBADMSG);
	assert_int_equal(get(store, 1), -ENOENT);
	cks_chunk_store_destroy(store);
}

static void an_altered_file_is_removed(void **state)
{
	static const off_t places[] = {0, SIZE / 2, SIZE - 1};
	struct cks_chunk_store *store = open_store(&alice, 1 << 20);
	char path[256];

	(void)state;
	file_of(&alice, 1, path);
	for (size_t i = 0; i < 5; i++) {
		unsigned char byte;
		int fd;

		assert_int_equal(put(store, 1), 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (i < 3) { /* a bit */
			assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
			byte ^= 4;
			assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
		} else {
			assert_int_equal(ftruncate(fd, i == 3 ? SIZE - 1 : SIZE + 1), 0);
		}
		close(fd);
		assert_int_equal(get(store, 1), -EBADMSG);
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(get(store, 1), -ENOENT);
	}
	cks_chunk_store_destroy(store);
}

/* Set the time of use of chunk @n to @ago seconds before now. */
static void used(unsigned int n, time_t ago)
{
	struct timespec times[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
	char path[256];

	file_of(&alice, n, path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void the_least_recently_used_go_first(void **state)
{
	struct cks_chunk_store *store = open_store(&alice, 8 * SIZE);
	unsigned int left = 0;

	(void)state;
	for (unsigned int n = 0; n < 8; n++) {
		assert_int_equal(put(store, n), 0);
		used(n, 1000 - n);
	}
	assert_int_equal(get(store, 0), 0); /* now it is the newest */
	assert_int_equal(put(store, 8), 0);
	assert_int_equal(get(store, 0), 0);
	assert_int_equal(get(store, 8), 0);
	assert_int_equal(get(store, 1), -ENOENT);
	for (unsigned int n = 0; n <= 8; n++)
		left += get(store, n) == 0;
	assert_true(left <= 8 && left >= 6);
	cks_chunk_store_destroy(store);
}

static void no_more_than_the_limit_is_kept(void **state)
{
	struct cks_chunk_store *store = open_store(&alice, 8 * SIZE);
	unsigned int left = 0;

	(void)state;
	for (unsigned int n = 0; n < 100; n++)
		assert_int_equal(put(store, n), 0);
	for (unsigned int n = 0; n < 100; n++)
		left += get(store, n) == 0;
	assert_in_range(left, 4, 8);
	cks_chunk_store_destroy(store);
	store = open_store(&alice, SIZE);
	assert_int_equal(put(store, 200), -ENOSPC);
	cks_chunk_store_destroy(store);
	assert_null(open_store(&alice, 0));
	assert_int_equal(put(NULL, 1), -ENOENT);
	assert_int_equal(get(NULL, 1), -ENOENT);
}

/* A client may keep chunks of one byte. */
static void some_files_of_the_disk_stay_free(void **state)
{
	static const struct {
		fsfilcnt_t all, free;
		int ret;
	} cases[] = {
		{1000, 49, -ENOSPC},  {1000, 50, 0}, {1u << 30, 65535, -ENOSPC},
		{1u << 30, 65536, 0}, {0, 0, 0}, /* not known */
	};
	struct cks_chunk_store *store = open_store(&alice, 1 << 20);
	const struct statvfs before = disk;

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		disk.f_files = cases[i].all;
		disk.f_favail = cases[i].free;
		assert_int_equal(put(store, i), cases[i].ret);
	}
	disk = before;
	cks_chunk_store_destroy(store);
}

static void a_part_of_the_disk_stays_free(void **state)
{
	static const struct {
		fsblkcnt_t size, free; /* GiB */
		int result;
	} cases[] = {
		{10, 1, 0},	    {100, 4, -ENOSPC}, {100, 5, 0},
		{2000, 3, -ENOSPC}, {2000, 5, 0},      {10, 0, -ENOSPC},
	};
	const struct statvfs before = disk;
	struct cks_chunk_store *store = open_store(&alice, 80 * SIZE);

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		disk.f_blocks = cases[i].size * DISK_GIB;
		disk.f_bavail = cases[i].free * DISK_GIB;
		assert_int_equal(put(store, i), cases[i].result);
	}
	disk = before;
	cks_chunk_store_destroy(store);
}

static void a_folder_that_does_not_work_keeps_nothing(void **state)
{
	struct cks_chunk_store *store;

	(void)state;
	cks_chunk_store_create("/proc/no-such-place", &alice, 1 << 20, &store);
	assert_int_equal(put(store, 1), -ENOENT);
	assert_int_equal(get(store, 1), -ENOENT);
	cks_chunk_store_destroy(store);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_chunk_comes_back_in_a_later_session),
		TEST(another_identity_does_not_find_it),
		TEST(bytes_of_another_hash_are_not_kept),
		TEST(an_altered_file_is_removed),
		TEST(the_least_recently_used_go_first),
		TEST(no_more_than_the_limit_is_kept),
		TEST(a_part_of_the_disk_stays_free),
		TEST(some_files_of_the_disk_stay_free),
		TEST(a_folder_that_does_not_work_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
