/*
 * tests/unit/test_client_chunk_index.c - the index of chunks on the client, and where the bytes of
 * an upload come from.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/copy/chunk_lookup.h"
#include "client/copy/upload_source.h"
#include "util/process/private_fds.h"

#define NOW 1000000u
#define PAGES ((size_t)64 << 10)

static char dir[64], path[128];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ck-index-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/cricket/chunks", dir);
	return setenv("XDG_CACHE_HOME", dir, 1);
}

static int remove_dir(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct ckc_chunk_key key_of(uint64_t n)
{
	return (struct ckc_chunk_key){.device = 1, .inode = n, .size = 4096, .length = 4096};
}

static struct ckc_chunk_entry entry_of(uint64_t n)
{
	struct ckc_chunk_entry e = {.sure = n % 2};

	ck_hash(&n, sizeof(n), &e.hash);
	return e;
}

static bool has(int index, uint64_t n)
{
	const struct ckc_chunk_key key = key_of(n);
	struct ckc_chunk_entry found, wanted = entry_of(n);

	if (!ckc_chunk_index_find(index, &key, NOW, &found))
		return false;
	assert_true(ck_hash_equal(&found.hash, &wanted.hash) && found.sure == wanted.sure);
	return true;
}

static void put(int index, uint64_t n, uint32_t now)
{
	const struct ckc_chunk_key key = key_of(n);
	const struct ckc_chunk_entry e = entry_of(n);

	ckc_chunk_index_put(index, &key, now, &e);
}

static int open_index(void)
{
	int index = ckc_chunk_index_open();

	assert_true(index >= 0);
	return index;
}

static void entries_are_found_by_other_processes(void **state)
{
	int index = open_index();

	(void)state;
	for (uint64_t n = 0; n < 1000; n++)
		put(index, n, NOW);
	close(index);
	index = open_index();
	for (uint64_t n = 0; n < 1000; n++)
		assert_true(has(index, n));
	assert_false(has(index, 1000));
	close(index);
}

static void every_part_of_a_key_counts(void **state)
{
	const struct ckc_chunk_key key = key_of(5);
	const struct ckc_chunk_entry e = entry_of(5);
	int index = open_index();

	(void)state;
	ckc_chunk_index_put(index, &key, NOW, &e);
	for (size_t i = 0; i < sizeof(key); i += 8) {
		struct ckc_chunk_key other = key;
		struct ckc_chunk_entry found;

		((unsigned char *)&other)[i] ^= 1;
		assert_false(ckc_chunk_index_find(index, &other, NOW, &found));
	}
	close(index);
}

/* Damage each byte of the file in turn: an entry is found with its hash, or not at all. */
static void a_damaged_record_is_not_found(void **state)
{
	int index = open_index();
	struct stat st;
	size_t lost = 0;

	(void)state;
	put(index, 7, NOW);
	assert_int_equal(fstat(index, &st), 0);
	for (off_t at = st.st_size - 112; at < st.st_size; at++) {
		unsigned char byte;

		assert_int_equal(pread(index, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(index, &byte, 1, at), 1);
		lost += !has(index, 7);
		byte ^= 0x10;
		assert_int_equal(pwrite(index, &byte, 1, at), 1);
	}
	assert_int_equal(lost, 112);
	assert_true(has(index, 7));
	close(index);
}

static void a_truncated_file_has_less(void **state)
{
	int index = open_index();
	struct stat st;

	(void)state;
	put(index, 7, NOW);
	assert_int_equal(fstat(index, &st), 0);
	for (off_t size = st.st_size - 1; size >= 0; size -= 13) {
		assert_int_equal(ftruncate(index, size), 0);
		assert_false(has(index, 7));
	}
	put(index, 7, NOW);
	assert_true(has(index, 7));
	close(index);
}

static void the_file_is_bounded_and_the_newest_stay(void **state)
{
	int index = open_index();
	size_t old = 0, new = 0;
	struct stat st;

	(void)state;
	for (uint64_t n = 0; n < 150000; n++)
		put(index, n, NOW + (uint32_t)n);
	assert_int_equal(fstat(index, &st), 0);
	assert_true(st.st_size <= 8 << 20);
	for (uint64_t n = 0; n < 1000; n++) {
		old += has(index, n);
		new += has(index, 149999 - n);
	}
	assert_int_equal(new, 1000);
	assert_true(old < 50);
	close(index);
}

static void a_file_that_others_can_write_is_not_used(void **state)
{
	int index = open_index();

	(void)state;
	close(index);
	assert_int_equal(chmod(path, 0666), 0);
	assert_true(unsetenv("HOME") == 0 && ckc_chunk_index_open() < 0);
}

static void a_limit_of_files_does_not_end_the_process(void **state)
{
	struct rlimit most, none = {.rlim_cur = 0};
	int index = open_index();

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &most), 0);
	none.rlim_max = most.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	put(index, 7, NOW);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
	assert_false(has(index, 7));
	close(index);
}

