/*
 * tests/unit/test_server_held_chunks.c - chunks in memory: which are promised, for how long, and
 * what a program's next start reads ahead.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/store/chunk_store.h"
#include "server/store/held_chunks.h"
#include "server/store/start_list.h"
#include "util/util.h"
#include "tests/unit/server_disk.h"

#define SIZE 65536u
#define COUNT 8u

static char dir[64];
static const struct ck_hash alice = {{1}};
static struct cks_chunk_store *store;
static struct cks_start_list *list;
static struct cks_held_chunks *held;
static struct ck_hash hashes[COUNT];

/* The session of @program begins. */
static void begin(const char *program)
{
	list = cks_start_list_open(store, program);
	held = cks_held_create(store, list);
	assert_non_null(list);
	assert_non_null(held);
}

static void end(void)
{
	cks_held_destroy(held);
	cks_start_list_end(list);
	cks_start_list_close(list);
}

static void make_chunk(unsigned int n, unsigned char bytes[SIZE])
{
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 7 + n * 31 + (i >> 8) * n);
}

/* A store of COUNT chunks, and a session. */
static int set_up(void **state)
{
	static unsigned char bytes[SIZE];

	(void)state;
	strcpy(dir, "/tmp/ck-held-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	cks_chunk_store_create(dir, &alice, 16 << 20, &store);
	for (unsigned int n = 0; n < COUNT; n++) {
		make_chunk(n, bytes);
		ck_hash(bytes, SIZE, &hashes[n]);
		if (cks_chunk_store_put(store, &hashes[n], bytes, SIZE) < 0)
			return -1;
	}
	begin("program");
	return 0;
}

static int tear_down(void **state)
{
	char command[96];

	(void)state;
	end();
	cks_chunk_store_destroy(store);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* Wait until @count chunks have been read. */
static void await(size_t count)
{
	while (cks_held_size(held) != count * SIZE)
		usleep(1000);
}

static void assert_held(unsigned int n, bool is)
{
	static unsigned char bytes[SIZE];
	const unsigned char *found = cks_held_take(held, &hashes[n], SIZE);

	assert_int_equal(found != NULL, is);
	if (!found)
		return;
	make_chunk(n, bytes);
	assert_memory_equal(found, bytes, SIZE);
	cks_held_done(held, &hashes[n], 0);
}

/* Ask for @needed chunks from number @n on; how many promises there are. */
static size_t ask(unsigned int n, size_t needed, struct ck_held_chunk promised[CK_HELD_MOST])
{
	return cks_held_promise(held, &hashes[n], needed, needed, promised, CK_HELD_MOST);
}

static void needed_chunks_are_promised(void **state)
{
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	assert_int_equal(ask(2, 3, promised), 3);
	for (unsigned int i = 0; i < 3; i++) {
		assert_memory_equal(&promised[i].hash, &hashes[2 + i], sizeof(hashes[0]));
		assert_int_equal(promised[i].size, SIZE);
		assert_held(2 + i, true);
	}
	assert_held(0, false);
}

static void a_chunk_goes_when_all_of_it_is_copied(void **state)
{
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	assert_int_equal(ask(0, 1, promised), 1);
	assert_non_null(cks_held_take(held, &hashes[0], SIZE));
	cks_held_done(held, &hashes[0], SIZE - 1);
	assert_held(0, true);
	assert_null(cks_held_take(held, &hashes[0], SIZE - 1)); /* a chunk of another size */
	assert_non_null(cks_held_take(held, &hashes[0], SIZE));
	cks_held_done(held, &hashes[0], 1);
	assert_held(0, false);
	assert_int_equal(cks_held_size(held), 0);
}

static void a_chunk_that_is_there_twice_is_promised_twice(void **state)
{
	const struct ck_hash twice[] = {hashes[1], hashes[1]};
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	assert_int_equal(cks_held_promise(held, twice, 2, 2, promised, CK_HELD_MOST), 2);
	assert_non_null(cks_held_take(held, &hashes[1], SIZE));
	cks_held_done(held, &hashes[1], SIZE);
	assert_held(1, true);
}

static void missing_and_altered_chunks_are_not_promised(void **state)
{
	struct ck_held_chunk promised[CK_HELD_MOST];
	char path[256], owner[CK_HASH_TEXT], name[CK_HASH_TEXT];
	FILE *file;

	(void)state;
	ck_hash_print(&alice, owner);
	ck_hash_print(&hashes[1], name);
	snprintf(path, sizeof(path), "%s/store/%s/%s", dir, owner, name);
	file = fopen(path, "r+");
	assert_non_null(file);
	fputc(0x55, file);
	fclose(file);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(ask(0, 3, promised), 2);
	assert_memory_equal(&promised[1].hash, &hashes[2], sizeof(hashes[0]));
	assert_int_not_equal(access(path, F_OK), 0); /* it was removed */
	hashes[0].bytes[0] ^= 1;
	assert_int_equal(ask(0, 1, promised), 0);
	assert_held(0, false);
}

static void memory_is_given_back_except_for_promises(void **state)
{
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	assert_int_equal(ask(0, 2, promised), 2);
	assert_int_equal(ask(3, 1, promised), 1);
	assert_int_equal(cks_held_size(held), 3 * SIZE);
	cks_held_trim(held);
	assert_int_equal(cks_held_size(held), SIZE);
	assert_held(3, true);
	assert_int_equal(ask(0, 2, promised), 2);
}

static void the_next_start_reads_what_the_last_one_took(void **state)
{
	static const unsigned int order[] = {5, 1, 6, 0};
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(order); i++)
		cks_start_list_note(list, &hashes[order[i]]);
	cks_start_list_note(list, &hashes[5]);
	end();
	begin("program");
	cks_held_begin(held);
	await(CK_ARRAY_SIZE(order));
	/* the one that is needed, and those that came after it */
	assert_int_equal(ask(1, 1, promised), 3);
	for (size_t i = 0; i < 3; i++)
		assert_memory_equal(&promised[i].hash, &hashes[order[1 + i]], sizeof(hashes[0]));
}

static void another_program_has_another_list(void **state)
{
	size_t count;

	(void)state;
	cks_start_list_note(list, &hashes[3]);
	end();
	begin("another");
	assert_null(cks_start_list_after(list, NULL, &count));
	end();
	begin("program");
	assert_non_null(cks_start_list_after(list, NULL, &count));
	assert_int_equal(count, 1);
	assert_null(cks_start_list_after(list, &hashes[4], &count));
}

static void a_start_that_took_nothing_ends_the_list(void **state)
{
	size_t count;

	(void)state;
	cks_start_list_note(list, &hashes[3]);
	end();
	begin("program");
	end();
	begin("program");
	assert_null(cks_start_list_after(list, NULL, &count));
}

/* Take all chunks many times, and ask for missing ones. */
static void *copy_all(void *unused)
{
	struct ck_held_chunk promised[COUNT];
	unsigned char bytes[64], right[SIZE];

	for (unsigned int i = 0; i < 40 * COUNT; i++) {
		unsigned int n = i % COUNT;
		const unsigned char *found = cks_held_take(held, &hashes[n], SIZE);

		if (!found) {
			cks_held_promise(held, &hashes[n], 1, COUNT - n, promised, COUNT);
			continue;
		}
		memcpy(bytes, found, sizeof(bytes));
		cks_held_done(held, &hashes[n], SIZE);
		make_chunk(n, right);
		if (memcmp(bytes, right, sizeof(bytes)) != 0)
			return (void *)"other bytes";
	}
	return unused;
}

static void threads_copy_and_trim_at_once(void **state)
{
	pthread_t threads[3];
	void *wrong;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, copy_all, NULL), 0);
	for (int i = 0; i < 20; i++)
		cks_held_trim(held);
	for (size_t i = 0; i < CK_ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	cks_held_trim(held);
	assert_true(cks_held_size(held) <= COUNT * SIZE);
}

static void without_a_store_nothing_is_held(void **state)
{
	struct ck_held_chunk promised[CK_HELD_MOST];

	(void)state;
	assert_null(cks_start_list_open(NULL, "program"));
	assert_null(cks_held_create(NULL, NULL));
	cks_held_begin(NULL);
	cks_held_trim(NULL);
	assert_int_equal(cks_held_promise(NULL, hashes, 1, 1, promised, CK_HELD_MOST), 0);
	assert_null(cks_held_take(NULL, &hashes[0], SIZE));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(needed_chunks_are_promised),
		TEST(a_chunk_goes_when_all_of_it_is_copied),
		TEST(a_chunk_that_is_there_twice_is_promised_twice),
		TEST(missing_and_altered_chunks_are_not_promised),
		TEST(memory_is_given_back_except_for_promises),
		TEST(the_next_start_reads_what_the_last_one_took),
		TEST(another_program_has_another_list),
		TEST(a_start_that_took_nothing_ends_the_list),
		TEST(threads_copy_and_trim_at_once),
		TEST(without_a_store_nothing_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
