/*
 * tests/unit/test_server_modcache.c - the module cache: what is kept, for how long, and from whom.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/modules/cachedir.h"
#include "server/modules/modcache.h"

#define LIMIT (1u << 20)

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ck-cache-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static const struct ck_hash alice = {{1}}, bob = {{2}};

static struct cks_modcache *open_for(const struct ck_hash *owner, size_t limit, size_t owner_limit)
{
	struct cks_modcache *cache = NULL;

	assert_int_equal(cks_modcache_open(dir, owner, limit, owner_limit, &cache), 0);
	return cache;
}

static struct cks_modcache *open_cache(size_t limit)
{
	return open_for(&alice, limit, limit);
}

/* An image of @size bytes that @seed tells from others. */
static struct ck_hash image(unsigned char *data, size_t size, unsigned int seed)
{
	struct ck_hash hash;

	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)(i * 7 + seed);
	memcpy(data, &seed, sizeof(seed));
	ck_hash(data, size, &hash);
	return hash;
}

static struct ck_hash put(struct cks_modcache *cache, size_t size, unsigned int seed)
{
	unsigned char *data = malloc(size);
	struct ck_hash hash = image(data, size, seed);

	assert_int_equal(cks_modcache_put(cache, &hash, data, size), 0);
	free(data);
	return hash;
}

static int get(struct cks_modcache *cache, const struct ck_hash *hash, size_t *size)
{
	void *data = NULL;
	int ret = cks_modcache_get(cache, hash, &data, size);

	if (ret == 0)
		assert_int_equal(((char *)data)[*size], 0); /* text is terminated */
	free(data);
	return ret;
}

static void file_of(const struct ck_hash *hash, char *path, size_t size)
{
	char text[CK_HASH_TEXT];

	ck_hash_print(hash, text);
	snprintf(path, size, "%s/%s", dir, text);
}

static void an_image_is_there_for_the_next_session(void **state)
{
	struct cks_modcache *cache = open_cache(LIMIT);
	struct ck_hash hash = put(cache, 5000, 1), listed[CK_MODCACHE_LIST];
	size_t size;

	(void)state;
	assert_int_equal(cks_modcache_list(cache, listed), 0); /* it was not there at the start */
	assert_int_equal(get(cache, &hash, &size), 0);
	cks_modcache_close(cache);
	cache = open_cache(LIMIT);
	assert_int_equal(cks_modcache_list(cache, listed), 1);
	assert_true(ck_hash_equal(&listed[0], &hash));
	assert_int_equal(get(cache, &hash, &size), 0);
	assert_int_equal(size, 5000);
	cks_modcache_close(cache);
}

static void an_unknown_image_is_not_there(void **state)
{
	struct cks_modcache *cache = open_cache(LIMIT);
	struct ck_hash hash = {{42}};
	size_t size;

	(void)state;
	assert_int_equal(get(cache, &hash, &size), -ENOENT);
	cks_modcache_close(cache);
}

static void altered_and_cut_files_are_found_out_and_removed(void **state)
{
	struct cks_modcache *cache = open_cache(LIMIT);
	struct ck_hash altered = put(cache, 5000, 1), cut = put(cache, 5000, 2);
	char path[160];
	size_t size;
	int fd;

	(void)state;
	cks_modcache_close(cache);
	file_of(&altered, path, sizeof(path));
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 4000), 1);
	close(fd);
	file_of(&cut, path, sizeof(path));
	assert_int_equal(truncate(path, 100), 0);
	cache = open_cache(LIMIT);
	assert_int_equal(get(cache, &altered, &size), -EBADMSG);
	assert_int_equal(get(cache, &cut, &size), -EBADMSG);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(get(cache, &cut, &size), -ENOENT);
	cks_modcache_close(cache);
}

static void the_longest_unused_go_when_there_is_too_much(void **state)
{
	struct cks_modcache *cache = open_cache(LIMIT);
	struct cks_cachefile *files = NULL;
	struct ck_hash first = put(cache, LIMIT / 4, 1), newest;
	struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char path[160];
	size_t total = 0;
	long count;
	int fd;

	(void)state;
	file_of(&first, path, sizeof(path));
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
	for (unsigned int i = 2; i < 10; i++)
		newest = put(cache, LIMIT / 4, i);
	fd = open(dir, O_RDONLY);
	count = cks_cachedir_scan(fd, &files);
	for (long i = 0; i < count; i++) {
		total += files[i].size;
		assert_false(ck_hash_equal(&files[i].hash, &first));
	}
	assert_true(count > 0 && total <= LIMIT);
	assert_true(ck_hash_equal(&files[0].hash, &newest));
	free(files);
	close(fd);
	cks_modcache_close(cache);
}

