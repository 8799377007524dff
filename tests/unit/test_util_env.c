/*
 * tests/unit/test_util_env.c - the tables of environment variables and of their words.
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

#include "util/env.h"
#include "util/util.h"

static void a_variable_that_is_unset_has_its_default(void **state)
{
	(void)state;
	unsetenv("CRICKET_TIMEOUT");
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CRICKET_CACHE_SIZE");
	assert_int_equal(ck_env_long("CRICKET_TIMEOUT"), 10);
	assert_int_equal(ck_env_long("CRICKET_CACHE_SIZE"), 4L << 30);
	assert_null(ck_env_string("CUDA_VISIBLE_DEVICES"));
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	assert_string_equal(ck_env_string("CUDA_VISIBLE_DEVICES"), "");
	setenv("CRICKET_NO_SUCH_ROW", "5", 1);
	assert_null(ck_env_string("CRICKET_NO_SUCH_ROW"));
	assert_int_equal(ck_env_long("CRICKET_NO_SUCH_ROW"), 0);
}

static void numbers_take_suffixes_and_nonsense_falls_back(void **state)
{
	static const struct {
		const char *text;
		long value;
	} cases[] = {
		{"7", 7},
		{"0x10", 16},
		{"3k", 3072},
		{"2M", 2 << 20},
		{"1G", 1 << 30},
		{"1T", 1L << 40},
		{"-1", -1},
		{"", 10},
		{"x", 10},
		{"4 ", 10},
		{"4KB", 10},
		{"4Q", 10},
		{"99999999999999999999", 10},
		{"99999999999T", 10},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		setenv("CRICKET_TIMEOUT", cases[i].text, 1);
		assert_int_equal(ck_env_long("CRICKET_TIMEOUT"), cases[i].value);
	}
}

static void a_part_is_a_percentage(void **state)
{
	static const char *const wrong[] = {"",	  "%",	  "0%",	 "101%", "0001%",
					    "25", "25 %", "-1%", "25%%"};
	unsigned int percent = 7;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++)
		assert_int_equal(ck_env_percent(wrong[i], &percent), -EINVAL);
	assert_int_equal(percent, 7);
	assert_int_equal(ck_env_percent("1%", &percent), 0);
	assert_int_equal(percent, 1);
	assert_int_equal(ck_env_percent("100%", &percent), 0);
	assert_int_equal(percent, 100);
}

static void the_help_names_every_variable(void **state)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	ck_env_help(out);
	fclose(out);
	assert_non_null(strstr(text, "REMOTE_GPU_ADDRESS\n    "));
	assert_non_null(strstr(text, "CRICKET_TIMEOUT (default 10)\n"));
	for (const struct ck_env_row *row = ck_env_table(); row->name; row++)
		assert_non_null(strstr(text, row->name));
	assert_non_null(strstr(text, "\n      memory= (default 2G)\n"));
	assert_non_null(strstr(text, "\n      no-peers\n"));
	assert_non_null(strstr(text, "\n      shared\n"));
	free(text);
}

static long emu(const char *name)
{
	return ck_env_word_number("CRICKET_EMU", name);
}

static void a_word_has_its_value_or_its_default(void **state)
{
	char text[16];

	(void)state;
	setenv("CRICKET_EMU", "memory=64M,,no-peers,usage=,shared,devices=x,threads=1,threads=2,",
	       1);
	assert_int_equal(emu("memory"), 64 << 20);
	assert_int_equal(emu("peers"), 0);
	assert_int_equal(emu("shared"), 1);
	assert_int_equal(emu("dirty"), 0);
	assert_int_equal(emu("devices"), 1);
	assert_int_equal(emu("threads"), 2);
	assert_int_equal(emu("nothing"), 0);
	assert_int_equal(ck_env_word("CRICKET_EMU", "usage", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(ck_env_word("CRICKET_EMU", "check", text, sizeof(text)), -ENOENT);
	assert_int_equal(ck_env_word("CRICKET_EMU", "memory", text, 3), -ENAMETOOLONG);
	unsetenv("CRICKET_EMU");
	assert_int_equal(emu("peers"), 1);
}

static void an_added_word_counts(void **state)
{
	(void)state;
	unsetenv("CRICKET_EMU");
	assert_int_equal(ck_env_list_add("CRICKET_EMU", "devices=2"), 0);
	assert_int_equal(ck_env_list_add("CRICKET_EMU", "devices=3"), 0);
	assert_string_equal(getenv("CRICKET_EMU"), "devices=2,devices=3");
	assert_int_equal(emu("devices"), 3);
	unsetenv("CRICKET_EMU");
}

static char said[1024];

static void note_line(const char *line)
{
	strncat(said, line, sizeof(said) - strlen(said) - 2);
	strcat(said, "\n");
}

static void wrong_words_and_values_have_a_line_on_the_side_that_reads_them(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", "device=2,memory=abc,check=race+init,check=races,peers=x,nothing", 1);
	said[0] = '\0';
	ck_env_check_lists(CK_ENV_CLIENT, note_line);
	assert_string_equal(said, "");
	ck_env_check_lists(CK_ENV_EMU, note_line);
	assert_string_equal(said,
			    "CRICKET_EMU: unknown word device; did you mean devices?\n"
			    "CRICKET_EMU: memory=abc is not a number: the default, 2G is used\n"
			    "CRICKET_EMU: check=races is not one of race, init, bounds, count\n"
			    "CRICKET_EMU: peers=x is not 0 or 1: the default, 1 is used\n"
			    "CRICKET_EMU: unknown word nothing\n");
	unsetenv("CRICKET_EMU");
}

static void an_old_variable_counts_without_its_word_and_has_one_line(void **state)
{
	(void)state;
	setenv("CRICKET_EMU_MEMORY", "1G", 1);
	setenv("CRICKET_EMU_PEERS", "0", 1);
	setenv("CRICKET_EMU_CHECK", "race,init", 1);
	assert_int_equal(emu("memory"), 1 << 30);
	assert_int_equal(emu("peers"), 0);
	said[0] = '\0';
	ck_env_check(CK_ENV_CLIENT, note_line);
	assert_null(strstr(said, "CRICKET_EMU"));
	ck_env_check_lists(CK_ENV_EMU, note_line);
	assert_non_null(strstr(said, "CRICKET_EMU_MEMORY is an old name, which the next release "
				     "ignores: set CRICKET_EMU=memory=1G\n"));
	assert_non_null(strstr(said, "set CRICKET_EMU=no-peers\n"));
	assert_non_null(strstr(said, "set CRICKET_EMU=check=race+init\n"));
	setenv("CRICKET_EMU", "memory=2M", 1);
	assert_int_equal(emu("memory"), 2 << 20);
}

static void a_switch_without_a_default_has_three_states(void **state)
{
	char mode[8];

	(void)state;
	assert_int_equal(ck_env_word("CRICKET_DEBUG", "compress", mode, sizeof(mode)), -ENOENT);
	setenv("CRICKET_DEBUG", "no-compress", 1);
	assert_int_equal(ck_env_word("CRICKET_DEBUG", "compress", mode, sizeof(mode)), 0);
	assert_string_equal(mode, "0");
	unsetenv("CRICKET_DEBUG");
	setenv("CRICKET_COMPRESS", "auto", 1);
	setenv("CRICKET_SHM", "0", 1);
	said[0] = '\0';
	ck_env_check_lists(CK_ENV_CLIENT, note_line);
	assert_non_null(strstr(said, "set CRICKET_DEBUG=compress=auto\n"));
	assert_non_null(strstr(said, "set CRICKET_DEBUG=no-shm\n"));
	assert_null(strstr(said, "default"));
	unsetenv("CRICKET_COMPRESS");
	unsetenv("CRICKET_SHM");
}

static void a_server_replaces_old_variables_for_its_workers(void **state)
{
	char text[16];

	(void)state;
	ck_env_replace_old();
	assert_null(getenv("CRICKET_EMU_MEMORY"));
	assert_null(getenv("CRICKET_EMU_PEERS"));
	assert_int_equal(emu("memory"), 2 << 20);
	assert_int_equal(emu("peers"), 0);
	assert_int_equal(ck_env_word("CRICKET_EMU", "check", text, sizeof(text)), 0);
	assert_string_equal(text, "race+init");
	said[0] = '\0';
	ck_env_check_lists(CK_ENV_EMU, note_line);
	assert_string_equal(said, "");
}

static void a_program_is_found_by_path(void **state)
{
	char *path = strdup(getenv("PATH")), out[64], small[7];

	(void)state;
	setenv("PATH", ":/nowhere:/bin:/usr/bin", 1);
	assert_true(ck_env_find_program("sh", out, sizeof(out)));
	assert_string_equal(out, "/bin/sh");
	assert_false(ck_env_find_program("no-such-program", out, sizeof(out)));
	setenv("PATH", "/bin", 1);
	assert_false(ck_env_find_program("sh", small, sizeof(small)));
	unsetenv("PATH");
	assert_false(ck_env_find_program("sh", out, sizeof(out)));
	setenv("PATH", path, 1);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_variable_that_is_unset_has_its_default),
		cmocka_unit_test(numbers_take_suffixes_and_nonsense_falls_back),
		cmocka_unit_test(a_part_is_a_percentage),
		cmocka_unit_test(a_program_is_found_by_path),
		cmocka_unit_test(the_help_names_every_variable),
		cmocka_unit_test(a_word_has_its_value_or_its_default),
		cmocka_unit_test(an_added_word_counts),
		cmocka_unit_test(wrong_words_and_values_have_a_line_on_the_side_that_reads_them),
		cmocka_unit_test(an_old_variable_counts_without_its_word_and_has_one_line),
		cmocka_unit_test(a_switch_without_a_default_has_three_states),
		cmocka_unit_test(a_server_replaces_old_variables_for_its_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
