/*
 * tests/unit/test_util_tables.c - hashes, the map, the range set.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/hash.h"
#include "util/map.h"
#include "util/range.h"
#include "util/util.h"

static void a_content_has_the_published_blake2b_name(void **state)
{
	/* `printf abc | b2sum -l 256` and the empty input. */
	static const char abc[] =
		"bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
	static const char empty[] =
		"0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";
	struct ck_hash hash;
	char text[CK_HASH_TEXT];

	(void)state;
	ck_hash("abc", 3, &hash);
	ck_hash_print(&hash, text);
	assert_string_equal(text, abc);
	ck_hash(NULL, 0, &hash);
	ck_hash_print(&hash, text);
	assert_string_equal(text, empty);
}

static void a_printed_hash_is_parsed_back_and_rubbish_is_refused(void **state)
{
	struct ck_hash a, b = {{1}}, c;
	char text[CK_HASH_TEXT + 1] = {0};

	(void)state;
	ck_hash("x", 1, &a);
	ck_hash_print(&a, text);
	assert_int_equal(ck_hash_parse(text, &b), 0);
	assert_true(ck_hash_equal(&a, &b));
	assert_int_equal(ck_hash_compare(&a, &b), 0);
	text[0] ^= 1;
	text[63] = (char)(text[63] >= 'a' ? text[63] - 0x20 : text[63]);
	assert_int_equal(ck_hash_parse(text, &b), 0);
	assert_false(ck_hash_equal(&a, &b));
	c = b;
	text[64] = '0';
	assert_int_equal(ck_hash_parse(text, &b), -EINVAL);
	text[63] = '\0';
	assert_int_equal(ck_hash_parse(text, &b), -EINVAL);
	text[5] = 'g';
	assert_int_equal(ck_hash_parse(text, &b), -EINVAL);
	assert_true(ck_hash_equal(&c, &b));
}

static void key_hashes_of_neighbours_spread_over_low_and_high_bits(void **state)
{
	unsigned low[64] = {0}, high[64] = {0};

	(void)state;
	for (uint64_t key = 0; key < 6400; key++) {
		uint64_t address = 0x7f0000000000 + key * 512, hash;

		hash = ck_hash_key(&address, sizeof(address));
		low[hash & 63]++;
		high[hash >> 58]++;
	}
	for (size_t i = 0; i < 64; i++) {
		assert_in_range(low[i], 50, 150);
		assert_in_range(high[i], 50, 150);
	}
	assert_true(ck_hash_key("\0", 1) != ck_hash_key("\0\0", 2));
	assert_true(ck_hash_key("", 0) != ck_hash_key("\0", 1));
}

static void a_map_finds_what_was_put_in_and_nothing_else(void **state)
{
	struct ck_map *map = ck_map_create();
	int values[5000];
	char key[32];

	(void)state;
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "kernel_%d", i);
		assert_int_equal(ck_map_insert(map, key, strlen(key), &values[i]), 0);
	}
	assert_int_equal(ck_map_insert(map, "kernel_7", 8, &values[0]), -EEXIST);
	assert_int_equal(ck_map_insert(map, "new", 3, NULL), -EINVAL);
	assert_ptr_equal(ck_map_find(map, "kernel_7", 8), &values[7]);
	assert_null(ck_map_find(map, "kernel_7\0", 9));
	assert_null(ck_map_find(map, "", 0));
	for (int i = 0; i < 5000; i += 2) {
		snprintf(key, sizeof(key), "kernel_%d", i);
		assert_ptr_equal(ck_map_remove(map, key, strlen(key)), &values[i]);
	}
	assert_null(ck_map_remove(map, "kernel_0", 8));
	assert_int_equal(ck_map_count(map), 2500);
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "kernel_%d", i);
		assert_ptr_equal(ck_map_find(map, key, strlen(key)), i % 2 ? &values[i] : NULL);
	}
	assert_int_equal(ck_map_insert(map, NULL, 0, &values[0]), 0);
	assert_ptr_equal(ck_map_find(map, NULL, 0), &values[0]);
	ck_map_destroy(map);
}

static void a_walk_meets_every_entry_once_and_may_remove_it(void **state)
{
	struct ck_map *map = ck_map_create();
	struct ck_map_iter it = CK_MAP_ITER_INIT;
	char seen[300] = {0};
	int steps = 0;

	(void)state;
	for (uint16_t i = 0; i < 300; i++)
		assert_int_equal(ck_map_insert(map, &i, sizeof(i), &seen[i]), 0);
	while (ck_map_next(map, &it)) {
		uint16_t key;

		memcpy(&key, it.key, sizeof(key));
		assert_int_equal(it.key_size, sizeof(key));
		assert_ptr_equal(it.value, &seen[key]);
		assert_int_equal(seen[key]++, 0);
		ck_map_remove(map, &key, sizeof(key));
		steps++;
	}
	assert_int_equal(steps, 300);
	assert_int_equal(ck_map_count(map), 0);
	ck_map_destroy(map);
}

