/*
 * tests/unit/test_launcher_elements.c - lists of elements from text: runs, and pieces in parallel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/text/number.h"
#include "launcher/text/parallel.h"
#include "launcher/text/scan.h"
#include "launcher/text/type.h"
#include "util/util.h"

#define COUNT 60000 /* enough for the parallel way */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)seed * below >> 32);
}

/* One element after the other, as the lists were read before. Returns the index of a wrong one. */
static size_t read_one_by_one(enum ckl_type type, const char *text, size_t size, char *out,
			      bool *wrong)
{
	struct ckl_elements it = {.at = text, .end = text + size};
	size_t length, i;
	const char *at;
	int ret;

	for (i = 0; (ret = ckl_elements_next(&it, &at, &length)) > 0; i++) {
		if (!ckl_type_read(type, at, length, false, out + i * ckl_type_size(type)))
			break;
	}
	*wrong = ret != 0;
	return i;
}

static void assert_reads_the_same(enum ckl_type type, const char *text, size_t size)
{
	size_t count = ckl_scan_commas(text, size) + 1, bytes = count * ckl_type_size(type), at;
	char *one = calloc(1, bytes), *all = calloc(1, bytes), name[64];
	struct ckl_fail fail = {0};
	bool wrong;
	int ret;

	at = read_one_by_one(type, text, size, one, &wrong);
	ret = ckl_type_read_all(type, text, size, count, all, "a", &fail);
	if (ret == 0 && !wrong)
		assert_memory_equal(one, all, bytes);
	snprintf(name, sizeof(name), "a: element %zu", at);
	if (wrong)
		assert_memory_equal(fail.message, name, strlen(name));
	assert_true((ret < 0) == wrong);
	assert_true(ckl_type_read_parallel(type, text, size, count, all, 100) == !wrong);
	ckl_fail_clear(&fail);
	free(one);
	free(all);
}

/* Every kind of float that there is, with blanks here and there. */
static size_t make_list(char *text, bool words)
{
	static const char *const extra[] = {"\"NaN\"",
					    "\"-Infinity\"",
					    "-0",
					    "0",
					    "1e-60",
					    "-1e-400",
					    "16777217",
					    "true",
					    "1.00000017881393432617187499",
					    "3.4028235677973366e38",
					    "0.000000000000000000001"};
	static const char *const gaps[] = {"", "", "", " ", "\n\t"};
	char *at = text;

	for (size_t i = 0; i < COUNT; i++) {
		uint32_t bits = draw(UINT32_MAX) | draw(2);
		float value;

		memcpy(&value, &bits, sizeof(value));
		at = stpcpy(at, gaps[draw(5)]);
		if (words && draw(50) == 0)
			at = stpcpy(at, extra[draw(CK_ARRAY_SIZE(extra))]);
		else if (draw(2))
			at += sprintf(at, "%.6f", draw(1000000) / 1e5);
		else if (value == value && value - value == 0)
			at += ckl_number_print_f32(at, value);
		else
			*at++ = '7';
		at = stpcpy(at, gaps[draw(5)]);
		*at++ = ',';
	}
	return (size_t)(at - 1 - text);
}

static void large_lists_are_bit_for_bit_the_same(void **state)
{
	static const enum ckl_type types[] = {CK_TYPE_F32, CK_TYPE_F64, CK_TYPE_BF16};
	char *text = malloc(COUNT * 48);

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(types); i++) {
		seed = (uint32_t)i + 1;
		assert_reads_the_same(types[i], text, make_list(text, false));
		assert_reads_the_same(types[i], text, make_list(text, true));
	}
	free(text);
}

/* A byte is changed anywhere; the list may still be right. */
static void errors_of_large_lists_name_the_first_wrong_element(void **state)
{
	static const char bytes[] = "\"[]{}xeE+-.,, 09N\0";
	char *text = malloc(COUNT * 48), before;
	size_t size, at;

	(void)state;
	seed = 7;
	size = make_list(text, true);
	for (int i = 0; i < 60; i++) {
		at = draw((uint32_t)size);
		before = text[at];
		text[at] = bytes[draw(sizeof(bytes) - 1)];
		assert_reads_the_same(i % 2 ? CK_TYPE_F32 : CK_TYPE_F64, text, size);
		text[at] = before;
	}
	assert_reads_the_same(CK_TYPE_F32, text, size - 3);
	text[size - 1] = ',';
	assert_reads_the_same(CK_TYPE_F32, text, size);
	free(text);
}