static void what_a_session_was_told_of_stays_for_it(void **state)
{
	struct cks_modcache *writer = open_cache(LIMIT), *reader;
	struct ck_hash hash = put(writer, 5000, 1);
	char path[160];
	size_t size;

	(void)state;
	reader = open_cache(LIMIT);
	file_of(&hash, path, sizeof(path));
	assert_int_equal(unlink(path), 0); /* as an eviction by another session does */
	assert_int_equal(get(reader, &hash, &size), 0);
	cks_modcache_close(reader);
	cks_modcache_close(writer);
}

/* Images in the folder, whoever uploaded them. */
static long stored(void)
{
	struct cks_cachefile *files = NULL;
	int fd = open(dir, O_RDONLY);
	long count = cks_cachedir_scan(fd, &files);

	free(files);
	close(fd);
	return count;
}

static void an_image_is_for_those_only_who_have_uploaded_it(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, LIMIT), *b;
	struct ck_hash hash = put(a, 5000, 1), listed[CK_MODCACHE_LIST];
	size_t size;

	(void)state;
	b = open_for(&bob, LIMIT, LIMIT);
	assert_int_equal(cks_modcache_list(b, listed), 0);
	assert_int_equal(get(b, &hash, &size), -ENOENT); /* not by its hash either */
	put(b, 6000, 2);
	assert_int_equal(get(b, &hash, &size), -ENOENT);
	put(b, 5000, 1);
	assert_int_equal(get(b, &hash, &size), 0);
	cks_modcache_close(b);
	b = open_for(&bob, LIMIT, LIMIT);
	assert_int_equal(cks_modcache_list(b, listed), 2);
	assert_int_equal(get(b, &hash, &size), 0);
	assert_int_equal(stored(), 2); /* once, not once for each */
	cks_modcache_close(b);
	cks_modcache_close(a);
}

static void sessions_of_one_identity_at_a_time_share(void **state)
{
	struct cks_modcache *first = open_for(&alice, LIMIT, LIMIT), *second;
	struct ck_hash hash;
	size_t size;

	(void)state;
	put(first, 100, 7);
	second = open_for(&alice, LIMIT, LIMIT);
	hash = put(first, 5000, 1);
	assert_int_equal(get(second, &hash, &size), 0);
	cks_modcache_close(second);
	cks_modcache_close(first);
}

static void a_session_without_identity_leaves_and_finds_nothing(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, LIMIT),
			    *none = open_for(NULL, LIMIT, LIMIT);
	struct ck_hash hash = put(a, 5000, 1), own, listed[CK_MODCACHE_LIST];
	size_t size;

	(void)state;
	assert_int_equal(get(none, &hash, &size), -ENOENT);
	own = put(none, 6000, 2);
	assert_int_equal(get(none, &own, &size), 0);
	cks_modcache_close(none);
	none = open_for(NULL, LIMIT, LIMIT);
	assert_int_equal(cks_modcache_list(none, listed), 0);
	assert_int_equal(get(none, &own, &size), -ENOENT);
	assert_int_equal(stored(), 1);
	cks_modcache_close(none);
	cks_modcache_close(a);
}

static void one_identity_does_not_evict_the_images_of_others(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, LIMIT / 4);
	struct cks_modcache *b = open_for(&bob, LIMIT, LIMIT / 4);
	struct ck_hash kept = put(a, LIMIT / 8, 1), shared = put(a, LIMIT / 16, 2), last;
	size_t size;

	(void)state;
	cks_modcache_close(a);
	put(b, LIMIT / 16, 2);
	for (unsigned int i = 10; i < 60; i++)
		last = put(b, LIMIT / 16, i);
	assert_true(stored() <= 2 + 4); /* of bob's, what his share holds */
	assert_int_equal(get(b, &last, &size), 0);
	cks_modcache_close(b);
	a = open_for(&alice, LIMIT, LIMIT / 4);
	assert_int_equal(get(a, &kept, &size), 0);
	assert_int_equal(get(a, &shared, &size), 0); /* though bob's entry for it has gone */
	cks_modcache_close(a);
}

static void tiny_images_count_as_what_they_cost(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, 16 * CK_CACHE_BLOCK);

	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		put(a, 10, i);
	assert_true(stored() <= 16);
	cks_modcache_close(a);
}

