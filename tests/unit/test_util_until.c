/*
 * tests/unit/test_util_until.c - times of poll(2): none is longer than it takes, and none becomes
 * another kind of time.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/until.h"

#define DAY_MS (24 * 3600 * (int64_t)1000)

static void a_long_time_is_the_longest_of_poll(void **state)
{
	(void)state;
	assert_int_equal(ck_poll_ms(INT_MAX), INT_MAX);
	assert_int_equal(ck_poll_ms((int64_t)INT_MAX + 1), INT_MAX);
	assert_int_equal(ck_poll_ms(50 * DAY_MS), INT_MAX);
	assert_int_equal(ck_poll_ms(INT64_MAX), INT_MAX);
}

static void a_time_without_end_is_negative(void **state)
{
	(void)state;
	assert_int_equal(ck_poll_ms(-1), -1);
	assert_int_equal(ck_poll_ms(INT64_MIN), -1);
	assert_int_equal(ck_poll_ms(0), 0);
}

static void the_sooner_of_two_times_stays(void **state)
{
	int timeout = -1;

	(void)state;
	ck_poll_sooner(&timeout, -1);
	assert_int_equal(timeout, -1);
	ck_poll_sooner(&timeout, 30 * DAY_MS); /* cast, it is negative */
	assert_int_equal(timeout, INT_MAX);
	ck_poll_sooner(&timeout, 1000);
	ck_poll_sooner(&timeout, 2000);
	ck_poll_sooner(&timeout, 50 * DAY_MS);
	ck_poll_sooner(&timeout, -1);
	assert_int_equal(timeout, 1000);
	ck_poll_sooner(&timeout, 0);
	assert_int_equal(timeout, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_time_is_the_longest_of_poll),
		cmocka_unit_test(a_time_without_end_is_negative),
		cmocka_unit_test(the_sooner_of_two_times_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
