/*
 * tests/unit/test_launcher_number.c - numbers and elements between text and memory.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/text/base64.h"
#include "launcher/text/number.h"
#include "launcher/text/type.h"
#include "util/util.h"

static float f32_of(const char *text)
{
	float value = -77;

	assert_true(ckl_number_f32(text, strlen(text), &value));
	return value;
}

static void the_grammar_is_jsons(void **state)
{
	static const char *const good[] = {"0", "-0", "1", "10.5", "-1e5", "1E+05", "0.1e-7"};
	static const char *const bad[] = {"",	 "-", "01", "+1",  ".5",  "1.", "1e",
					  "1e+", "x", "-x", "inf", "nan", "0x1"};
	bool integral;
	float value;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(good); i++)
		assert_int_equal(ckl_number_length(good[i], good[i] + strlen(good[i]), &integral),
				 strlen(good[i]));
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		assert_false(ckl_number_f32(bad[i], strlen(bad[i]), &value));
}

static void floats_are_read_correctly_rounded(void **state)
{
	float value;
	double wide;

	(void)state;
	assert_true(f32_of("0.1") == 0.1f);
	assert_true(f32_of("16777217") == 16777216.0f);
	assert_true(f32_of("1.00000017881393432617187499") == 1.00000011920928955078125f);
	assert_true(f32_of("1e-50") == 0);
	assert_true(f32_of("1e-45") == 0x1p-149f);
	assert_true(isinf(f32_of("-Infinity")) && isnan(f32_of("NaN")));
	assert_false(ckl_number_f32("1e39", 4, &value));
	assert_true(ckl_number_f64("1e39", 4, &wide));
	assert_false(ckl_number_f64("1e400", 5, &wide));
}

static void printed_floats_read_back_as_the_same_bits(void **state)
{
	char text[CK_NUMBER_TEXT];
	uint32_t bits = 1;
	float value, back;
	size_t size;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		bits = bits * 1664525 + 1013904223;
		memcpy(&value, &bits, sizeof(value));
		size = ckl_number_print_f32(text, value);
		assert_true(size <= CK_TYPE_TEXT - 2);
		if (isfinite(value)) {
			assert_true(ckl_number_f32(text, size, &back));
			assert_memory_equal(&value, &back, sizeof(value));
		}
	}
	size = ckl_number_print_f64(text, -2.2250738585072014e-308);
	assert_true(size <= CK_TYPE_TEXT - 2);
}

static void printed_floats_are_short_and_say_that_they_are(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {{1, "1.0"},       {0.1f, "0.1"},
		     {-0.0, "-0.0"},   {1e20, "1e+20"},
		     {NAN, "\"NaN\""}, {INFINITY, "\"Infinity\""},
		     {3.5, "3.5"},     {-INFINITY, "\"-Infinity\""}};
	char text[CK_NUMBER_TEXT];
	size_t size;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		size = ckl_number_print_f32(text, (float)cases[i].value);
		assert_int_equal(size, strlen(cases[i].text));
		assert_memory_equal(text, cases[i].text, size);
	}
}

static bool fits(enum ckl_type type, const char *text, bool any_sign)
{
	uint64_t out;

	return ckl_type_read(type, text, strlen(text), any_sign, &out);
}

static void integers_have_their_types_range(void **state)
{
	(void)state;
	assert_true(fits(CK_TYPE_I8, "-128", false) && !fits(CK_TYPE_I8, "128", false));
	assert_true(fits(CK_TYPE_U8, "255", false) && !fits(CK_TYPE_U8, "-1", false));
	assert_true(fits(CK_TYPE_U64, "18446744073709551615", false));
	assert_false(fits(CK_TYPE_U64, "18446744073709551616", false));
	assert_true(fits(CK_TYPE_I64, "-9223372036854775808", false));
	assert_false(fits(CK_TYPE_I64, "9223372036854775808", false));
	assert_true(fits(CK_TYPE_U8, "-0", false) && fits(CK_TYPE_U8, "2.55e2", false));
	assert_false(fits(CK_TYPE_U8, "2.5", false));
}

/* With a point or an exponent an integer is no double: that has 53 bits. */
static void integers_are_exact_in_every_form(void **state)
{
	static const char *const same[] = {"9007199254740993",	    "9007199254740993.000",
					   "9007199254740993e0",    "90071992547409930E-1",
					   "9.007199254740993e+15", "0.0009007199254740993e19"};
	static const char *const none[] = {"1e-400",
					   "0.5",
					   "10e-2",
					   "18446744073709551616.0",
					   "1e20",
					   "1e99999999999999999999",
					   "1e-99999999999999999999"};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(same); i++) {
		value = 0;
		assert_true(ckl_type_read(CK_TYPE_I64, same[i], strlen(same[i]), false, &value));
		assert_int_equal(value, UINT64_C(9007199254740993));
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(none); i++)
		assert_false(fits(CK_TYPE_U64, none[i], false));
	assert_true(fits(CK_TYPE_U64, "18446744073709551615.0", false));
	assert_true(fits(CK_TYPE_U64, "-0.0", false) &&
		    fits(CK_TYPE_U64, "0e99999999999999999999", false));
}