static void a_session_does_not_hold_more_than_its_share(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, LIMIT / 4);
	struct ck_hash first = put(a, LIMIT / 8, 1);
	size_t size;
	long before, after;
	int fd = dup(0);

	(void)state;
	close(fd);
	before = fd;
	for (unsigned int i = 10; i < 60; i++)
		put(a, LIMIT / 8, i);
	after = dup(0);
	close((int)after);
	assert_true(after - before <= 2);
	assert_int_equal(get(a, &first, &size), 0); /* what it holds stays */
	cks_modcache_close(a);
}

static void an_image_that_was_evicted_is_not_listed(void **state)
{
	struct cks_modcache *a = open_for(&alice, LIMIT, LIMIT), *b;
	struct ck_hash hash = put(a, LIMIT / 2, 1), listed[CK_MODCACHE_LIST];
	struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char path[160];

	(void)state;
	file_of(&hash, path, sizeof(path));
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
	cks_modcache_close(a);
	b = open_for(&bob, LIMIT, LIMIT);
	for (unsigned int i = 10; i < 14; i++)
		put(b, LIMIT / 4, i);
	cks_modcache_close(b);
	assert_int_equal(access(path, F_OK), -1);
	a = open_for(&alice, LIMIT, LIMIT);
	assert_int_equal(cks_modcache_list(a, listed), 0);
	cks_modcache_close(a);
}

static void without_a_folder_images_last_for_the_session(void **state)
{
	struct cks_modcache *cache;
	struct ck_hash hash;
	size_t size;

	(void)state;
	assert_int_equal(cks_modcache_open("/proc/no-such-place", &alice, LIMIT, LIMIT, &cache), 0);
	hash = put(cache, 5000, 1);
	assert_int_equal(get(cache, &hash, &size), 0);
	assert_int_equal(size, 5000);
	cks_modcache_close(cache);
}

static void memory_is_bounded_too(void **state)
{
	struct cks_modcache *cache;
	unsigned char *data = malloc(LIMIT);
	struct ck_hash hash;

	(void)state;
	assert_int_equal(cks_modcache_open("/proc/no-such-place", &alice, LIMIT, LIMIT, &cache), 0);
	put(cache, LIMIT / 2 + 1, 1);
	hash = image(data, LIMIT / 2, 2);
	assert_int_equal(cks_modcache_put(cache, &hash, data, LIMIT / 2), -ENOSPC);
	free(data);
	cks_modcache_close(cache);
}

static void leftovers_of_killed_writers_are_removed(void **state)
{
	struct cks_modcache *cache;
	char dead[128], alive[128];
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* nobody has this number now */
	snprintf(dead, sizeof(dead), "%s/tmp.%d.0", dir, (int)pid);
	snprintf(alive, sizeof(alive), "%s/tmp.%d.7", dir, (int)getpid());
	close(open(dead, O_CREAT | O_WRONLY, 0600));
	close(open(alive, O_CREAT | O_WRONLY, 0600));
	cache = open_cache(LIMIT);
	put(cache, 5000, 1);
	cks_modcache_close(cache);
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(alive, F_OK), 0);
}

static void writers_at_the_same_time_leave_whole_files(void **state)
{
	struct cks_modcache *cache;
	unsigned char *data = malloc(200000);
	struct ck_hash hash;
	size_t size;
	int status;

	(void)state;
	for (int i = 0; i < 4; i++) {
		if (fork() == 0) {
			cache = open_cache(8 * LIMIT);
			for (unsigned int seed = 0; seed < 20; seed++)
				put(cache, 200000, seed);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	cache = open_cache(8 * LIMIT);
	for (unsigned int seed = 0; seed < 20; seed++) {
		hash = image(data, 200000, seed);
		assert_int_equal(get(cache, &hash, &size), 0);
	}
	free(data);
	cks_modcache_close(cache);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
		TEST(an_image_is_there_for_the_next_session),
		TEST(an_unknown_image_is_not_there),
		TEST(altered_and_cut_files_are_found_out_and_removed),
		TEST(the_longest_unused_go_when_there_is_too_much),
		TEST(what_a_session_was_told_of_stays_for_it),
		TEST(an_image_is_for_those_only_who_have_uploaded_it),
		TEST(sessions_of_one_identity_at_a_time_share),
		TEST(a_session_without_identity_leaves_and_finds_nothing),
		TEST(one_identity_does_not_evict_the_images_of_others),
		TEST(tiny_images_count_as_what_they_cost),
		TEST(a_session_does_not_hold_more_than_its_share),
		TEST(an_image_that_was_evicted_is_not_listed),
		TEST(without_a_folder_images_last_for_the_session),
		TEST(memory_is_bounded_too),
		TEST(leftovers_of_killed_writers_are_removed),
		TEST(writers_at_the_same_time_leave_whole_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
