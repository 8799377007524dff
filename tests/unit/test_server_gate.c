/*
 * tests/unit/test_server_gate.c - the way to the driver: threads inside leave, others wait, the
 * first one knocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/session/gate.h"

#define VISITORS 4

static struct cks_gate gate;
static atomic_int knocks, asks, inside;
static atomic_bool stop, silent;

static void knock(void)
{
	atomic_fetch_add(&knocks, 1);
}

static void ask(void)
{
	atomic_fetch_add(&asks, 1);
}

static int setup(void **state)
{
	(void)state;
	cks_gate_init(&gate);
	gate.ask = ask;
	atomic_store(&asks, 0);
	gate.knock = knock;
	atomic_store(&knocks, 0);
	atomic_store(&stop, false);
	atomic_store(&silent, false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cks_gate_fini(&gate);
	return 0;
}

static void a_closed_gate_lets_nobody_in(void **state)
{
	struct cks_pass pass = {.turns = 0};
	bool any;

	(void)state;
	cks_gate_join(&gate, &pass);
	assert_true(cks_gate_try(&gate, &pass));
	cks_gate_turns(&gate, &any);
	assert_true(any);
	cks_gate_leave(&pass);
	assert_true(cks_gate_close(&gate, 0));
	assert_false(cks_gate_try(&gate, &pass));
	cks_gate_turns(&gate, &any);
	assert_false(any);
	cks_gate_open(&gate);
	assert_true(cks_gate_try(&gate, &pass));
	cks_gate_leave(&pass);
	cks_gate_part(&gate, &pass);
}

static void who_does_not_leave_keeps_it_open(void **state)
{
	struct cks_pass pass = {.turns = 0}, other = {.turns = 0};

	(void)state;
	cks_gate_join(&gate, &pass);
	cks_gate_join(&gate, &other);
	cks_gate_enter(&gate, &pass);
	assert_false(cks_gate_close(&gate, 5));
	assert_true(cks_gate_try(&gate, &other)); /* it is as before */
	cks_gate_leave(&other);
	cks_gate_leave(&pass);
	assert_true(cks_gate_close(&gate, 5));
	cks_gate_open(&gate);
	cks_gate_part(&gate, &pass);
	cks_gate_part(&gate, &other);
}

static void turns_grow_with_use_and_stay_when_a_thread_goes(void **state)
{
	struct cks_pass pass = {.turns = 0};
	uint64_t before, after;
	bool any;

	(void)state;
	cks_gate_join(&gate, &pass);
	before = cks_gate_turns(&gate, &any);
	cks_gate_enter(&gate, &pass);
	cks_gate_leave(&pass);
	after = cks_gate_turns(&gate, &any);
	assert_true(after > before);
	cks_gate_part(&gate, &pass);
	assert_int_equal(cks_gate_turns(&gate, &any), after);
}

static void an_uncounted_turn_leaves_no_trace(void **state)
{
	struct cks_pass pass = {.turns = 0};
	uint64_t before;
	bool any;

	(void)state;
	cks_gate_join(&gate, &pass);
	cks_gate_enter(&gate, &pass);
	cks_gate_leave(&pass);
	before = cks_gate_turns(&gate, &any);
	cks_gate_uncount(&pass);
	cks_gate_enter(&gate, &pass);
	assert_int_equal(cks_gate_turns(&gate, &any), before);
	assert_false(any);
	assert_false(cks_gate_is_empty(&gate));
	assert_false(cks_gate_close(&gate, 5)); /* it is inside nevertheless */
	cks_gate_leave_uncounted(&pass);
	assert_true(cks_gate_is_empty(&gate));
	assert_true(cks_gate_close(&gate, 5));
	assert_false(cks_gate_try_uncounted(&gate, &pass));
	cks_gate_open(&gate);
	cks_gate_enter(&gate, &pass); /* this one counts again */
	assert_true(cks_gate_turns(&gate, &any) > before);
	assert_true(any);
	cks_gate_leave_uncounted(&pass);
	assert_int_equal(cks_gate_turns(&gate, &any), before);
	assert_false(any);
	cks_gate_part(&gate, &pass);
}

static void *visit(void *data)
{
	struct cks_pass pass = {.turns = 0};

	(void)data;
	cks_gate_join(&gate, &pass);
	while (!atomic_load(&stop)) {
		if (atomic_load(&silent))
			cks_gate_enter_silently(&gate, &pass);
		else
			cks_gate_enter(&gate, &pass);
		atomic_fetch_add(&inside, 1);
		atomic_fetch_sub(&inside, 1);
		cks_gate_leave(&pass);
	}
	cks_gate_part(&gate, &pass);
	return NULL;
}

/* Close it often while all go through: no thread is ever inside then, and one knock stands for them
 * all. */
