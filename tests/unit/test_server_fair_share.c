/*
 * tests/unit/test_server_fair_share.c - turns on GPUs by weight, with a clock that the test moves.
 * Each session is simulated: what it submits takes GPU time, and its worker reports the end of its
 * turn when that is done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/rules/fair_share.h"
#include "util/util.h"

#define SESSIONS 4
#define SECOND 1000000

/* A session, and the program behind it. */
struct session {
	struct cks_share share;
	bool exists;
	int64_t rate;  /* GPU time in us that its program submits in 1000 us; 0: it is stuck */
	int64_t pause; /* after each turn it does nothing for so long, */
	int64_t lag;   /* and its process needs so long to ask again */
	int64_t ends;  /* of its turn, */
	int64_t asks;  /* and of its pause */
	int64_t ahead; /* GPU time of the launches that it has under way */
	int64_t had;   /* GPU time */
	int64_t delay; /* longest, from asking to a turn */
	int64_t asked;
	unsigned int told[3];
};

static struct cks_fair_share shares;
static struct session all[SESSIONS];
static int64_t now;

static void tell(struct cks_share *share, char kind)
{
	struct session *s = container_of(share, struct session, share);

	s->told[kind == CK_CONTROL_HOLD ? 0 : kind == CK_CONTROL_TURN ? 1 : 2]++;
	if (kind == CK_CONTROL_HOLD && share->running)
		s->ends = ck_min(s->ends, now + s->ahead);
	else if (kind == CK_CONTROL_HOLD)
		s->asks = now + s->pause + s->lag;
	if (kind != CK_CONTROL_TURN)
		return;
	s->delay = ck_max(s->delay, now - s->asked);
	s->ends = s->rate ? now + (int64_t)share->window_us * ck_max(s->rate, 1000) / 1000
			  : INT64_MAX;
}

static int set_up(void **state)
{
	(void)state;
	memset(&shares, 0, sizeof(shares));
	memset(all, 0, sizeof(all));
	shares.tell = tell;
	now = 5 * SECOND;
	return 0;
}

static struct session *begin(size_t at, uint32_t weight, uint64_t gpus, int64_t rate)
{
	all[at] = (struct session){
		.exists = true, .rate = rate, .lag = 100, .asks = INT64_MAX, .ends = INT64_MAX};
	all[at].share = (struct cks_share){.gpus = gpus, .weight = weight, .active = true};
	return &all[at];
}

/* What workers say now; the time of the next. */
static int64_t speak(void)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < SESSIONS; i++) {
		struct session *s = &all[i];

		if (s->ends <= now) {
			s->had += now - s->share.since;
			cks_fair_share_ended(&s->share, s->share.serial, s->pause == 0, now);
			s->ends = INT64_MAX;
			s->asks = now + s->pause + s->lag;
		}
		if (s->asks <= now) {
			cks_fair_share_want(&shares, &s->share, now);
			s->asked = now;
			s->asks = INT64_MAX;
		}
		next = ck_min(next, ck_min(s->ends, s->asks));
	}
	return next;
}

/* Is there a session beside the one at @at that may not be? */
static bool collides(struct cks_share **list, size_t at)
{
	const struct cks_share *s = list[at];
	bool found = false;

	for (size_t i = 0; i < at && s->running && s->priority == 0; i++)
		found |= list[i]->running && list[i]->priority == 0 && (list[i]->gpus & s->gpus) &&
			 !(s->group && list[i]->group == s->group);
	return found;
}

static void run(void)
{
	struct cks_share *list[SESSIONS];
	int64_t next, until = now + 20 * SECOND;

	while (now < until) {
		size_t count = 0;

		next = ck_min(speak(), until);
		for (size_t i = 0; i < SESSIONS; i++) {
			if (all[i].exists)
				list[count++] = &all[i].share;
		}
		cks_fair_share_run(&shares, list, count, now, &next);
		for (size_t i = 0; i < count; i++) {
			/* one at a time of each priority */
			assert_false(collides(list, i));
			next = ck_min(next, container_of(list[i], struct session, share)->ends);
			next = ck_min(next, container_of(list[i], struct session, share)->asks);
		}
		assert_true(next > now);
		now = next;
	}
}

static void assert_ratio(const struct session *a, const struct session *b, double ratio)
{
	double is = (double)a->had / (double)b->had;

	if (is < ratio * 0.93 || is > ratio * 1.07)
		fail_msg("%.3f instead of %.3f", is, ratio);
}

static void equal_weights_are_left_alone(void **state)
{
	(void)state;
	begin(0, 2, 1, 1000);
	begin(1, 2, 1, 1000);
	begin(2, 5, 2, 1000); /* on another GPU */
	run();
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(all[i].told[0], 0);
	assert_int_equal(shares.held, 0);
}

