/*
 * tests/unit/test_server_suspend_policy.c - which sessions leave the GPU, and when.
 */
#define SESSIONS 3
#include "suspend_fake.h"

/* --- idle sessions */

static void idle_sessions_stay_unless_a_policy_says_otherwise(void **unused)
{
	(void)unused;
	fake_now += 86400000;
	assert_true(run_policy(&suspender) == INT64_MAX);
	assert_int_equal(suspended(), 0);
}

static void an_idle_session_leaves_by_itself(void **unused)
{
	(void)unused;
	suspender.policy.idle_ms = 2000;
	assert_true(run_policy(&suspender) == fake_now + 2000);
	fake_now += 1999;
	use(1);
	sessions[2].suspension.uses = 0; /* it has nothing on the GPU */
	assert_true(run_policy(&suspender) == fake_now + 1);
	assert_int_equal(suspended(), 0);
	fake_now++;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	assert_false(sessions[0].suspension.to_park);
	assert_int_equal(suspended(), 1);
	leave(0);
	fake_now += 1000;
	sessions[0].suspension.state = CK_RUNNING; /* and it is used again */
	use(0);
	fake_now += 2000;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 2);
}

static void an_identity_has_its_own_idle_time(void **unused)
{
	(void)unused;
	suspender.policy.idle_ms = 2000;
	granted[0].idle = 5;
	granted[1].idle = 0; /* never */
	fake_now += 2000;
	run_policy(&suspender);
	assert_int_equal(suspends[0] + suspends[1], 0);
	assert_int_equal(suspends[2], 1);
	fake_now += 3000;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	fake_now += 86400000;
	run_policy(&suspender);
	assert_int_equal(suspends[1], 0);
}

static void without_host_memory_an_idle_session_stays(void **unused)
{
	(void)unused;
	suspender.policy.idle_ms = 2000;
	fits = false;
	fake_now += 2000;
	run_policy(&suspender);
	assert_int_equal(suspended(), 0);
	assert_true(run_policy(&suspender) == fake_now + 2000); /* no busy loop */
}

/* --- sessions that allocate */

static void without_a_policy_there_is_no_memory(void **unused)
{
	(void)unused;
	fake_now += 60000;
	ask_for_memory(2);
	run_policy(&suspender);
	assert_int_equal(answers[2], CK_CONTROL_ALONE);
	assert_int_equal(suspended(), 0);
}

static void the_session_idle_longest_leaves_for_one_that_allocates(void **unused)
{
	(void)unused;
	suspender.policy.for_others = true;
	fake_now += 1000;
	use(0);
	fake_now += 1000;
	ask_for_memory(2);
	assert_true(run_policy(&suspender) == fake_now + 1000); /* both may be in use */
	assert_int_equal(answers[2], CK_CONTROL_COMING);
	fake_now += 1000;
	run_policy(&suspender);
	assert_int_equal(suspends[1], 1);
	assert_true(sessions[1].suspension.to_park);
	leave(1);
	run_policy(&suspender);
	assert_int_equal(answers[2], CK_CONTROL_MADE);
	assert_int_equal(suspended(), 1);
}

static void the_lowest_priority_leaves_and_never_one_of_a_higher(void **unused)
{
	(void)unused;
	suspender.policy.for_others = true;
	granted[0].priority = 1;
	fake_now += 10000;
	use(1);
	fake_now += 5000;
	ask_for_memory(2);
	run_policy(&suspender);
	assert_int_equal(suspends[1], 1);
	leave(1);
	run_policy(&suspender);
	ask_for_memory(2);
	run_policy(&suspender); /* the parked one leaves altogether, not the one before it */
	assert_int_equal(suspends[0], 0);
	assert_int_equal(suspends[1], 2);
	leave(1);
	run_policy(&suspender);
	sessions[1].suspension.state = CK_RUNNING;
	ask_for_memory(1);
	granted[2].priority = 1;
	fake_now += 10000;
	run_policy(&suspender);
	assert_int_equal(answers[1], CK_CONTROL_ALONE); /* none leaves for the lower one */
	assert_int_equal(suspended(), 2);
}

static void a_kept_session_leaves_first_and_without_an_option(void **unused)
{
	(void)unused;
	sessions[0].cut.since = fake_now;
	granted[0].priority = 9;
	ask_for_memory(2);
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	assert_int_equal(answers[2], CK_CONTROL_COMING);
}

static void one_that_could_not_leave_is_left_alone_for_a_time(void **unused)
{
	(void)unused;
	suspender.policy.for_others = true;
	sessions[1].suspension.uses = 0;
	fake_now += 3000;
	ask_for_memory(2);
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	sessions[0].suspension.state = CK_RUNNING; /* its worker refused */
	busy = false;
	fake_now += 9999;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	ask_for_memory(2);
	fake_now++;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 2);
}

/* --- sessions that run all the time */

static void use_all(int64_t ms)
{
	for (int64_t end = fake_now + ms; fake_now < end; fake_now += 100) {
		for (size_t i = 0; i < SESSIONS; i++) {
			if (sessions[i].suspension.state == CK_RUNNING &&
			    !sessions[i].suspension.memory_request)
				use(i);
		}
		run_policy(&suspender);
	}
}