static void a_parameter_of_unknown_sign_takes_both_ranges(void **state)
{
	int32_t out;

	(void)state;
	assert_true(ckl_type_read(CK_TYPE_U32, "-2147483648", 11, true, &out));
	assert_int_equal(out, INT32_MIN);
	assert_true(ckl_type_read(CK_TYPE_U32, "4294967295", 10, true, &out));
	assert_int_equal(out, -1);
	assert_false(ckl_type_read(CK_TYPE_U32, "4294967296", 10, true, &out));
	assert_false(ckl_type_read(CK_TYPE_U32, "-2147483649", 11, true, &out));
}

/* Every finite half, by way of its text. */
static void every_half_comes_back(void **state)
{
	static const enum ckl_type types[] = {CK_TYPE_F16, CK_TYPE_BF16};
	char text[CK_TYPE_TEXT];
	uint16_t in, out;
	size_t size;

	(void)state;
	for (size_t t = 0; t < CK_ARRAY_SIZE(types); t++) {
		for (uint32_t bits = 0; bits < 65536; bits++) {
			in = (uint16_t)bits;
			size = ckl_type_print(types[t], &in, text);
			if (text[0] == '"')
				continue;
			assert_true(ckl_type_read(types[t], text, size, false, &out));
			assert_int_equal(in, out);
		}
	}
}

static void halves_round_to_even_and_end_where_they_should(void **state)
{
	static const struct {
		const char *text;
		uint16_t bits;
	} cases[] = {{"1", 0x3C00},	{"65504", 0x7BFF}, {"65519.99", 0x7BFF},
		     {"2049", 0x6800},	{"2051", 0x6802},  {"5.960464477539063e-8", 1},
		     {"2.9e-8", 0},	{"-0", 0x8000},	   {"Infinity", 0x7C00},
		     {"6.1e-5", 0x03FF}};
	uint16_t out;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		assert_true(ckl_type_read(CK_TYPE_F16, cases[i].text, strlen(cases[i].text), false,
					  &out));
		assert_int_equal(out, cases[i].bits);
	}
	assert_false(fits(CK_TYPE_F16, "65520", false));
	assert_false(fits(CK_TYPE_BF16, "3.4e38", false));
}

static void lists_are_read_or_the_wrong_element_is_named(void **state)
{
	static const char *const bad[] = {"1,2,", "1 2",   ",1",  "1,,2",
					  "1,x",  "1,\"2", "1,[", "1,tru"};
	struct ckl_fail fail = {0};
	float out[3];

	(void)state;
	assert_int_equal(
		ckl_type_read_all(CK_TYPE_F32, " 1 ,\n2.5,\"NaN\" ", 15, 3, out, "a", &fail), 0);
	assert_true(out[0] == 1 && out[1] == 2.5f && isnan(out[2]));
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		assert_true(ckl_type_read_all(CK_TYPE_F32, bad[i], strlen(bad[i]), 2, out, "a",
					      &fail) < 0);
		assert_int_equal(fail.exit, CK_EXIT_INPUT);
		ckl_fail_clear(&fail);
	}
}

static void base64_comes_back_and_rubbish_does_not(void **state)
{
	static const char *const bad[] = {"A===", "====", "AA=A", "A!AA", "AA A"};
	unsigned char in[40], out[40];
	char text[64];

	(void)state;
	for (size_t size = 0; size < sizeof(in); size++) {
		for (size_t i = 0; i < size; i++)
			in[i] = (unsigned char)(i * 37 + size);
		ckl_base64_print(in, size, text);
		assert_int_equal(ckl_base64_read(text, ckl_base64_length(size), out, size), 0);
		assert_memory_equal(in, out, size);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		for (size_t size = 0; size <= 3; size++)
			assert_true(ckl_base64_read(bad[i], 4, out, size) < 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_grammar_is_jsons),
		cmocka_unit_test(floats_are_read_correctly_rounded),
		cmocka_unit_test(printed_floats_read_back_as_the_same_bits),
		cmocka_unit_test(printed_floats_are_short_and_say_that_they_are),
		cmocka_unit_test(integers_have_their_types_range),
		cmocka_unit_test(integers_are_exact_in_every_form),
		cmocka_unit_test(a_parameter_of_unknown_sign_takes_both_ranges),
		cmocka_unit_test(every_half_comes_back),
		cmocka_unit_test(halves_round_to_even_and_end_where_they_should),
		cmocka_unit_test(lists_are_read_or_the_wrong_element_is_named),
		cmocka_unit_test(base64_comes_back_and_rubbish_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