static void come_and_go(bool silently)
{
	pthread_t threads[VISITORS];

	atomic_store(&silent, silently);
	for (int i = 0; i < VISITORS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, visit, NULL), 0);
	for (int i = 0; i < 50; i++) {
		atomic_store(&knocks, 0);
		assert_true(cks_gate_close(&gate, 10000));
		for (int k = 0; k < 20; k++)
			assert_int_equal(atomic_load(&inside), 0);
		while (!silently && atomic_load(&knocks) == 0)
			usleep(100);
		usleep(500);
		assert_int_equal(atomic_load(&knocks), silently ? 0 : 1);
		assert_int_equal(atomic_load(&inside), 0);
		cks_gate_open(&gate);
		usleep(100);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < VISITORS; i++)
		pthread_join(threads[i], NULL);
}

static void nobody_is_inside_of_a_closed_gate(void **state)
{
	(void)state;
	come_and_go(false);
}

static void who_waits_silently_does_not_knock(void **state)
{
	(void)state;
	come_and_go(true);
}

static bool knocks_reach(int number)
{
	for (int ms = 0; ms < 30000 && atomic_load(&knocks) < number; ms++)
		usleep(1000);
	return atomic_load(&knocks) == number;
}

/* The gate opens and closes before a thread that waits has run. */
static void who_still_waits_knocks_at_the_next_closing(void **state)
{
	pthread_t thread;
	bool again;

	(void)state;
	assert_true(cks_gate_close(&gate, 0));
	assert_int_equal(pthread_create(&thread, NULL, visit, NULL), 0);
	assert_true(knocks_reach(1));
	ck_lock(&gate.lock);
	gate.knocked = false;
	ck_cond_broadcast(&gate.opened);
	ck_unlock(&gate.lock);
	again = knocks_reach(2);
	atomic_store(&stop, true);
	cks_gate_open(&gate);
	pthread_join(thread, NULL);
	assert_true(again);
}

static bool asks_reach(int number)
{
	for (int ms = 0; ms < 30000 && atomic_load(&asks) < number; ms++)
		usleep(1000);
	return atomic_load(&asks) >= number; /* again after a while */
}

/* Threads ask each time that it is held, and it is open only if it is neither held nor parked. */
static void who_waits_for_a_turn_asks_for_it(void **state)
{
	struct cks_pass own = {.turns = 0};
	pthread_t thread;

	(void)state;
	cks_gate_join(&gate, &own);
	cks_gate_hold(&gate);
	assert_int_equal(pthread_create(&thread, NULL, visit, NULL), 0);
	assert_true(asks_reach(1));
	cks_gate_let(&gate);
	cks_gate_hold(&gate);
	assert_true(asks_reach(2));
	assert_int_equal(atomic_load(&knocks), 0);
	assert_false(cks_gate_try(&gate, &own));
	assert_true(cks_gate_try_held(&gate, &own));
	assert_false(cks_gate_close(&gate, 1)); /* that one is inside, */
	cks_gate_leave(&own);
	assert_false(cks_gate_try(&gate, &own)); /* and it stays held */
	assert_true(cks_gate_close(&gate, 10000));
	assert_false(cks_gate_try_held(&gate, &own));
	cks_gate_let(&gate);
	assert_true(knocks_reach(1));
	assert_false(cks_gate_try(&gate, &own));
	atomic_store(&stop, true);
	cks_gate_open(&gate);
	pthread_join(thread, NULL);
	cks_gate_part(&gate, &own);
}

/* When a new supervisor holds it again, threads that wait ask again. */
static void who_waits_asks_whoever_holds_it_again(void **state)
{
	pthread_t thread;
	bool again;

	(void)state;
	cks_gate_hold(&gate);
	assert_int_equal(pthread_create(&thread, NULL, visit, NULL), 0);
	while (atomic_load(&asks) == 0)
		usleep(1000);
	ck_lock(&gate.lock);
	gate.ask_at = INT64_MAX; /* no question is due */
	ck_unlock(&gate.lock);
	atomic_store(&asks, 0);
	cks_gate_hold(&gate);
	again = asks_reach(1);
	atomic_store(&stop, true);
	cks_gate_let(&gate);
	pthread_join(thread, NULL);
	assert_true(again);
}

/* No answer has come: it asks again without any event. */
static void who_gets_no_turn_asks_again(void **state)
{
	pthread_t thread;
	bool again;

	(void)state;
	cks_gate_hold(&gate);
	assert_int_equal(pthread_create(&thread, NULL, visit, NULL), 0);
	for (int ms = 0; ms < 30000 && atomic_load(&asks) < 3; ms++)
		usleep(1000);
	again = atomic_load(&asks) >= 3;
	atomic_store(&stop, true);
	cks_gate_let(&gate);
	pthread_join(thread, NULL);
	assert_true(again);
}

int main(void)
{
#define row(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		row(a_closed_gate_lets_nobody_in),
		row(who_does_not_leave_keeps_it_open),
		row(turns_grow_with_use_and_stay_when_a_thread_goes),
		row(an_uncounted_turn_leaves_no_trace),
		row(nobody_is_inside_of_a_closed_gate),
		row(who_still_waits_knocks_at_the_next_closing),
		row(who_waits_for_a_turn_asks_for_it),
		row(who_waits_asks_whoever_holds_it_again),
		row(who_gets_no_turn_asks_again),
		row(who_waits_silently_does_not_knock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
