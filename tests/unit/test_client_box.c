/*
 * tests/unit/test_client_box.c - boxes of memory: which bytes they have, compared with a byte map.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/memory/box.h"

#define ROOM 512u

static unsigned int below(unsigned int n)
{
	return (unsigned int)rand() % n;
}

static struct ckc_box some_box(void)
{
	struct ckc_box box = {.width = 1 + below(8), .height = 1 + below(4), .depth = 1 + below(3)};
	const size_t at[3] = {below(2), below(2), below(2)};
	size_t pitch = below(2) ? 0 : box.width + at[0] + below(8);
	size_t rows = below(2) ? 0 : box.height + at[1] + below(2);

	assert_true(ckc_box_place(&box, 4096 + below(ROOM / 4), pitch, rows, at));
	return box;
}

/* The bytes of @box, in the order of its packed form: their number. */
static size_t list_bytes(const struct ckc_box *box, uint64_t list[ROOM])
{
	size_t n = 0;

	for (size_t z = 0; z < box->depth; z++)
		for (size_t y = 0; y < box->height; y++)
			for (size_t x = 0; x < box->width; x++)
				list[n++] = box->start + z * box->slice + y * box->pitch + x;
	return n;
}

static bool have_common(const uint64_t *a, size_t na, const uint64_t *b, size_t nb)
{
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++)
			if (a[i] == b[k])
				return true;
	return false;
}

static void boxes_overlap_where_they_have_a_byte_in_common(void **state)
{
	uint64_t a_bytes[ROOM], b_bytes[ROOM];
	unsigned int apart = 0, rounds = 100000;

	(void)state;
	srand(1);
	for (unsigned int i = 0; i < rounds; i++) {
		struct ckc_box a = some_box(), b = some_box();
		bool common = have_common(a_bytes, list_bytes(&a, a_bytes), b_bytes,
					  list_bytes(&b, b_bytes));

		assert_int_equal(ckc_boxes_overlap(&a, &b), common);
		apart += !common;
	}
	assert_in_range(apart, rounds / 10, rounds - rounds / 10);
}

static void a_box_within_another_has_its_bytes_in_that_ones_packed_bytes(void **state)
{
	uint64_t a_bytes[ROOM], b_bytes[ROOM], at[ROOM];
	unsigned int within = 0;
	struct ckc_box inner;

	(void)state;
	srand(2);
	for (unsigned int i = 0; i < 100000; i++) {
		struct ckc_box a = some_box(), b = i % 8 == 0 ? a : some_box();
		size_t na = list_bytes(&a, a_bytes), nb = list_bytes(&b, b_bytes);

		if (!ckc_box_contains(&a, &b, &inner)) {
			assert_true(i % 8 != 0);
			continue;
		}
		within++;
		assert_int_equal(list_bytes(&inner, at), nb);
		for (size_t k = 0; k < nb; k++) {
			assert_true(at[k] < na);
			assert_int_equal(a_bytes[at[k]], b_bytes[k]);
		}
	}
	assert_true(within > 12600); /* equal ones, and parts of packed ones */
}

/* Two rows of two bytes, the second 8 bytes after the first: ten bytes from end to end. */
static void a_box_is_within_memory_that_has_all_of_it(void **state)
{
	const struct ckc_box box = {
		.start = 1000, .width = 2, .height = 2, .depth = 1, .pitch = 8, .slice = 16};

	(void)state;
	assert_true(ckc_box_is_within(&box, 1000, 10));
	assert_true(ckc_box_is_within(&box, 900, 1000));
	assert_false(ckc_box_is_within(&box, 1000, 9));
	assert_false(ckc_box_is_within(&box, 1001, 100));
	assert_false(ckc_box_is_within(&box, 990, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes_overlap_where_they_have_a_byte_in_common),
		cmocka_unit_test(a_box_within_another_has_its_bytes_in_that_ones_packed_bytes),
		cmocka_unit_test(a_box_is_within_memory_that_has_all_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
