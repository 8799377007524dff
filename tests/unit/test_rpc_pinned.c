/*
 * tests/unit/test_rpc_pinned.c - lists of changed bytes: both sides end with the same bytes, only
 * changed bytes are written, and no list makes the reader leave it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/pinned.h"

#define SIZE 4096u

static unsigned int state = 1;

static unsigned int next_random(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static _Alignas(8) unsigned char here[SIZE], shadow[SIZE], there[SIZE];
static unsigned char list[CK_CHANGES_ROOM(SIZE)];

static void begin(void)
{
	memset(here, 0, SIZE);
	memset(shadow, 0, SIZE);
	memset(there, 0, SIZE);
}

/* Send what has changed here to the other side. Returns the size of the list. */
static size_t transfer(void)
{
	size_t size = ck_changes_find(9, here, shadow, 0, SIZE, list), at = 0;
	struct ck_changes_run run;

	while (ck_changes_next(list, size, &at, &run)) {
		assert_int_equal(run.number, 9);
		assert_true(run.at + run.size <= SIZE);
		ck_changes_apply(&run, there);
	}
	assert_int_equal(at, size);
	assert_memory_equal(here, shadow, SIZE);
	return size;
}

static void equal_bytes_make_no_list(void **unused)
{
	(void)unused;
	begin();
	assert_int_equal(transfer(), 0);
}

static void both_sides_end_with_the_same_bytes(void **unused)
{
	(void)unused;
	begin();
	for (unsigned int round = 0; round < 500; round++) {
		unsigned int count = next_random() % 200, step = 1 + next_random() % 40;
		unsigned int at = next_random() % SIZE;

		for (unsigned int i = 0; i < count; i++)
			here[(at + i * step) % SIZE] = (unsigned char)next_random();
		assert_true(transfer() <= sizeof(list));
		assert_memory_equal(here, there, SIZE);
	}
}

static void any_pattern_fits_the_room(void **unused)
{
	(void)unused;
	for (unsigned int step = 1; step < 64; step++) {
		begin();
		for (unsigned int i = 0; i < SIZE; i += step)
			here[i] = 1;
		assert_true(transfer() <= sizeof(list));
		assert_memory_equal(here, there, SIZE);
	}
}

static void bytes_that_have_not_changed_are_not_written(void **unused)
{
	(void)unused;
	begin();
	here[100] = 1;
	here[103] = 2;
	there[101] = 3; /* changed on the other side meanwhile */
	there[104] = 4;
	transfer();
	assert_int_equal(there[100], 1);
	assert_int_equal(there[101], 3);
	assert_int_equal(there[103], 2);
	assert_int_equal(there[104], 4);
}

static void only_the_range_is_compared(void **unused)
{
	(void)unused;
	begin();
	here[0] = here[1024] = here[2048] = 1;
	assert_true(ck_changes_find(1, here, shadow, 1024, 1024, list) > 0);
	assert_int_equal(shadow[0], 0);
	assert_int_equal(shadow[1024], 1);
	assert_int_equal(shadow[2048], 0);
}

static void a_wrong_list_is_not_left(void **unused)
{
	struct ck_changes_run run;
	size_t size, at;

	(void)unused;
	begin();
	memset(here, 5, 256);
	size = ck_changes_find(1, here, shadow, 0, SIZE, list);
	for (size_t cut = 0; cut < size; cut++) { /* in memory of its own, for the sanitizer */
		unsigned char *copy = malloc(cut + !cut);

		memcpy(copy, list, cut);
		at = 0;
		assert_false(ck_changes_next(copy, cut, &at, &run));
		assert_int_equal(at, 0);
		free(copy);
	}
	for (unsigned int round = 0; round < 20000; round++) {
		list[next_random() % size] = (unsigned char)next_random();
		for (at = 0; ck_changes_next(list, size, &at, &run);)
			assert_true(run.words + run.size <= list + size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_bytes_make_no_list),
		cmocka_unit_test(both_sides_end_with_the_same_bytes),
		cmocka_unit_test(any_pattern_fits_the_room),
		cmocka_unit_test(bytes_that_have_not_changed_are_not_written),
		cmocka_unit_test(only_the_range_is_compared),
		cmocka_unit_test(a_wrong_list_is_not_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