/* A file of PAGES bytes, mapped. */
static char *map_file(int flags, int rights, int *fd)
{
	char name[128];
	char *bytes;

	snprintf(name, sizeof(name), "%s/weights", dir);
	*fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(*fd, PAGES), 0);
	bytes = mmap(NULL, PAGES, rights, flags, *fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	return bytes;
}

static void a_mapped_file_is_named_by_its_state(void **state)
{
	struct ckc_upload_source source;
	struct stat st;
	int fd;
	char *bytes = map_file(MAP_PRIVATE, PROT_READ, &fd);

	(void)state;
	assert_int_equal(ckc_upload_source_open(bytes + 4096, PAGES - 4096, &source), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(source.file && source.key.inode == st.st_ino && source.key.offset == 4096);
	assert_int_equal(source.key.size, PAGES);
	assert_false(source.sure); /* it has just changed */
	assert_true(ckc_upload_source_is_intact(&source, 0, PAGES - 4096));
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
	assert_false(ckc_upload_source_is_intact(&source, 0, PAGES - 4096));
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

static void written_pages_are_not_the_files(void **state)
{
	struct ckc_upload_source source;
	int fd;
	char *bytes = map_file(MAP_PRIVATE, PROT_READ | PROT_WRITE, &fd);

	(void)state;
	assert_int_equal(ckc_upload_source_open(bytes, PAGES, &source), 0);
	assert_int_equal(bytes[0], 0); /* a page that is only read stays the file's */
	assert_true(ckc_upload_source_is_intact(&source, 0, PAGES));
	bytes[3 * 4096 + 5] = 1;
	assert_false(ckc_upload_source_is_intact(&source, 0, PAGES));
	assert_true(ckc_upload_source_is_intact(&source, 0, 3 * 4096));
	assert_true(ckc_upload_source_is_intact(&source, 4 * 4096, PAGES - 4 * 4096));
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

static void a_file_that_became_shorter_is_left_alone(void **state)
{
	struct ckc_upload_source source;
	int fd;
	char *bytes = map_file(MAP_PRIVATE, PROT_READ, &fd);

	(void)state;
	assert_int_equal(ftruncate(fd, PAGES / 2), 0);
	assert_true(ckc_upload_source_open(bytes, PAGES, &source) < 0);
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

static void a_shared_mapping_that_may_be_written_is_left_alone(void **state)
{
	struct ckc_upload_source source;
	int fd;
	char *bytes = map_file(MAP_SHARED, PROT_READ | PROT_WRITE, &fd);

	(void)state;
	assert_true(ckc_upload_source_open(bytes, PAGES, &source) < 0);
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

static void memory_that_cannot_be_read_is_left_alone(void **state)
{
	struct ckc_upload_source source;
	char *bytes = mmap(NULL, PAGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(ckc_upload_source_open(bytes, PAGES, &source) < 0);
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	assert_true(ckc_upload_source_open(bytes, PAGES, &source) < 0);
	ckc_upload_source_close(&source);
}

static void a_young_file_is_hashed_again(void **state)
{
	const int64_t second = 1000000000, now = 5000 * second;

	(void)state;
	assert_false(ckc_upload_source_is_old(now - second, now - second, now));
	assert_false(ckc_upload_source_is_old(now - 3600 * second, now - second, now));
	assert_false(ckc_upload_source_is_old(now + second, now - 3600 * second, now));
	assert_true(ckc_upload_source_is_old(now - 3600 * second, now - 61 * second, now));
}

/* The second start hashes what the first one could not be sure of; the third need not. */
static void a_hash_of_a_file_that_has_become_old_is_sure(void **state)
{
	struct ckc_upload_source source;
	struct ck_private_fd index;
	struct ckc_chunk_lookup lookup = {&source, &index, NOW, false};
	struct ckc_chunk_entry entry = {.sure = false};
	struct ckc_chunk_key key;
	struct ckc_stored_chunk chunk;
	int fd;
	char *bytes = map_file(MAP_PRIVATE, PROT_READ, &fd);

	(void)state;
	assert_int_equal(ckc_upload_source_open(bytes, PAGES, &source), 0);
	ck_private_fd_take(&index, ckc_chunk_index_open(), false);
	ck_hash(bytes, PAGES, &entry.hash);
	key = ckc_upload_source_key(&source, 0, PAGES);
	ckc_chunk_index_put(ck_private_fd_number(&index), &key, NOW, &entry);
	lookup.rehash = true;
	assert_true(ckc_chunk_find(&lookup, 0, PAGES, &chunk));
	lookup.rehash = false;
	assert_false(ckc_chunk_find(&lookup, 0, PAGES, &chunk)); /* it is still young */
	source.sure = lookup.rehash = true;
	assert_true(ckc_chunk_find(&lookup, 0, PAGES, &chunk));
	lookup.rehash = false;
	assert_true(ckc_chunk_find(&lookup, 0, PAGES, &chunk));
	assert_true(ck_hash_equal(&chunk.hash, &entry.hash));
	source.sure = false; /* another file may be mapped than the one of this name */
	assert_false(ckc_chunk_find(&lookup, 0, PAGES, &chunk));
	ck_private_fd_close(&index);
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

/* A mount can hide the file that is mapped: its name leads to another one then. */
static void a_chunk_of_the_file_has_to_have_the_bytes_in_memory(void **state)
{
	struct ckc_upload_source source;
	struct ck_private_fd index;
	struct ckc_chunk_lookup lookup = {&source, &index, NOW, true};
	struct ckc_chunk_entry entry = {.sure = false};
	struct ckc_chunk_key key;
	struct ckc_stored_chunk chunk;
	int fd;
	char *bytes = map_file(MAP_PRIVATE, PROT_READ, &fd), *other = calloc(1, PAGES);
	size_t begin;

	(void)state;
	assert_int_equal(ckc_upload_source_open(bytes, PAGES, &source), 0);
	ck_private_fd_take(&index, ckc_chunk_index_open(), false);
	key = ckc_upload_source_whole(&source, 4096, &begin);
	ckc_chunk_index_put(ck_private_fd_number(&index), &key, NOW, &entry);
	assert_true(ckc_chunk_find(&lookup, 4096, 8192, &chunk));
	assert_true(chunk.size == PAGES && chunk.begin == begin);
	source.bytes = other;
	source.private = false;
	assert_true(ckc_chunk_find(&lookup, 4096, 8192, &chunk));
	other[4096 + 8191] = 1;
	assert_false(ckc_chunk_find(&lookup, 4096, 8192, &chunk));
	free(other);
	ck_private_fd_close(&index);
	ckc_upload_source_close(&source);
	munmap(bytes, PAGES);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(entries_are_found_by_other_processes),
		TEST(every_part_of_a_key_counts),
		TEST(a_damaged_record_is_not_found),
		TEST(a_truncated_file_has_less),
		TEST(the_file_is_bounded_and_the_newest_stay),
		TEST(a_file_that_others_can_write_is_not_used),
		TEST(a_limit_of_files_does_not_end_the_process),
		TEST(a_mapped_file_is_named_by_its_state),
		TEST(written_pages_are_not_the_files),
		TEST(a_file_that_became_shorter_is_left_alone),
		TEST(a_shared_mapping_that_may_be_written_is_left_alone),
		TEST(memory_that_cannot_be_read_is_left_alone),
		TEST(a_young_file_is_hashed_again),
		TEST(a_hash_of_a_file_that_has_become_old_is_sure),
		TEST(a_chunk_of_the_file_has_to_have_the_bytes_in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
