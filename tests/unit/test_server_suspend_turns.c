/*
 * tests/unit/test_server_suspend_turns.c - sessions that take turns in the memory of a GPU: who
 * leaves for whom, for how long a turn lasts, and who is next.
 */
#define SESSIONS 4
#include "suspend_fake.h"

/* Of the identities of the first @count sessions. */
static void overcommit(size_t count)
{
	for (size_t i = 0; i < SESSIONS; i++)
		granted[i].overcommit = i < count;
}

static void work(size_t first, size_t last)
{
	for (size_t i = first; i <= last; i++)
		use(i);
}

/* --- who leaves */

static void only_sessions_of_such_identities_take_turns(void **unused)
{
	(void)unused;
	overcommit(2);
	fake_now += 100000;
	work(0, 3);
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(answers[0], CK_CONTROL_COMING);
	assert_int_equal(suspends[1], 1);
	assert_int_equal(suspended(), 1);
}

static void the_others_get_no_memory_as_before(void **unused)
{
	(void)unused;
	overcommit(2);
	fake_now += 100000;
	work(0, 3);
	ask_for_memory(3);
	run_policy(&suspender);
	assert_int_equal(answers[3], CK_CONTROL_ALONE);
	assert_int_equal(suspended() + explained[3], 0);
}

static void one_that_finds_none_to_leave_knows_why(void **unused)
{
	(void)unused;
	overcommit(1);
	fake_now += 100000;
	work(0, 3);
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(answers[0], CK_CONTROL_ALONE);
	assert_int_equal(suspended(), 0);
	assert_int_equal(explained[0], 1);
}

static void one_that_cannot_leave_has_the_next_one_leave(void **unused)
{
	(void)unused;
	overcommit(3);
	fake_now += 100000; /* all are idle */
	sessions[1].suspension.used--;
	mute = 1;
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(answers[0], CK_CONTROL_COMING);
	assert_int_equal(suspends[2], 1);
	assert_int_equal(suspended(), 1);
}

/* The others may return free memory. */
static void one_that_waits_for_none_is_told_so(void **unused)
{
	(void)unused;
	overcommit(2);
	fake_now += 100000;
	sessions[1].suspension.state = CK_SUSPENDED;
	ask_for_memory(0);
	sessions[0].suspension.memory_request = CK_MEMORY_REQUEST_SENT;
	run_policy(&suspender);
	assert_int_equal(answers[0], CK_CONTROL_NONE);
	assert_int_equal(explained[0], 1);
	assert_int_equal(sessions[0].suspension.memory_request, CK_NO_MEMORY_REQUEST);
}

static void a_session_of_another_gpu_stays(void **unused)
{
	(void)unused;
	overcommit(3);
	fake_now += 100000;
	work(0, 3);
	sessions[0].gpus[0] = sessions[2].gpus[1] = 7;
	sessions[1].gpus[0] = sessions[2].gpus[0] = 8;
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(suspends[2], 1);
	assert_int_equal(suspended(), 1);
}

static void a_higher_priority_leaves_while_it_is_idle(void **unused)
{
	(void)unused;
	overcommit(2);
	granted[0].priority = 1;
	fake_now += 100000;
	work(0, 0);
	ask_for_memory(1);
	run_policy(&suspender);
	assert_int_equal(answers[1], CK_CONTROL_COMING);
	assert_int_equal(suspended(), 0);
	fake_now += 3000;
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
}

/* Two programs hold a part each of the memory that they need: without turns, neither gets the
 * rest. */
static void of_two_that_wait_the_later_one_leaves(void **unused)
{
	(void)unused;
	overcommit(2);
	fake_now += 100;
	ask_for_memory(1);
	fake_now += 100;
	ask_for_memory(0);
	run_policy(&suspender);
	assert_int_equal(suspends[0], 1);
	assert_int_equal(suspended(), 1);
	leave(0);
	sessions[0].suspension.memory_request = CK_NO_MEMORY_REQUEST;
	sessions[0].suspension.coming = false;
	run_policy(&suspender);
	assert_int_equal(answers[1], CK_CONTROL_MADE);
}

/* Two programs that begin together use up the memory together. */
static void of_two_that_ask_at_the_same_time_one_leaves(void **unused)
{
	(void)unused;
	overcommit(2);
	fake_now += 100;
	ask_for_memory(0);
	ask_for_memory(1);
	run_policy(&suspender);
	assert_int_equal(suspended(), 1);
	assert_int_equal(explained[0] + explained[1], 0);
	assert_int_equal(answers[0], CK_CONTROL_COMING);
	assert_int_equal(answers[1], CK_CONTROL_COMING);
}

