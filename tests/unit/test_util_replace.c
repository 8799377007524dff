/*
 * tests/unit/test_util_replace.c - a new content for a file, or what is in the place of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/process/replace.h"

static char dir[] = "/tmp/ck_replace_XXXXXX";

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int write_words(const char *path, const char *words, bool ok)
{
	struct ck_replace r;
	int ret = ck_replace_begin(&r, path, 0640);

	if (ret < 0)
		return ret;
	fputs(words, r.out);
	return ck_replace_end(&r, ok);
}

static void assert_content(const char *path, const char *words)
{
	char text[64] = "";
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	assert_int_equal(fread(text, 1, sizeof(text) - 1, f), strlen(words));
	assert_string_equal(text, words);
	fclose(f);
}

static void a_file_has_the_new_content_or_the_old_one(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(write_words(path_of("file"), "one", true), 0);
	assert_int_equal(stat(path_of("file"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(chmod(path_of("file"), 0600), 0);
	assert_int_equal(write_words(path_of("file"), "two", false), 0);
	assert_content(path_of("file"), "one");
	assert_int_equal(write_words(path_of("file"), "three", true), 0);
	assert_content(path_of("file"), "three");
	assert_int_equal(stat(path_of("file"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_link_stays_one(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(symlink("file", path_of("link")), 0);
	assert_int_equal(write_words(path_of("link"), "four", true), 0);
	assert_int_equal(lstat(path_of("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_content(path_of("file"), "four");
}

/* A device in its place would be lost for the whole machine. */
static void what_is_no_file_is_written_to(void **state)
{
	struct stat st;
	char text[8] = "", link[32];
	int pipes[2];

	(void)state;
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	pipes[0] = open(path_of("pipe"), O_RDONLY | O_NONBLOCK);
	assert_true(pipes[0] >= 0);
	assert_int_equal(write_words(path_of("pipe"), "five", true), 0);
	assert_int_equal(read(pipes[0], text, sizeof(text)), 4);
	assert_string_equal(text, "five");
	assert_int_equal(lstat(path_of("pipe"), &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	close(pipes[0]);
	assert_int_equal(pipe(pipes), 0); /* as /dev/stdout, which leads to no file */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", pipes[1]);
	assert_int_equal(symlink(link, path_of("stdout")), 0);
	assert_int_equal(write_words(path_of("stdout"), "six", true), 0);
	memset(text, 0, sizeof(text));
	assert_int_equal(read(pipes[0], text, sizeof(text)), 3);
	assert_string_equal(text, "six");
	assert_int_equal(lstat(path_of("stdout"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	close(pipes[0]);
	close(pipes[1]);
}

/* More than stdio's buffer holds, so that a write before the last one fails. */
static void a_full_disk_is_an_error_and_keeps_the_old_content(void **state)
{
	static char many[100000];
	struct rlimit before, less;

	(void)state;
	memset(many, 'x', sizeof(many) - 1);
	assert_int_equal(write_words(path_of("file"), "old", true), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	less = (struct rlimit){.rlim_cur = 5000, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
	assert_true(write_words(path_of("file"), many, true) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_content(path_of("file"), "old");
}

static void errors_are_those_of_the_write(void **state)
{
	(void)state;
	assert_int_equal(write_words(dir, "x", true), -EISDIR);
	if (geteuid() != 0) /* who could lose the device if this fails */
		assert_int_equal(write_words("/dev/full", "x", true), -ENOSPC);
	assert_int_equal(write_words(path_of("none/file"), "x", true), -ENOENT);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"file", "link", "pipe", "stdout"};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		unlink(path_of(names[i]));
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_has_the_new_content_or_the_old_one),
		cmocka_unit_test(a_link_stays_one),
		cmocka_unit_test(what_is_no_file_is_written_to),
		cmocka_unit_test(a_full_disk_is_an_error_and_keeps_the_old_content),
		cmocka_unit_test(errors_are_those_of_the_write),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
