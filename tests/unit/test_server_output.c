/*
 * tests/unit/test_server_output.c - output of kernels is noticed when it is written, wherever in a
 * page of its file it begins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/session/output.h"
#include "tests/unit/server_links.h"

#define PAGE 4096

static struct ck_output *output;
static int saved[2];

static int begin(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		saved[i] = dup(i + 1);
	return cks_output_redirect(1 << 20, &output);
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], i + 1);
		close(saved[i]);
	}
	cks_output_destroy(output);
	return 0;
}

static void print(const void *text, size_t size)
{
	assert_int_equal(write(STDOUT_FILENO, text, size), (ssize_t)size);
}

static void each_text_is_noticed_at_once(void **state)
{
	static char text[3 * PAGE], got[sizeof(text)];
	static const size_t sizes[] = {1, 100, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 17};
	size_t total = 0;

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_false(cks_output_pending(output));
	for (unsigned int i = 0; i < 2000; i++) {
		size_t n = i < 1000 ? 13 : sizes[i % 7];

		print(text, n);
		assert_true(cks_output_pending(output));
		assert_int_equal(cks_output_take(output, false, got, sizeof(got)), n);
		assert_memory_equal(got, text, n);
		assert_false(cks_output_pending(output));
		total += n;
	}
	assert_true(total > 100 * PAGE);
}

static void what_is_taken_in_part_is_still_there(void **state)
{
	char got[8];

	(void)state;
	print("hello, world", 12);
	assert_int_equal(cks_output_take(output, false, got, 5), 5);
	assert_true(cks_output_pending(output));
	assert_int_equal(cks_output_take(output, false, got, 8), 7);
	assert_false(cks_output_pending(output));
}

static void a_text_that_begins_with_zero_is_found_by_a_check(void **state)
{
	char got[8];

	(void)state;
	print("\0ab", 3);
	assert_true(cks_output_check(output));
	assert_true(cks_output_pending(output));
	assert_int_equal(cks_output_take(output, false, got, 8), 3);
	assert_memory_equal(got, "\0ab", 3);
	assert_false(cks_output_pending(output));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_text_is_noticed_at_once),
		TEST(what_is_taken_in_part_is_still_there),
		TEST(a_text_that_begins_with_zero_is_found_by_a_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