static void large_lists_of_integers_have_their_types_range(void **state)
{
	char *text = malloc(COUNT * 12), *at = text;

	(void)state;
	for (int i = 0; i < COUNT; i++)
		at += sprintf(at, i % 7 ? "%d," : "%d.0,", (int)draw(200) - 72);
	assert_reads_the_same(CK_TYPE_I8, text, (size_t)(at - 1 - text));
	assert_reads_the_same(CK_TYPE_I32, text, (size_t)(at - 1 - text));
	assert_reads_the_same(CK_TYPE_U8, text, (size_t)(at - 1 - text));
	free(text);
}

/* Short texts of the bytes that numbers have: what a run takes is what the grammar allows. */
static void a_run_takes_json_numbers_only(void **state)
{
	static const char bytes[] = "0123456789012345.-+eE, ainf";
	char text[12];

	(void)state;
	seed = 3;
	for (int i = 0; i < 300000; i++) {
		size_t size = 1 + draw(sizeof(text) - 1);
		float run[sizeof(text)], one[sizeof(text)];
		const char *at = text;
		size_t count, limit;
		bool wrong;

		for (size_t k = 0; k < size; k++)
			text[k] = bytes[draw(sizeof(bytes) - 1)];
		count = ckl_number_run_f32(&at, text + size, false, run, CK_ARRAY_SIZE(run));
		limit = read_one_by_one(CK_TYPE_F32, text, size, (char *)one, &wrong);
		assert_true(count <= limit);
		/* The C++ library's from_chars leaves what is too small. */
		assert_true(wrong || count == limit || memchr(text, '-', size));
		assert_memory_equal(run, one, count * sizeof(float));
	}
}

static void a_run_leaves_what_is_not_plain(void **state)
{
	static const char *const left[] = {"\"NaN\"", "1e39", "01",   "1.", ".5",
					   "1.e5",    "1e",   "true", "-",  "+1",
					   "inf",     "nan",  "0x1",  "1;", ""};
	float value;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(left); i++) {
		const char *at = left[i];

		assert_int_equal(ckl_number_run_f32(&at, at + strlen(at), false, &value, 1), 0);
		assert_ptr_equal(at, left[i]);
	}
}

static void commas_are_counted_and_leaves_end_where_they_end(void **state)
{
	char text[256];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		size_t size, commas = 0, at = 0;
		struct ckl_scan scan = {0};

		seed = (uint32_t)i;
		at = (size_t)sprintf(text, "{\"a\":[1");
		size = at + draw(150);
		for (size_t k = at; k < size; k++) {
			text[k] = "0123.,,-e\x80\xff|\x0c"[draw(13)];
			commas += text[k] == ',';
		}
		assert_int_equal(ckl_scan_commas(text, size), commas);
		memcpy(text + size, "]}", 2);
		assert_int_equal(ckl_scan(&scan, text, size + 2), 1);
		assert_int_equal(scan.count, 1);
		assert_int_equal(scan.leaves[0].end, size);
		assert_int_equal(scan.leaves[0].count, commas + 1);
		ckl_scan_free(&scan);
	}
}

static void mark(void *context, size_t index)
{
	__atomic_fetch_add(&((int *)context)[index], 1, __ATOMIC_RELAXED);
}

static void every_piece_is_worked_on_once(void **state)
{
	int marks[1000] = {0};

	(void)state;
	ckl_parallel(0, mark, marks);
	ckl_parallel(999, mark, marks);
	for (size_t i = 0; i < 999; i++)
		assert_int_equal(marks[i], 1);
	assert_int_equal(marks[999], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_lists_are_bit_for_bit_the_same),
		cmocka_unit_test(errors_of_large_lists_name_the_first_wrong_element),
		cmocka_unit_test(large_lists_of_integers_have_their_types_range),
		cmocka_unit_test(a_run_takes_json_numbers_only),
		cmocka_unit_test(a_run_leaves_what_is_not_plain),
		cmocka_unit_test(commas_are_counted_and_leaves_end_where_they_end),
		cmocka_unit_test(every_piece_is_worked_on_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
