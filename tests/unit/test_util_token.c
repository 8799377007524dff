/*
 * tests/unit/test_util_token.c - the token of the variables: which comes first, and files that hold
 * none.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/address/token.h"

static char path[] = "/tmp/test_util_token.XXXXXX";

static void write_file(const char *text, size_t size)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

static void the_first_line_counts(void **state)
{
	static const char *const texts[] = {"abc", "abc\n", "abc\r\n", "abc\nmore\n"};
	char token[CK_TOKEN_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_file(texts[i], strlen(texts[i]));
		assert_int_equal(ck_token_read(path, token), 0);
		assert_string_equal(token, "abc");
	}
}

static void a_token_has_a_greatest_length(void **state)
{
	char text[CK_TOKEN_SIZE + 1], token[CK_TOKEN_SIZE];

	(void)state;
	memset(text, 'x', sizeof(text));
	write_file(text, CK_TOKEN_SIZE - 1);
	assert_int_equal(ck_token_read(path, token), 0);
	assert_int_equal(strlen(token), CK_TOKEN_SIZE - 1);
	write_file(text, CK_TOKEN_SIZE);
	assert_int_equal(ck_token_read(path, token), -EMSGSIZE);
	write_file(text, sizeof(text));
	assert_int_equal(ck_token_read(path, token), -EMSGSIZE);
}

static void a_file_without_a_token_is_an_error(void **state)
{
	char token[CK_TOKEN_SIZE];

	(void)state;
	write_file("", 0);
	assert_int_equal(ck_token_read(path, token), -ENODATA);
	write_file("\nabc\n", 5);
	assert_int_equal(ck_token_read(path, token), -ENODATA);
	assert_int_equal(ck_token_read("/no/such/file", token), -ENOENT);
	assert_int_equal(ck_token_read("/", token), -EISDIR);
}

static void the_token_comes_before_the_file(void **state)
{
	char token[CK_TOKEN_SIZE];
	const char *where;

	(void)state;
	write_file("filed\n", 6);
	unsetenv("CRICKET_TOKEN");
	unsetenv("CRICKET_TOKEN_FILE");
	assert_false(ck_token_is_set());
	assert_int_equal(ck_token_find(token, &where), 0);
	assert_string_equal(token, "");
	setenv("CRICKET_TOKEN_FILE", path, 1);
	assert_true(ck_token_is_set());
	assert_int_equal(ck_token_find(token, &where), 0);
	assert_string_equal(token, "filed");
	setenv("CRICKET_TOKEN", "own", 1);
	assert_int_equal(ck_token_find(token, &where), 0);
	assert_string_equal(token, "own");
	setenv("CRICKET_TOKEN", "own\r\n", 1); /* as a program reads it from a file */
	assert_int_equal(ck_token_find(token, &where), 0);
	assert_string_equal(token, "own");
	unsetenv("CRICKET_TOKEN");
	setenv("CRICKET_TOKEN_FILE", "/no/such/file", 1);
	assert_int_equal(ck_token_find(token, &where), -ENOENT);
	assert_string_equal(where, "CRICKET_TOKEN_FILE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_line_counts),
		cmocka_unit_test(a_token_has_a_greatest_length),
		cmocka_unit_test(a_file_without_a_token_is_an_error),
		cmocka_unit_test(the_token_comes_before_the_file),
	};
	int fd = mkstemp(path), status;

	if (fd < 0)
		return 1;
	close(fd);
	status = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return status;
}