/* --- how long */

/* What one gives back piece by piece is for those that take it so: the driver's restore does not
 * wait. */
static void the_first_parked_one_tries_while_another_one_leaves(void **unused)
{
	(void)unused;
	overcommit(2);
	sessions[1].suspension.state = CK_SUSPENDED;
	find_no_room(1);
	offer(&suspender, &sessions[0]);
	assert_int_equal(sessions[1].suspension.again, fake_now + 60000);
	sessions[1].suspension.parked = true;
	offer(&suspender, &sessions[0]);
	assert_int_equal(sessions[1].suspension.again, 0);
}

static void a_turn_is_as_long_as_six_moves(void **unused)
{
	struct cks_session_info *s = &sessions[0];

	(void)unused;
	overcommit(2);
	assert_int_equal(turn_ms(&suspender, s, &sessions[1]), 2000);
	s->memory = UINT64_C(32) << 30; /* 2 s out and 2 s in, until it is known better */
	assert_int_equal(turn_ms(&suspender, s, &sessions[1]), 24576);
	s->suspension.out_ms = 1000;
	s->suspension.in_ms = 1300;
	assert_int_equal(turn_ms(&suspender, s, &sessions[1]), 13800);
	granted[1].priority = 1;
	assert_int_equal(turn_ms(&suspender, s, &sessions[1]), 2000);
	suspender.policy.quantum_ms = 60000;
	granted[1].priority = 0;
	assert_int_equal(turn_ms(&suspender, s, &sessions[1]), 60000);
}

/* --- who is next, on a GPU that has room for one; a move takes MOVE ms */

#define STEP 100
#define MOVE 1000
#define TURN (6 * 2 * MOVE)

static int64_t moved[SESSIONS];	       /* when its move ends */
static int64_t stopped[SESSIONS];      /* since when it waits for the GPU; 0: it does not */
static int64_t longest[SESSIONS];      /* that it has waited, */
static size_t fits_nowhere = SESSIONS; /* this one has too little room on an empty GPU */
static int64_t had[SESSIONS], moves;   /* of the GPU, and all moves, in ms */

/* Session 0 is on the GPU, the others have left it. */
static void begin_turns(void)
{
	overcommit(SESSIONS);
	moves = 0;
	fits_nowhere = SESSIONS;
	for (size_t i = 0; i < SESSIONS; i++) {
		moved[i] = stopped[i] = longest[i] = had[i] = 0;
		sessions[i].suspension.state = i == 0 ? CK_RUNNING : CK_SUSPENDED;
		sessions[i].suspension.parked = i > 0;
		sessions[i].suspension.out_ms = sessions[i].suspension.in_ms = MOVE;
	}
}

static void arrive(size_t i)
{
	sessions[i].suspension.state = CK_RUNNING;
	sessions[i].suspension.wanted = false;
	sessions[i].suspension.no_room = 0;
	sessions[i].suspension.used = fake_now;
	begin_turn(&sessions[i]);
	busy = false;
}

static bool is_full(void)
{
	for (size_t i = 0; i < SESSIONS; i++) {
		if (sessions[i].suspension.state != CK_SUSPENDED)
			return true;
	}
	return false;
}

static void try_to_return(size_t i)
{
	struct cks_suspension *u = &sessions[i].suspension;

	u->stuck = false;
	if (!is_full() && i != fits_nowhere) {
		u->state = CK_RETURNING;
		moved[i] = fake_now + MOVE;
		moves += MOVE;
		busy = true;
		return;
	}
	if (u->no_room++ == 0)
		line_up(&suspender, &sessions[i]);
	u->again = fake_now + 500;
}

static void step(size_t i, bool works)
{
	struct cks_suspension *u = &sessions[i].suspension;

	if (u->state == CK_PARKING && !moved[i]) {
		moved[i] = fake_now + MOVE;
		moves += MOVE;
	} else if (u->state == CK_PARKING && fake_now >= moved[i]) {
		moved[i] = 0;
		leave(i);
	} else if (u->state == CK_RETURNING && fake_now >= moved[i]) {
		moved[i] = 0;
		arrive(i);
	} else if (u->state == CK_SUSPENDED) {
		u->wanted |= works;
		if (u->wanted && turn_of(&suspender, &sessions[i]) <= fake_now)
			try_to_return(i);
	} else if (u->state == CK_RUNNING && works) {
		use(i);
		had[i] += STEP;
	}
	if (u->state == CK_RUNNING || !u->wanted)
		stopped[i] = 0;
	else if (!stopped[i])
		stopped[i] = fake_now;
	if (stopped[i])
		longest[i] =
			longest[i] > fake_now - stopped[i] ? longest[i] : fake_now - stopped[i];
}