static void ranges_are_found_by_any_address_inside(void **state)
{
	struct ck_ranges *set = ck_ranges_create();
	int a, b, c;

	(void)state;
	assert_null(ck_ranges_find(set, 0));
	assert_int_equal(ck_ranges_insert(set, 200, 300, &b), 0);
	assert_int_equal(ck_ranges_insert(set, 100, 200, &a), 0);
	assert_int_equal(ck_ranges_insert(set, UINT64_MAX - 1, UINT64_MAX, &c), 0);
	assert_null(ck_ranges_find(set, 99));
	assert_ptr_equal(ck_ranges_find(set, 100)->value, &a);
	assert_ptr_equal(ck_ranges_find(set, 199)->value, &a);
	assert_ptr_equal(ck_ranges_find(set, 200)->value, &b);
	assert_null(ck_ranges_find(set, 300));
	assert_ptr_equal(ck_ranges_find(set, UINT64_MAX - 1)->value, &c);
	assert_null(ck_ranges_find(set, UINT64_MAX));
	assert_ptr_equal(ck_ranges_overlap(set, 0, 101)->value, &a);
	assert_ptr_equal(ck_ranges_overlap(set, 150, 1000)->value, &a);
	assert_null(ck_ranges_overlap(set, 0, 100));
	assert_null(ck_ranges_overlap(set, 300, 1000));
	ck_ranges_destroy(set);
}

static void overlapping_and_empty_ranges_are_refused(void **state)
{
	struct ck_ranges *set = ck_ranges_create();
	void *value = NULL;
	int a;

	(void)state;
	assert_int_equal(ck_ranges_insert(set, 100, 200, &a), 0);
	assert_int_equal(ck_ranges_insert(set, 50, 101, &a), -EEXIST);
	assert_int_equal(ck_ranges_insert(set, 199, 201, &a), -EEXIST);
	assert_int_equal(ck_ranges_insert(set, 120, 130, &a), -EEXIST);
	assert_int_equal(ck_ranges_insert(set, 0, 1000, &a), -EEXIST);
	assert_int_equal(ck_ranges_insert(set, 5, 5, &a), -EINVAL);
	assert_int_equal(ck_ranges_insert(set, 6, 5, &a), -EINVAL);
	assert_int_equal(ck_ranges_remove(set, 150, &value), -ENOENT);
	assert_int_equal(ck_ranges_count(set), 1);
	assert_int_equal(ck_ranges_remove(set, 100, &value), 0);
	assert_ptr_equal(value, &a);
	assert_int_equal(ck_ranges_count(set), 0);
	ck_ranges_destroy(set);
}

static void ranges_agree_with_a_plain_array_after_many_random_changes(void **state)
{
	struct ck_ranges *set = ck_ranges_create();
	static char model[4096]; /* model[i]: 1 + number of the slot that covers byte i */
	uint32_t random = 12345;
	uint64_t last = 0;

	(void)state;
	memset(model, 0, sizeof(model));
	for (int step = 0; step < 20000; step++) {
		random = random * 1664525 + 1013904223;
		uint64_t lo = random >> 20, size = 1 + (random >> 8) % 40;
		bool is_free = lo + size <= sizeof(model);

		for (uint64_t i = lo; is_free && i < lo + size; i++)
			is_free = !model[i];
		if (random & 1 && lo + size <= sizeof(model)) {
			assert_int_equal(ck_ranges_insert(set, lo, lo + size, &model[lo]),
					 is_free ? 0 : -EEXIST);
			if (is_free)
				memset(&model[lo], 1, size);
		} else if (ck_ranges_find(set, lo)) {
			struct ck_range range = *ck_ranges_find(set, lo);

			assert_true(model[lo]);
			assert_int_equal(ck_ranges_remove(set, range.lo, NULL), 0);
			memset(&model[range.lo], 0, range.hi - range.lo);
		} else {
			assert_false(model[lo]);
		}
	}
	assert_true(ck_ranges_count(set) > 10);
	for (size_t i = 0; i < ck_ranges_count(set); i++) {
		assert_true(ck_ranges_at(set, i)->lo >= last);
		last = ck_ranges_at(set, i)->hi;
	}
	assert_null(ck_ranges_at(set, ck_ranges_count(set)));
	ck_ranges_destroy(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_content_has_the_published_blake2b_name),
		cmocka_unit_test(a_printed_hash_is_parsed_back_and_rubbish_is_refused),
		cmocka_unit_test(key_hashes_of_neighbours_spread_over_low_and_high_bits),
		cmocka_unit_test(a_map_finds_what_was_put_in_and_nothing_else),
		cmocka_unit_test(a_walk_meets_every_entry_once_and_may_remove_it),
		cmocka_unit_test(ranges_are_found_by_any_address_inside),
		cmocka_unit_test(overlapping_and_empty_ranges_are_refused),
		cmocka_unit_test(ranges_agree_with_a_plain_array_after_many_random_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
