/*
 * tests/unit/test_util_token_file_edit.c - changes of a list of tokens on a full disk: none is
 * reported that is not in the file.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/address/token_file_edit.h"

#define HOLDERS 200 /* their lines are more than stdio keeps in its buffer */

static char dir[] = "/tmp/ck_tokens_XXXXXX", path[64];

static void read_all(char text[CK_TOKEN_FILE_SIZE])
{
	unsigned int wrong;

	assert_int_equal(ck_token_file_read(path, text, &wrong), 0);
}

static void limit_files(rlim_t size)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_change_that_is_not_written_is_an_error(void **state)
{
	static char before[CK_TOKEN_FILE_SIZE], after[CK_TOKEN_FILE_SIZE];
	char token[CK_HOLDER_TOKEN], name[32];
	unsigned int wrong;
	size_t count;

	(void)state;
	for (int i = 0; i < HOLDERS; i++) {
		snprintf(name, sizeof(name), "holder%d", i);
		assert_int_equal(ck_token_file_add(path, 0600, name, NULL, token, &wrong), 0);
	}
	read_all(before);
	assert_true(strlen(before) > BUFSIZ + 5000);
	signal(SIGXFSZ, SIG_IGN);
	limit_files(5000);
	assert_true(ck_token_file_revoke(path, "holder7", &count, &wrong) < 0);
	assert_true(ck_token_file_add(path, 0600, "one-more", NULL, token, &wrong) < 0);
	limit_files(RLIM_INFINITY);
	read_all(after);
	assert_string_equal(after, before);
	assert_int_equal(ck_token_file_revoke(path, "holder7", &count, &wrong), 0);
	assert_int_equal(count, 1);
}

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/tokens", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_that_is_not_written_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