static void an_active_session_has_its_quantum(void **unused)
{
	(void)unused;
	suspender.policy.quantum_ms = 5000;
	ask_for_memory(2);
	use_all(5000);
	assert_int_equal(answers[2], CK_CONTROL_COMING);
	assert_int_equal(suspended(), 0);
	use_all(100);
	assert_int_equal(suspended(), 1);
}

static void without_a_quantum_no_active_session_leaves(void **unused)
{
	(void)unused;
	suspender.policy.for_others = true;
	ask_for_memory(2);
	use_all(10000);
	assert_int_equal(suspended(), 0);
	/* it waited for an idle one, and tries again */
	assert_int_equal(answers[2], CK_CONTROL_MADE);
}

/* Three sessions of which one fits: each gets its turns. */
static void active_sessions_take_turns(void **unused)
{
	unsigned int turns[SESSIONS] = {0};
	size_t resident = 0;

	(void)unused;
	suspender.policy.quantum_ms = 1000;
	suspender.anywhere = true; /* none is parked */
	for (size_t i = 1; i < SESSIONS; i++) {
		sessions[i].suspension.since += (int64_t)i;
		sessions[i].suspension.state = CK_SUSPENDED;
		find_no_room(i);
	}
	for (int round = 0; round < 9; round++) {
		int64_t begun = fake_now;

		while (!busy && fake_now < begun + 10000)
			use_all(100);
		assert_in_range(fake_now - begun, 1000, 1600);
		assert_int_equal(suspends[resident], ++turns[resident]);
		leave(resident);
		find_no_room(resident);
		fake_now += 500; /* the head start of the one that has waited longest */
		resident = (resident + 1) % SESSIONS;
		assert_true(turn_of(&suspender, &sessions[resident]) <= fake_now);
		assert_true(turn_of(&suspender, &sessions[(resident + 1) % SESSIONS]) == INT64_MAX);
		sessions[resident].suspension.state = CK_RUNNING;
		sessions[resident].suspension.since = fake_now;
		sessions[resident].suspension.wanted = false;
		sessions[resident].suspension.no_room = false;
	}
}

static void a_session_that_has_not_reported_is_waited_for(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < SESSIONS; i++)
		granted[i].overcommit = true;
	for (size_t i = 1; i < SESSIONS; i++) {
		sessions[i].memory = sessions[i].suspension.uses = 0;
		sessions[i].suspension.used = 0;
		sessions[i].suspension.pressed = i == 1;
	}
	ask_for_memory(0);
	assert_true(run_policy(&suspender) <= fake_now + CK_IDLE_MS);
	assert_int_equal(answers[0], CK_CONTROL_COMING);
	sessions[1].memory = 100; /* its report */
	sessions[1].suspension.uses = 1;
	sessions[1].suspension.used = fake_now;
	sessions[1].suspension.pressed = false;
	run_policy(&suspender);
	assert_int_equal(explained[0], 0);
	fake_now += CK_IDLE_MS;
	run_policy(&suspender);
	assert_int_equal(suspends[1], 1);
}

static void one_that_never_reports_is_not_waited_for(void **unused)
{
	(void)unused;
	granted[0].overcommit = granted[1].overcommit = true;
	sessions[1].memory = sessions[1].suspension.uses = 0;
	sessions[1].suspension.pressed = true;
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(answers[0], CK_CONTROL_COMING);
	fake_now += CK_IDLE_MS;
	run_policy(&suspender);
	assert_int_equal(explained[0], 1);
	assert_int_equal(answers[0], CK_CONTROL_MADE);
}

static void one_that_allocates_comes_before_one_that_resumes(void **unused)
{
	(void)unused;
	suspender.policy.for_others = true;
	sessions[0].suspension.state = CK_SUSPENDED;
	find_no_room(0);
	sessions[0].suspension.again = 0;
	assert_true(turn_of(&suspender, &sessions[0]) <= fake_now);
	ask_for_memory(1);
	run_policy(&suspender);
	assert_int_equal(answers[1], CK_CONTROL_COMING);
	assert_true(turn_of(&suspender, &sessions[0]) == INT64_MAX);
	sessions[0].suspension.asked = true; /* a command does not wait */
	assert_true(turn_of(&suspender, &sessions[0]) <= fake_now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(idle_sessions_stay_unless_a_policy_says_otherwise),
		TEST(an_idle_session_leaves_by_itself),
		TEST(an_identity_has_its_own_idle_time),
		TEST(without_host_memory_an_idle_session_stays),
		TEST(without_a_policy_there_is_no_memory),
		TEST(the_session_idle_longest_leaves_for_one_that_allocates),
		TEST(the_lowest_priority_leaves_and_never_one_of_a_higher),
		TEST(a_kept_session_leaves_first_and_without_an_option),
		TEST(one_that_could_not_leave_is_left_alone_for_a_time),
		TEST(an_active_session_has_its_quantum),
		TEST(without_a_quantum_no_active_session_leaves),
		TEST(active_sessions_take_turns),
		TEST(a_session_that_has_not_reported_is_waited_for),
		TEST(one_that_never_reports_is_not_waited_for),
		TEST(one_that_allocates_comes_before_one_that_resumes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
