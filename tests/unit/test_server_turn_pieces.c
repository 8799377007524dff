/*
 * tests/unit/test_server_turn_pieces.c - the pieces of a turn beside sessions of higher priority.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/processes/turn_pieces.h"

static struct cks_turn_pieces pieces;
static int64_t now;

static int set_up(void **state)
{
	(void)state;
	pieces = (struct cks_turn_pieces){0};
	now = 1000000;
	cks_turn_pieces_begin(&pieces, 4, 0, now);
	return 0;
}

/* A piece whose messages take @each_us: how long it takes. */
static int64_t run_piece(int64_t each_us)
{
	int64_t used = cks_turn_pieces_next(&pieces, now) * each_us;

	cks_turn_pieces_fit(&pieces, used, true);
	now += used;
	return used;
}

static int64_t run_pieces(int64_t each_us)
{
	int64_t last = 0;

	for (int i = 0; i < 20; i++)
		last = run_piece(each_us);
	return last;
}

static void pieces_follow_the_time_of_messages(void **state)
{
	(void)state;
	assert_int_equal(cks_turn_pieces_next(&pieces, now), 4);
	assert_in_range(run_pieces(10), CK_PIECE_US * 9 / 10, CK_PIECE_US);
	assert_in_range(run_pieces(300), CK_PIECE_US * 8 / 10, CK_PIECE_US);
	assert_int_equal(run_pieces(5000), 5000); /* a message is not divided */
	assert_in_range(run_pieces(10), CK_PIECE_US * 9 / 10, CK_PIECE_US);
}

/* What a session learns in one turn holds in the next. */
static void a_turn_begins_as_the_last_one_ended(void **state)
{
	uint32_t messages;

	(void)state;
	run_pieces(10);
	messages = cks_turn_pieces_next(&pieces, now);
	cks_turn_pieces_begin(&pieces, 4, 0, now);
	assert_int_equal(cks_turn_pieces_next(&pieces, now), messages);
}

static void pieces_are_short_before_the_other_session_comes(void **state)
{
	int64_t used;

	(void)state;
	run_pieces(10);
	cks_turn_pieces_begin(&pieces, 4, 10000, now);
	for (int64_t from = now; now < from + 10000 - CK_PIECE_US; now += used) {
		used = run_piece(10);
		assert_in_range(used, CK_PIECE_US * 9 / 10, CK_PIECE_US);
		now -= used;
	}
	for (int i = 0; i < 20; i++)
		assert_in_range(run_piece(10), CK_PIECE_SHORT_US * 9 / 10, CK_PIECE_SHORT_US);
	cks_turn_pieces_begin(&pieces, 4, 0, now);
	assert_in_range(run_piece(10), CK_PIECE_US * 9 / 10, CK_PIECE_US);
}

/* It says what its messages take at least. */
static void a_piece_that_ended_early_raises_nothing(void **state)
{
	uint32_t messages;

	(void)state;
	run_pieces(10);
	messages = cks_turn_pieces_next(&pieces, now);
	cks_turn_pieces_fit(&pieces, 5, false);
	assert_int_equal(cks_turn_pieces_next(&pieces, now), messages);
	cks_turn_pieces_fit(&pieces, 2 * CK_PIECE_US, false);
	assert_int_equal(cks_turn_pieces_next(&pieces, now), messages / 2);
}

static void there_is_a_bound(void **state)
{
	(void)state;
	cks_turn_pieces_next(&pieces, now);
	for (int i = 0; i < 40; i++)
		cks_turn_pieces_fit(&pieces, 0, true);
	assert_int_equal(cks_turn_pieces_next(&pieces, now), CK_PIECE_MESSAGES_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pieces_follow_the_time_of_messages, set_up),
		cmocka_unit_test_setup(a_turn_begins_as_the_last_one_ended, set_up),
		cmocka_unit_test_setup(pieces_are_short_before_the_other_session_comes, set_up),
		cmocka_unit_test_setup(a_piece_that_ended_early_raises_nothing, set_up),
		cmocka_unit_test_setup(there_is_a_bound, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
