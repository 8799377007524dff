/*
 * tests/unit/test_server_answer_store.c - answers are kept for one identity, program and world, in
 * whole pairs, up to a limit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cricket.h"
#include "server/modules/answer_store.h"

static char dir[64];
static const struct ck_hash me = {{1}}, other = {{2}}, world = {{3}}, new_world = {{4}};

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ck-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static struct cks_answer_store *opened(const struct ck_hash *identity, const char *program,
				       const struct ck_hash *w)
{
	struct cks_answer_store *a = cks_answer_store_open(dir, identity, program, w);

	assert_non_null(a);
	return a;
}

static size_t kept(const struct ck_hash *identity, const char *program, const struct ck_hash *w)
{
	struct cks_answer_store *a = opened(identity, program, w);
	size_t size = 0;

	free(cks_answer_store_read(a, &size));
	cks_answer_store_close(a);
	return size;
}

static void pairs_come_back_as_they_were(void **state)
{
	struct cks_answer_store *a = opened(&me, "app", &world);
	char pairs[2 * CK_ANSWER], *back;
	size_t size = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(pairs); i++)
		pairs[i] = (char)i;
	assert_null(cks_answer_store_read(a, &size));
	assert_int_equal(cks_answer_store_add(a, pairs, CK_ANSWER), 0);
	assert_int_equal(cks_answer_store_add(a, pairs + CK_ANSWER, CK_ANSWER), 0);
	cks_answer_store_close(a);
	a = opened(&me, "app", &world);
	back = cks_answer_store_read(a, &size);
	assert_int_equal(size, sizeof(pairs));
	assert_memory_equal(back, pairs, sizeof(pairs));
	free(back);
	cks_answer_store_close(a);
}

static void another_identity_program_or_world_has_none_of_them(void **state)
{
	struct cks_answer_store *a = opened(&me, "app", &world);
	char pair[CK_ANSWER] = {0};

	(void)state;
	assert_int_equal(cks_answer_store_add(a, pair, sizeof(pair)), 0);
	cks_answer_store_close(a);
	assert_int_equal(kept(&me, "app", &world), CK_ANSWER);
	assert_int_equal(kept(&other, "app", &world), 0);
	assert_int_equal(kept(&me, "app2", &world), 0);
	assert_int_equal(kept(&me, "app", &new_world), 0);
}

static void parts_of_pairs_are_refused_and_not_read(void **state)
{
	struct cks_answer_store *a = opened(&me, "app", &world);
	char bytes[CK_ANSWER + 1] = {0}, command[160];

	(void)state;
	assert_int_equal(cks_answer_store_add(a, bytes, 0), -EINVAL);
	assert_int_equal(cks_answer_store_add(a, bytes, CK_ANSWER - 1), -EINVAL);
	assert_int_equal(cks_answer_store_add(a, bytes, CK_ANSWER + 1), -EINVAL);
	assert_int_equal(cks_answer_store_add(a, bytes, CK_ANSWER), 0);
	cks_answer_store_close(a);
	/* as a full disk may leave it */
	snprintf(command, sizeof(command), "for f in %s/answers/*/*; do printf x >> $f; done", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(kept(&me, "app", &world), CK_ANSWER);
}

static void a_file_is_bounded(void **state)
{
	struct cks_answer_store *a = opened(&me, "app", &world);
	char pairs[64 * CK_ANSWER] = {0};
	size_t size = 0;
	int ret = 0;

	(void)state;
	for (; ret == 0; size += sizeof(pairs))
		ret = cks_answer_store_add(a, pairs, sizeof(pairs));
	assert_int_equal(ret, -ENOSPC);
	assert_true(size <= CK_RECALLED_MAX + sizeof(pairs));
	cks_answer_store_close(a);
	assert_true(kept(&me, "app", &world) <= CK_RECALLED_MAX);
}

static void the_number_of_files_is_bounded(void **state)
{
	char program[32], command[128];
	unsigned int count = 0;
	FILE *f;

	(void)state;
	for (int i = 0; i < CK_ANSWER_STORE_FILES + 10; i++) {
		snprintf(program, sizeof(program), "app%d", i);
		cks_answer_store_close(opened(&me, program, &world));
	}
	snprintf(command, sizeof(command), "ls -d %s/answers/*/* | wc -l", dir);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%u", &count), 1);
	pclose(f);
	assert_int_equal(count, CK_ANSWER_STORE_FILES);
}

static void keep_one(const struct ck_hash *identity, const char *program)
{
	struct cks_answer_store *a = opened(identity, program, &world);
	char pair[CK_ANSWER] = {0};

	assert_int_equal(cks_answer_store_add(a, pair, sizeof(pair)), 0);
	cks_answer_store_close(a);
}

static void an_identity_removes_no_answers_of_one_that_has_fewer(void **state)
{
	char program[32];

	(void)state;
	keep_one(&me, "app");
	keep_one(&me, "app2");
	for (int i = 0; i < CK_ANSWER_STORE_FILES + 10; i++) {
		snprintf(program, sizeof(program), "app%d", i);
		keep_one(&other, program);
	}
	assert_int_equal(kept(&me, "app", &world), CK_ANSWER);
	assert_int_equal(kept(&me, "app2", &world), CK_ANSWER);
	assert_int_equal(kept(&other, program, &world), CK_ANSWER);
	assert_int_equal(kept(&other, "app0", &world), 0);
	/* one that comes when all is full gets room too */
	keep_one(&world, "app");
	assert_int_equal(kept(&world, "app", &world), CK_ANSWER);
}

static void without_a_folder_nothing_is_kept(void **state)
{
	size_t size;

	(void)state;
	assert_null(cks_answer_store_open("/proc/no/folder", &me, "app", &world));
	assert_null(cks_answer_store_read(NULL, &size));
	assert_int_equal(cks_answer_store_add(NULL, dir, CK_ANSWER), -ENOSPC);
	cks_answer_store_close(NULL);
}

#define answers_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		answers_test(pairs_come_back_as_they_were),
		answers_test(another_identity_program_or_world_has_none_of_them),
		answers_test(parts_of_pairs_are_refused_and_not_read),
		answers_test(a_file_is_bounded),
		answers_test(the_number_of_files_is_bounded),
		answers_test(an_identity_removes_no_answers_of_one_that_has_fewer),
		cmocka_unit_test(without_a_folder_nothing_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
