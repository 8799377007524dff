/*
 * tests/unit/test_client_progress.c - when a long upload says how far it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/wire/progress.h"

#define SECOND 1000000000ull
#define MB 1000000u

static char text[CK_PROGRESS_TEXT];

/* A send of a second that ends at @second. */
static bool sent(struct ckc_progress *p, uint64_t second, size_t bytes)
{
	return ckc_progress_note(p, bytes, (second - 1) * SECOND, second * SECOND, text);
}

static void a_line_comes_each_five_seconds(void **state)
{
	struct ckc_progress p = {0};

	(void)state;
	for (uint64_t s = 101; s < 105; s++)
		assert_false(sent(&p, s, 10 * MB));
	assert_true(sent(&p, 105, 10 * MB));
	assert_string_equal(text,
			    "cricket: sending to the GPU server: 50.0 MB in 5 s, 10.0 MB/s\n");
	for (uint64_t s = 106; s < 110; s++)
		assert_false(sent(&p, s, 10 * MB));
	assert_true(sent(&p, 110, 60 * MB));
	assert_string_equal(text,
			    "cricket: sending to the GPU server: 150.0 MB in 10 s, 15.0 MB/s\n");
}

static void a_pause_begins_anew(void **state)
{
	struct ckc_progress p = {0};

	(void)state;
	for (uint64_t s = 101; s < 105; s++)
		assert_false(sent(&p, s, 10 * MB));
	assert_false(sent(&p, 107, 10 * MB));
	for (uint64_t s = 108; s < 111; s++)
		assert_false(sent(&p, s, 10 * MB));
	assert_true(sent(&p, 111, 10 * MB));
	assert_string_equal(text,
			    "cricket: sending to the GPU server: 50.0 MB in 5 s, 10.0 MB/s\n");
}

static void one_send_that_takes_long_says_so(void **state)
{
	struct ckc_progress p = {0};

	(void)state;
	assert_true(ckc_progress_note(&p, 80 * MB, 100 * SECOND, 108 * SECOND, text));
	assert_string_equal(text,
			    "cricket: sending to the GPU server: 80.0 MB in 8 s, 10.0 MB/s\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_comes_each_five_seconds),
		cmocka_unit_test(a_pause_begins_anew),
		cmocka_unit_test(one_send_that_takes_long_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