static void gpu_time_follows_weights(void **state)
{
	(void)state;
	begin(0, 3, 1, 1000);
	begin(1, 1, 1, 1000);
	run();
	assert_ratio(&all[0], &all[1], 3);
	assert_true(all[0].had + all[1].had > 19 * SECOND); /* little is lost */
}

/* Also if one submits in 1 ms what takes the GPU 50 ms, and three sessions share. */
static void work_that_was_queued_counts(void **state)
{
	(void)state;
	begin(0, 2, 1, 50000);
	begin(1, 1, 1, 1000);
	begin(2, 4, 1, 8000);
	run();
	assert_ratio(&all[0], &all[1], 2);
	assert_ratio(&all[2], &all[1], 4);
}

/* On a busy host, processes need long to ask again, and still have their share. */
static void slow_processes_have_their_share(void **state)
{
	(void)state;
	begin(0, 3, 1, 1000)->lag = 4000;
	begin(1, 1, 1, 1000)->lag = 4000;
	run();
	assert_ratio(&all[0], &all[1], 3);
	assert_true(all[0].had + all[1].had > 15 * SECOND);
}

static void time_that_a_session_does_not_want_is_for_others(void **state)
{
	struct session *rare = begin(0, 100, 1, 1000);

	(void)state;
	rare->pause = SECOND;
	begin(1, 1, 1, 1000);
	run();
	assert_true(all[1].had > 18 * SECOND);
	assert_true(rare->told[1] >= 15); /* and whenever it wants, it soon has its turn */
}

static void a_newcomer_has_no_debts_and_no_credit(void **state)
{
	(void)state;
	begin(0, 3, 1, 1000);
	begin(1, 1, 1, 1000);
	run();
	all[0].had = all[1].had = 0;
	begin(2, 2, 1, 1000);
	run();
	assert_ratio(&all[0], &all[1], 3);
	assert_ratio(&all[2], &all[1], 2);
}

static void a_session_of_two_gpus_has_its_turn(void **state)
{
	(void)state;
	begin(0, 1, 1, 1000);
	begin(1, 1, 2, 1000);
	begin(2, 2, 3, 1000);
	run();
	assert_ratio(&all[2], &all[0], 2);
	assert_ratio(&all[2], &all[1], 2);
}

static void a_turn_without_an_end_stops_nobody(void **state)
{
	struct session *stuck = begin(0, 2, 1, 0);

	(void)state;
	begin(1, 1, 1, 1000);
	run();
	assert_true(all[1].had > 4 * SECOND);
	assert_true(stuck->told[1] > 2); /* what it submits next may end its wait */
}

static void sessions_are_freed_when_the_other_one_has_gone(void **state)
{
	(void)state;
	begin(0, 3, 1, 1000);
	begin(1, 1, 1, 1000);
	run();
	all[1].share.active = false;
	run();
	assert_true(all[0].told[2] >= 1); /* again when it has asked meanwhile */
	assert_true(all[1].told[2] >= 1);
	assert_int_equal(shares.held, 0);
	/* a late report of a turn changes nothing */
	cks_fair_share_ended(&all[0].share, all[0].share.serial, true, now);
	cks_fair_share_want(&shares, &all[0].share, now);
	assert_false(all[0].share.wants);
}

/* It does not wait for the end of the other's turn, which is short, and the other has the GPU in
 * its pauses. */
static void a_higher_priority_goes_first(void **state)
{
	struct session *high = begin(0, 1, 1, 1000), *low = begin(1, 1, 1, 1000);
	int64_t turns;

	(void)state;
	high->share.priority = 5;
	high->pause = 10000;
	low->ahead = 1000;
	run();
	turns = high->told[1];
	assert_true(turns > 400);
	assert_int_equal(high->delay, 0);
	assert_true(low->had > 6 * SECOND); /* of 20: the high one has 20 of 30 ms */
	assert_true(high->share.above && !high->share.below);
	assert_true(low->share.below && !low->share.above);
}

static void a_low_turn_ends_when_the_high_session_asks(void **state)
{
	struct session *high = begin(0, 1, 1, 1000), *low = begin(1, 1, 1, 1000);
	unsigned int holds;

	(void)state;
	high->share.priority = 5;
	high->pause = 10000;
	low->ahead = 1000;
	run();
	holds = low->told[0] - 1; /* the first one was for all its work */
	assert_in_range(holds, high->told[1] * 9 / 10, high->told[1]); /* once a turn */
	assert_int_equal(high->told[0], 1);
	assert_true(low->share.window_us > CK_SHARE_TURN_US / 2); /* not shorter for that */
}

static void lower_sessions_share_by_weight(void **state)
{
	(void)state;
	begin(0, 1, 1, 1000)->share.priority = 1;
	all[0].pause = 10000;
	begin(1, 3, 1, 1000)->ahead = 1000;
	begin(2, 1, 1, 1000)->ahead = 1000;
	run();
	assert_ratio(&all[1], &all[2], 3);
}

