/*
 * tests/unit/test_server_spare_workers.c - when spare workers are started and given up, on a clock
 * and with workers of the test's: the policy is compiled here once more, under other names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/children/spare_workers.h"
#include "server/children/workers.h"
#include "util/until.h"

static int64_t fake_now, expired_before;
static struct cks_spare_counts counts;
static unsigned int started;
static int start_error;

static const struct cks_spare_counts *fake_spares(const struct cks_workers *unused)
{
	(void)unused;
	return &counts;
}

static int fake_spare(struct cks_workers *unused)
{
	(void)unused;
	if (start_error)
		return start_error;
	started++;
	counts.starting++;
	return 0;
}

static int fake_warm(struct cks_workers *unused)
{
	(void)unused;
	assert_true(counts.standby > 0);
	counts.standby--;
	counts.warming++;
	return 0;
}

static void fake_expire(struct cks_workers *unused, int64_t begin)
{
	(void)unused;
	expired_before = begin;
}

#define ck_now_ms() fake_now
#define cks_workers_spares fake_spares
#define cks_workers_spare fake_spare
#define cks_workers_warm fake_warm
#define cks_workers_expire fake_expire
#define cks_spare_workers_run run_policy
int run_policy(struct cks_spare_workers *s, struct cks_workers *workers);
#include "server/children/spare_workers.c"

static struct cks_spare_workers spares;

static int begin(void **unused)
{
	(void)unused;
	memset(&spares, 0, sizeof(spares));
	memset(&counts, 0, sizeof(counts));
	spares.warm = 2;
	started = 0;
	start_error = 0;
	fake_now = 1000000;
	expired_before = 0;
	return 0;
}

static int run(void)
{
	return run_policy(&spares, NULL);
}

static void goes_on_standby(void)
{
	counts.starting--;
	counts.standby++;
}

static void becomes_ready(void)
{
	goes_on_standby();
	assert_int_equal(run(), 1000); /* it makes its contexts */
	counts.warming--;
	counts.ready++;
}

static void both_ready(void)
{
	run();
	becomes_ready();
	run();
	becomes_ready();
	assert_int_equal(run(), -1);
	assert_int_equal(started, 2);
}

static void is_taken(void)
{
	counts.ready--;
	counts.taken++;
}

static void is_lost(void)
{
	counts.starting--;
	counts.lost++;
}

static void none_are_started_where_none_are_wanted(void **unused)
{
	(void)unused;
	spares.warm = 0;
	assert_int_equal(run(), -1);
	assert_int_equal(started, 0);
}

static void they_are_started_one_after_the_other(void **unused)
{
	(void)unused;
	assert_true(run() > 0);
	assert_int_equal(started, 1);
	fake_now += 10;
	run(); /* the first one is not ready */
	assert_int_equal(started, 1);
	becomes_ready();
	run();
	assert_int_equal(started, 2);
	becomes_ready();
	assert_int_equal(run(), -1); /* and the server may sleep */
	assert_int_equal(started, 2);
}

static void the_next_waits_while_the_session_starts(void **unused)
{
	(void)unused;
	both_ready();
	is_taken();
	assert_int_equal(run(), 1000);
	fake_now += 999;
	assert_int_equal(run(), 1);
	assert_int_equal(started, 2);
	fake_now += 1;
	run();
	assert_int_equal(started, 3);
}

static void who_fails_is_tried_later_and_later(void **unused)
{
	int64_t wait = 1000;

	(void)unused;
	for (int i = 0; i < 12; i++) {
		run();
		assert_int_equal(started, i + 1);
		is_lost();
		assert_int_equal(run(), wait);
		fake_now += wait;
		wait = wait * 2 < 300000 ? wait * 2 : 300000;
	}
	run();
	becomes_ready();
	is_taken();
	assert_int_equal(run(), 1000);
	fake_now += 1000;
	run();
	is_lost();
	assert_int_equal(run(), 1000); /* one that worked ends the series */
}

static void one_on_standby_makes_contexts_when_it_is_their_time(void **unused)
{
	(void)unused;
	spares.warm = spares.standby = 1;
	run();
	becomes_ready();
	run();
	goes_on_standby();
	assert_int_equal(run(), -1);
	assert_int_equal(started, 2);
	is_taken();
	assert_int_equal(run(), 1000);
	assert_int_equal(counts.standby, 1);
	fake_now += 1000;
	run();
	assert_int_equal(counts.warming == 1 && counts.standby == 0, true);
	assert_int_equal(started, 2);
}

static void one_on_standby_is_replaced_at_once(void **unused)
{
	(void)unused;
	spares.warm = 0;
	spares.standby = 1;
	run();
	goes_on_standby();
	assert_int_equal(run(), -1);
	counts.standby--;
	counts.taken++;
	assert_int_equal(run(), 1000);
	assert_int_equal(started, 2);
}

static void contexts_that_do_not_get_ready_are_ended(void **unused)
{
	(void)unused;
	run();
	goes_on_standby();
	run();
	assert_int_equal(counts.warming, 1);
	fake_now += 1000;
	assert_int_equal(run(), 1000);
	assert_int_equal(expired_before, fake_now - 60000);
	assert_int_equal(started, 1);
}

static void one_that_does_not_get_ready_is_ended(void **unused)
{
	(void)unused;
	run();
	for (int i = 0; i < 70; i++) {
		assert_true(run() <= 1000); /* the server looks */
		assert_int_equal(expired_before, fake_now - 60000);
		fake_now += 1000;
	}
	assert_int_equal(started, 1);
	is_lost();
	assert_int_equal(run(), 1000);
}

static void a_process_that_cannot_be_started_is_no_busy_loop(void **unused)
{
	(void)unused;
	start_error = -EAGAIN;
	assert_true(run() >= 1000);
	fake_now += 100;
	assert_true(run() >= 1000);
	start_error = 0;
	fake_now += 300000;
	run();
	assert_int_equal(started, 1);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(none_are_started_where_none_are_wanted),
		TEST(they_are_started_one_after_the_other),
		TEST(the_next_waits_while_the_session_starts),
		TEST(who_fails_is_tried_later_and_later),
		TEST(one_on_standby_makes_contexts_when_it_is_their_time),
		TEST(one_on_standby_is_replaced_at_once),
		TEST(contexts_that_do_not_get_ready_are_ended),
		TEST(one_that_does_not_get_ready_is_ended),
		TEST(a_process_that_cannot_be_started_is_no_busy_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
