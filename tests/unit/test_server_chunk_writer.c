/*
 * tests/unit/test_server_chunk_writer.c - chunks that a thread writes to the store: who waits for
 * the disk, and what is listed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/compress.h"
#include "server/store/chunk_store.h"
#include "server/store/chunk_writer.h"
#include "server/store/start_list.h"

static char dir[64];
static const struct ck_hash owner = {{1}};
static struct cks_chunk_store *store;
static struct cks_start_list *list;
static struct cks_chunk_writer *writer;

/* The disk: threads other than the test's wait while it is stopped. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t goes_on;
	pthread_t test;
	bool stopped, full;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .goes_on = PTHREAD_COND_INITIALIZER};

/* Instead of the C library's: the store asks before it writes. */
int fstatvfs(int fd, struct statvfs *out)
{
	(void)fd;
	pthread_mutex_lock(&disk.lock);
	while (disk.stopped && !pthread_equal(pthread_self(), disk.test))
		pthread_cond_wait(&disk.goes_on, &disk.lock);
	*out = (struct statvfs){
		.f_frsize = 4096, .f_blocks = 1u << 28, .f_bavail = disk.full ? 0 : 1u << 27};
	pthread_mutex_unlock(&disk.lock);
	return 0;
}

static void stop_disk(bool stopped)
{
	pthread_mutex_lock(&disk.lock);
	disk.test = pthread_self();
	disk.stopped = stopped;
	pthread_cond_broadcast(&disk.goes_on);
	pthread_mutex_unlock(&disk.lock);
}

static void open_all(void)
{
	cks_chunk_store_create(dir, &owner, (size_t)1 << 30, &store);
	list = cks_start_list_open(store, "program");
	writer = cks_chunk_writer_create(store, list);
	assert_non_null(writer);
}

static void close_all(void)
{
	cks_chunk_writer_destroy(writer);
	cks_start_list_end(list);
	cks_start_list_close(list);
	cks_chunk_store_destroy(store);
}

static int begin(void **state)
{
	(void)state;
	disk.full = false;
	strcpy(dir, "/tmp/ck-writer-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	open_all();
	return 0;
}

static int end(void **state)
{
	char command[96];

	(void)state;
	close_all();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct cks_new_chunk *make_chunk(unsigned char n)
{
	struct cks_new_chunk *c = malloc(sizeof(*c) + CK_CHUNK);

	assert_non_null(c);
	memset(c->bytes, n, CK_CHUNK);
	c->size = CK_CHUNK;
	ck_hash(c->bytes, c->size, &c->hash);
	return c;
}

/* Add chunk @n; returns its hash. */
static struct ck_hash add(unsigned char n)
{
	struct cks_new_chunk *c = make_chunk(n);
	struct ck_hash hash = c->hash;

	cks_chunk_writer_add(writer, c);
	return hash;
}

static size_t count_chunks(void)
{
	struct cks_chunk_store_state found;

	assert_int_equal(cks_chunk_store_state(store, &found), 0);
	return found.count;
}

/* What the list of the program's start has when the session has ended. */
static size_t count_listed(void)
{
	size_t count;

	close_all();
	open_all();
	cks_start_list_after(list, NULL, &count);
	return count;
}

static void who_adds_does_not_wait_for_the_disk(void **state)
{
	struct ck_hash hash;

	(void)state;
	stop_disk(true);
	hash = add(1);
	assert_false(cks_chunk_store_has(store, &hash));
	stop_disk(false);
	cks_chunk_writer_wait(writer);
	assert_true(cks_chunk_store_has(store, &hash));
	assert_int_equal(count_listed(), 1);
}

static void the_end_writes_all(void **state)
{
	(void)state;
	stop_disk(true);
	for (unsigned char n = 0; n < 5; n++)
		add(n);
	stop_disk(false);
	assert_int_equal(count_listed(), 5);
	assert_int_equal(count_chunks(), 5);
}

static void who_finds_no_room_writes(void **state)
{
	struct ck_hash hash;

	(void)state;
	stop_disk(true);
	for (unsigned char n = 0; n < CK_WRITER_MOST / CK_CHUNK; n++)
		add(n);
	hash = add(100);
	assert_true(cks_chunk_store_has(store, &hash));
	stop_disk(false);
	cks_chunk_writer_wait(writer);
	assert_int_equal(count_chunks(), CK_WRITER_MOST / CK_CHUNK + 1);
}

static void what_is_not_written_is_not_listed(void **state)
{
	struct cks_new_chunk *c = make_chunk(1);

	(void)state;
	c->bytes[5] ^= 1;
	cks_chunk_writer_add(writer, c);
	cks_chunk_writer_wait(writer);
	disk.full = true;
	add(2);
	assert_int_equal(count_listed(), 0);
	assert_int_equal(count_chunks(), 0);
}

static void a_hash_that_is_not_known_is_found(void **state)
{
	struct cks_new_chunk *c = make_chunk(1);
	struct ck_hash hash = c->hash;

	(void)state;
	memset(&c->hash, 0, sizeof(c->hash));
	cks_chunk_writer_add(writer, c);
	cks_chunk_writer_wait(writer);
	assert_true(cks_chunk_store_has(store, &hash));
	assert_int_equal(count_listed(), 1);
}

static void without_a_store_nothing_is_kept(void **state)
{
	(void)state;
	assert_null(cks_chunk_writer_create(NULL, NULL));
	cks_chunk_writer_add(NULL, make_chunk(1));
	cks_chunk_writer_wait(NULL);
	cks_chunk_writer_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_adds_does_not_wait_for_the_disk, begin, end),
		cmocka_unit_test_setup_teardown(the_end_writes_all, begin, end),
		cmocka_unit_test_setup_teardown(who_finds_no_room_writes, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_written_is_not_listed, begin, end),
		cmocka_unit_test_setup_teardown(a_hash_that_is_not_known_is_found, begin, end),
		cmocka_unit_test(without_a_store_nothing_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
