/*
 * tests/unit/test_util_text.c - text from others: what is masked, and where it is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/text.h"
#include "util/util.h"

static void what_steers_a_terminal_or_looks_like_other_text_is_masked(void **state)
{
	static const struct {
		const char *text, *plain;
	} cases[] = {
		{"train.py", "train.py"},
		{"", ""},
		{"a\033[31m\n\r\t\x7f", "a?[31m????"},
		{"a\xc2\x9b"
		 "31mb",
		 "a?31mb"}, /* CSI as one character */
		{"a\x9b"
		 "31mb",
		 "a?31mb"}, /* and as one byte */
		{"x\xe2\x80\xaeyp.exe", "x?yp.exe"},
		{"\xe2\x81\xa6m\xe2\x81\xa9\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8", "?m????"},
		{"\xc3\xa4\xe4\xb8\xad\xf0\x9f\x99\x82", "\xc3\xa4\xe4\xb8\xad\xf0\x9f\x99\x82"},
		{"\xff\xc0\x80\xed\xa0\x80z\xe4\xb8", "??????z??"}, /* not UTF-8 */
		{"\xc2\xa0\xe2\x80\x8d", "\xc2\xa0\xe2\x80\x8d"},   /* beside what is masked */
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		ck_text_copy(text, sizeof(text), cases[i].text);
		assert_string_equal(text, cases[i].plain);
		strcpy(text, cases[i].text);
		ck_text_plain(text, sizeof(text));
		assert_string_equal(text, cases[i].plain);
	}
}

static void some_controls_may_stay(void **state)
{
	char text[] = "a\tb\nc\0d";

	(void)state;
	assert_int_equal(ck_text_mask(text, sizeof(text) - 1, "\t"), 7);
	assert_memory_equal(text, "a\tb?c?d", 7);
}

static void no_character_is_divided(void **state)
{
	static const char text[] = "ab\xe4\xb8\xad\xc3\xa4";
	static const char *const by_room[] = {
		"", "", "a", "ab", "ab", "ab", "ab\xe4\xb8\xad", "ab\xe4\xb8\xad", text, text};
	char out[16];

	(void)state;
	for (size_t room = 1; room < CK_ARRAY_SIZE(by_room); room++) {
		memset(out, 'x', sizeof(out));
		ck_text_copy(out, room, text);
		assert_string_equal(out, by_room[room]);
		assert_int_equal(out[room], 'x');
	}
	ck_text_copy(out, 4, "\x80\x80\x80\x80\x80\x80");
	assert_true(strspn(out, "?") == strlen(out));
	memset(out, 'y', sizeof(out));
	ck_text_plain(out, sizeof(out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
}

static void white_space_and_comments_are_cut_off(void **state)
{
	static const struct {
		const char *line, *left;
	} cases[] = {
		{"", ""},     {" \t\r\n", ""},	    {"\t a b \r\n", "a b"},
		{"# a", ""},  {"a # b # c\n", "a"}, {"sha256#a \t#b", "sha256#a"},
		{"a#", "a#"},
	};
	char line[32];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		strcpy(line, cases[i].line);
		ck_text_cut_comment(line);
		assert_string_equal(ck_text_trim(line), cases[i].left);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_steers_a_terminal_or_looks_like_other_text_is_masked),
		cmocka_unit_test(some_controls_may_stay),
		cmocka_unit_test(no_character_is_divided),
		cmocka_unit_test(white_space_and_comments_are_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