/* Its turn ends early as soon as it pauses, unless its pauses are short. */
static void short_pauses_end_no_turn_of_a_high_session(void **state)
{
	struct session *high = begin(0, 1, 1, 1000);

	(void)state;
	high->share.priority = 5;
	high->pause = 30000;
	begin(1, 1, 1, 1000)->ahead = 1000;
	run();
	assert_int_equal(high->share.quiet_us, CK_SHARE_QUIET_US);
	assert_int_equal(all[1].share.quiet_us, 0);
	high->pause = 1000;
	run();
	assert_int_equal(high->share.quiet_us, CK_SHARE_QUIET_MOST_US);
}

/* With MPS: each has the GPU for as long as all of them together, and the other one its share
 * beside them. */
static void sessions_of_a_group_have_their_turns_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++)
		begin(i, 3, 1, 1000)->share.group = 7;
	begin(3, 1, 1, 1000);
	run();
	for (size_t i = 0; i < 3; i++)
		assert_true(all[i].had > 12 * SECOND);
	assert_ratio(&all[0], &all[1], 1);
	assert_ratio(&all[0], &all[3], 3);
}

static void sessions_of_two_groups_exclude_each_other(void **state)
{
	(void)state;
	begin(0, 2, 1, 1000)->share.group = 1;
	begin(1, 2, 1, 1000)->share.group = 1;
	begin(2, 1, 1, 1000)->share.group = 2;
	begin(3, 1, 1, 1000)->share.group = 2;
	run();
	assert_ratio(&all[0], &all[2], 2);
	assert_ratio(&all[1], &all[3], 2);
}

static void gpus_keep_their_bits(void **state)
{
	const uint32_t one[CK_NOTE_GPUS] = {7, 0, 9}, other[CK_NOTE_GPUS] = {9, 4},
		       none[CK_NOTE_GPUS] = {0};
	uint64_t bits = cks_fair_share_bits(&shares, one);
	uint32_t many[CK_NOTE_GPUS];

	(void)state;
	assert_int_equal(bits, 3);
	assert_int_equal(cks_fair_share_bits(&shares, other), 6);
	assert_int_equal(cks_fair_share_bits(&shares, none), 0);
	for (uint32_t i = 0; i < 100; i++) {
		for (uint32_t k = 0; k < CK_NOTE_GPUS; k++)
			many[k] = 1000 + i * CK_NOTE_GPUS + k;
		cks_fair_share_bits(&shares, many);
	}
	assert_int_equal(cks_fair_share_bits(&shares, many), 0); /* more than there is room for */
	assert_int_equal(cks_fair_share_bits(&shares, one), bits);
}

/* A worker that has missed a message asks again and again: it gets the state. */
static void who_asks_again_is_answered_by_the_state(void **state)
{
	struct session *a = begin(0, 1, 1, 1000);
	int32_t lag;

	(void)state;
	cks_fair_share_want(&shares, &a->share, now);
	assert_int_equal(a->told[2], 1); /* nothing holds it: it is free */
	assert_false(a->share.wants);
	a->share.held = a->share.eager = true;
	a->share.ended = now;
	cks_fair_share_want(&shares, &a->share, now + 100);
	lag = a->share.lag_us;
	assert_true(a->share.wants);
	cks_fair_share_want(&shares, &a->share, now + SECOND);
	assert_int_equal(a->share.lag_us, lag);
	assert_int_equal(a->told[2], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(equal_weights_are_left_alone, set_up),
		cmocka_unit_test_setup(gpu_time_follows_weights, set_up),
		cmocka_unit_test_setup(work_that_was_queued_counts, set_up),
		cmocka_unit_test_setup(slow_processes_have_their_share, set_up),
		cmocka_unit_test_setup(time_that_a_session_does_not_want_is_for_others, set_up),
		cmocka_unit_test_setup(a_newcomer_has_no_debts_and_no_credit, set_up),
		cmocka_unit_test_setup(a_session_of_two_gpus_has_its_turn, set_up),
		cmocka_unit_test_setup(a_turn_without_an_end_stops_nobody, set_up),
		cmocka_unit_test_setup(sessions_are_freed_when_the_other_one_has_gone, set_up),
		cmocka_unit_test_setup(a_higher_priority_goes_first, set_up),
		cmocka_unit_test_setup(a_low_turn_ends_when_the_high_session_asks, set_up),
		cmocka_unit_test_setup(short_pauses_end_no_turn_of_a_high_session, set_up),
		cmocka_unit_test_setup(lower_sessions_share_by_weight, set_up),
		cmocka_unit_test_setup(who_asks_again_is_answered_by_the_state, set_up),
		cmocka_unit_test_setup(sessions_of_a_group_have_their_turns_together, set_up),
		cmocka_unit_test_setup(sessions_of_two_groups_exclude_each_other, set_up),
		cmocka_unit_test_setup(gpus_keep_their_bits, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
