/*
 * tests/unit/test_server_deadlines.c - when sessions are warned and ended, on a clock and with
 * sessions of the test's: the policy is compiled here once more, under other names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/children/deadlines.h"
#include "server/children/workers.h"
#include "server/rules/accounts.h"
#include "util/until.h"

static int64_t fake_now, again;
static struct cks_session_info sessions[2];
static struct cks_terms terms;
static size_t count;
static unsigned int lines, kills;
static char line[CK_NOTE_TEXT];
static bool last_line;

static struct cks_session_info *fake_next(const struct cks_workers *unused,
					  const struct cks_session_info *s)
{
	size_t i = s ? (size_t)(s - sessions) + 1 : 0;

	(void)unused;
	return i < count ? &sessions[i] : NULL;
}

static bool fake_line(const struct cks_session_info *unused, const char *text, bool last)
{
	(void)unused;
	snprintf(line, sizeof(line), "%s", text);
	last_line = last;
	lines++;
	return true;
}

static void fake_kill(const struct cks_session_info *unused)
{
	(void)unused;
	kills++;
}

static size_t fake_serving(const struct cks_workers *unused)
{
	(void)unused;
	return count;
}

static const char *fake_name(const struct cks_session_info *unused, char out[CK_SESSION_NAME])
{
	(void)unused;
	return strcpy(out, "s1");
}

static bool fake_timed(const struct cks_accounts *unused)
{
	(void)unused;
	return terms.time > 0 || terms.idle_end > 0;
}

#define ck_now_ms() fake_now
#define cks_workers_next fake_next
#define cks_workers_serving fake_serving
#define cks_workers_send_line fake_line
#define cks_workers_kill fake_kill
#define cks_session_terms(session) (&terms)
#define cks_session_name fake_name
#define cks_accounts_timed fake_timed
#define cks_print_time print_time
#define cks_deadlines_run run_deadlines
#define cks_deadlines_left left_of
const char *print_time(uint64_t seconds, char out[CK_TIME_TEXT]);
int64_t run_deadlines(struct cks_workers *w, const struct cks_accounts *a, int64_t *next);
int64_t left_of(const struct cks_session_info *s, int64_t now);
#include "server/children/deadlines.c"

static int begin(void **unused)
{
	(void)unused;
	memset(sessions, 0, sizeof(sessions));
	memset(&terms, 0, sizeof(terms));
	fake_now = 1000000;
	again = 0;
	count = 1;
	lines = kills = 0;
	line[0] = '\0';
	for (size_t i = 0; i < CK_ARRAY_SIZE(sessions); i++)
		sessions[i].use.begun = sessions[i].suspension.used = fake_now;
	return 0;
}

/* As the supervisor does: it sleeps until the next call. */
static void pass_until(int64_t end)
{
	while (fake_now < end) {
		int64_t pause = run_deadlines(NULL, NULL, &again);

		assert_in_range(pause, 1, 1000);
		fake_now = ck_min(fake_now + pause, end);
	}
	run_deadlines(NULL, NULL, &again);
}

static void pass(int64_t ms)
{
	pass_until(fake_now + ms);
}

static void nothing_is_looked_at_without_a_rule_or_a_session(void **unused)
{
	(void)unused;
	assert_int_equal(run_deadlines(NULL, NULL, &again), -1);
	terms.time = 4;
	count = 0;
	assert_int_equal(run_deadlines(NULL, NULL, &again), -1);
}

static void the_user_is_warned_once_and_the_session_ends_in_time(void **unused)
{
	(void)unused;
	terms.time = 4;
	pass(3199);
	assert_int_equal(lines, 0);
	pass(1);
	assert_int_equal(lines, 1);
	assert_string_equal(line, "the session ends in 1s: the policy ends sessions after 4s");
	assert_false(last_line);
	pass(799);
	assert_int_equal(lines, 1);
	pass(1);
	assert_int_equal(lines, 2);
	assert_string_equal(line, "the policy ends sessions after 4s");
	assert_string_equal(sessions[0].cause, line);
	assert_true(last_line);
}

static void a_warning_comes_at_most_five_minutes_before_the_end(void **unused)
{
	int64_t begun = fake_now;

	(void)unused;
	terms.time = 8 * 3600;
	pass_until(begun + (8 * 3600 - 301) * 1000);
	assert_int_equal(lines, 0);
	pass(1000);
	assert_string_equal(line, "the session ends in 5m: the policy ends sessions after 8h");
}

static void a_suspended_session_ends_in_time_too(void **unused)
{
	(void)unused;
	terms.time = 5;
	sessions[0].suspension.state = CK_SUSPENDED;
	pass(5000);
	assert_string_equal(line, "the policy ends sessions after 5s");
	assert_true(last_line);
}

static void a_worker_that_does_not_end_is_killed(void **unused)
{
	(void)unused;
	terms.time = 2;
	pass(2000 + 9999);
	assert_int_equal(kills, 0);
	pass(1);
	assert_int_equal(kills, 1);
	assert_int_equal(lines, 2); /* no further line */
	pass(10000);
	assert_int_equal(kills, 2);
}

static void only_idle_sessions_end(void **unused)
{
	(void)unused;
	count = 2;
	terms.idle_end = 5;
	for (int i = 0; i < 50; i++) {
		sessions[1].suspension.used = fake_now;
		pass(100);
	}
	assert_true(sessions[0].deadline.ended);
	assert_string_equal(sessions[0].cause, "the policy ends sessions that are idle for 5s");
	assert_false(sessions[1].deadline.ended);
	assert_int_equal(lines, 2);
}

static void each_idle_time_has_its_warning(void **unused)
{
	const char *warning =
		"the session ends in 1s: the policy ends sessions that are idle for 5s";

	(void)unused;
	terms.idle_end = 5;
	for (unsigned int i = 1; i <= 3; i++) {
		sessions[0].suspension.used = fake_now;
		pass(4999);
		assert_int_equal(lines, i);
		assert_string_equal(line, warning);
	}
	pass(1);
	assert_true(sessions[0].deadline.ended);
}

static void a_new_policy_holds_for_running_sessions(void **unused)
{
	(void)unused;
	terms.time = 3600;
	pass(10000);
	assert_int_equal(lines, 0);
	terms.time = 1;
	pass(1000);
	assert_string_equal(line, "the policy ends sessions after 1s");
}

static void the_time_left_is_that_of_the_earlier_end(void **unused)
{
	(void)unused;
	assert_int_equal(left_of(&sessions[0], fake_now), -1);
	terms.time = 3600;
	assert_int_equal(left_of(&sessions[0], fake_now + 1000), 3599000);
	terms.idle_end = 60;
	assert_int_equal(left_of(&sessions[0], fake_now + 1000), 59000);
	assert_int_equal(left_of(&sessions[0], fake_now + 61000), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_looked_at_without_a_rule_or_a_session),
		TEST(the_user_is_warned_once_and_the_session_ends_in_time),
		TEST(a_warning_comes_at_most_five_minutes_before_the_end),
		TEST(a_suspended_session_ends_in_time_too),
		TEST(a_worker_that_does_not_end_is_killed),
		TEST(only_idle_sessions_end),
		TEST(each_idle_time_has_its_warning),
		TEST(a_new_policy_holds_for_running_sessions),
		TEST(the_time_left_is_that_of_the_earlier_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
