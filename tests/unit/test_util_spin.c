/*
 * tests/unit/test_util_spin.c - looking before sleeping: how long, and when not at all.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

/* Look for something that never comes: microseconds until looking was given up. */
static uint64_t look(struct ck_spin *spin)
{
	struct ck_spin_turn turn = ck_spin_begin(spin);
	uint64_t begin = ck_now_ns();

	while (ck_spin_again(&turn))
		;
	ck_spin_end(&turn);
	return (ck_now_ns() - begin) / 1000;
}

static void nobody_looks_who_is_told_not_to(void **state)
{
	struct ck_spin spin, none = {0};
	struct ck_spin_turn turn;

	(void)state;
	setenv("CRICKET_DEBUG", "spin=0", 1);
	ck_spin_init(&spin, 1000);
	turn = ck_spin_begin(&spin);
	assert_false(ck_spin_again(&turn));
	turn = ck_spin_begin(&none);
	assert_false(ck_spin_again(&turn));
	unsetenv("CRICKET_DEBUG");
}

static void the_environment_says_how_long(void **state)
{
	struct ck_spin spin;

	(void)state;
	setenv("CRICKET_DEBUG", "spin=2000000", 1);
	ck_spin_init(&spin, 10);
	assert_int_equal(spin.most_ns, 1000000000);
	setenv("CRICKET_DEBUG", "spin=rubbish", 1);
	ck_spin_init(&spin, 5);
	assert_int_equal(spin.most_ns, 5000);
	unsetenv("CRICKET_DEBUG");
}

/* What never pays is hardly tried. */
static void looking_in_vain_becomes_short(void **state)
{
	struct ck_spin spin;

	(void)state;
	setenv("CRICKET_DEBUG", "spin=200", 1);
	ck_spin_init(&spin, 10);
	unsetenv("CRICKET_DEBUG");
	for (int i = 0; i < 20; i++) {
		struct ck_spin_turn turn = ck_spin_begin(&spin);

		while (ck_spin_again(&turn))
			;
		turn.begin_ns -= turn.begin_ns ? 1000000 : 0; /* it slept for a millisecond */
		ck_spin_end(&turn);
	}
	assert_in_range(spin.now_ns, 1, 2000);
}

/* While others compute here all waits sleep, and after a while one tries again. */
static void in_a_crowd_everybody_sleeps_for_a_while(void **state)
{
	struct ck_spin spin;
	struct ck_spin_turn turn;

	(void)state;
	setenv("CRICKET_DEBUG", "spin=100", 1);
	ck_spin_init(&spin, 10);
	unsetenv("CRICKET_DEBUG");
	spin.crowd_ms = 40;
	spin.sleep_until_ns = UINT64_MAX;
	turn = ck_spin_begin(&spin);
	assert_false(ck_spin_again(&turn));
	ck_spin_end(&turn);
	assert_int_equal(spin.crowd_ms, 40);
	spin.sleep_until_ns = ck_now_ns();
	turn = ck_spin_begin(&spin);
	turn.begin_ns = ck_now_ns() + 1;
	ck_spin_end(&turn);
	assert_int_equal(spin.crowd_ms, 0);
	assert_in_range(look(&spin), 0, 5000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_looks_who_is_told_not_to),
		cmocka_unit_test(the_environment_says_how_long),
		cmocka_unit_test(looking_in_vain_becomes_short),
		cmocka_unit_test(in_a_crowd_everybody_sleeps_for_a_while),
	};

	return cmocka_run_group_tests_name("util/spin", tests, NULL, NULL);
}