/* Sessions from @rare on need the GPU for half a second, a moment after they have had that. */
static void simulate(size_t rare, int64_t pause, int64_t ms)
{
	int64_t due[SESSIONS] = {0}, done[SESSIONS] = {0};

	for (int64_t end = fake_now + ms; fake_now < end; fake_now += STEP) {
		for (size_t i = 0; i < SESSIONS; i++) {
			int64_t before = had[i];

			step(i, i < rare || fake_now >= due[i]);
			done[i] += had[i] - before;
			if (i >= rare && done[i] >= 500) {
				due[i] = fake_now + pause;
				done[i] = 0;
			}
		}
		run_policy(&suspender);
	}
}

/* An hour, after some time in which they have left their equal beginnings. */
static void simulate_hour(size_t rare, int64_t pause)
{
	simulate(rare, pause, 600000);
	for (size_t i = 0; i < SESSIONS; i++)
		had[i] = longest[i] = 0;
	simulate(rare, pause, 3600000);
}

static void sessions_that_always_work_have_equal_parts(void **unused)
{
	(void)unused;
	begin_turns();
	simulate(SESSIONS, 0, 20 * 4 * (TURN + 2 * MOVE));
	for (size_t i = 0; i < SESSIONS; i++) {
		assert_in_range(had[i], 18 * TURN, 22 * TURN);
		assert_in_range(longest[i], 0, 4 * (TURN + 3 * MOVE));
	}
	assert_in_range(moves * 100, 1, 15 * 20 * 4 * (TURN + 2 * MOVE));
}

static void one_that_works_rarely_waits_for_one_turn_at_most(void **unused)
{
	(void)unused;
	begin_turns();
	simulate_hour(3, 20000);
	assert_in_range(had[3], 60 * 500, 3600000);
	assert_in_range(longest[3], 1, TURN + 4 * MOVE);
	for (size_t i = 0; i < 3; i++) {
		assert_in_range(had[i], 3600000 / 6, 3600000 / 3);
		assert_in_range(longest[i], 0, 6 * (TURN + 4 * MOVE));
	}
}

/* It waits for memory that no session has; the others go on. */
static void one_that_fits_nowhere_keeps_no_other_away(void **unused)
{
	(void)unused;
	begin_turns();
	fits_nowhere = 3;
	simulate_hour(SESSIONS, 0);
	assert_int_equal(had[3], 0);
	for (size_t i = 0; i < 3; i++)
		assert_in_range(had[i], 3600000 / 5, 3600000 / 3);
}

/* They come back at once, and before the one that always works; together they do not keep it
 * away. */
static void many_that_work_rarely_starve_none(void **unused)
{
	(void)unused;
	begin_turns();
	simulate_hour(1, 4000);
	assert_in_range(longest[0], 0, 5 * TURN);
	assert_in_range(had[0], 3600000 / 5, 3600000);
	for (size_t i = 1; i < SESSIONS; i++)
		assert_in_range(had[i], 60 * 500, 3600000);
}

static void a_new_session_has_no_more_than_one_that_waits(void **unused)
{
	(void)unused;
	begin_turns();
	simulate(SESSIONS, 0, 600000);
	for (size_t i = 1; i < SESSIONS; i++)
		assert_in_range(sessions[i].suspension.served - sessions[0].suspension.served +
					2 * TURN,
				0, 4 * TURN);
	sessions[3].suspension.served = sessions[3].suspension.begun = 0; /* another one */
	line_up(&suspender, &sessions[3]);
	assert_in_range(sessions[0].suspension.served - sessions[3].suspension.served, 0, 3 * TURN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_sessions_of_such_identities_take_turns),
		TEST(the_others_get_no_memory_as_before),
		TEST(one_that_finds_none_to_leave_knows_why),
		TEST(one_that_cannot_leave_has_the_next_one_leave),
		TEST(one_that_waits_for_none_is_told_so),
		TEST(a_session_of_another_gpu_stays),
		TEST(a_higher_priority_leaves_while_it_is_idle),
		TEST(of_two_that_wait_the_later_one_leaves),
		TEST(of_two_that_ask_at_the_same_time_one_leaves),
		TEST(the_first_parked_one_tries_while_another_one_leaves),
		TEST(a_turn_is_as_long_as_six_moves),
		TEST(sessions_that_always_work_have_equal_parts),
		TEST(one_that_works_rarely_waits_for_one_turn_at_most),
		TEST(one_that_fits_nowhere_keeps_no_other_away),
		TEST(many_that_work_rarely_starve_none),
		TEST(a_new_session_has_no_more_than_one_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
