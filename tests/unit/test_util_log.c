/*
 * tests/unit/test_util_log.c - log lines: levels, format, errno.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/log.h"

CK_LOG_DEFINE("client");

static char output[8192];

/* Run `body` in a child with that CRICKET_LOG (NULL: unset) and collect its stderr in output. */
static void run(const char *spec, void (*body)(void))
{
	size_t used = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (spec)
			setenv("CRICKET_LOG", spec, 1);
		else
			unsetenv("CRICKET_LOG");
		dup2(fds[1], STDERR_FILENO);
		body();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], output + used, sizeof(output) - 1 - used)) > 0)
		used += (size_t)n;
	output[used] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void one_of_each(void)
{
	ck_err("e");
	ck_warn("w");
	ck_info("i");
	ck_debug("d");
	ck_trace("t");
}

static void info_by_default(void)
{
	ck_debug("before"); /* resolves the level, which the next line must undo */
	if (ck_log_default("info") != 0 || ck_log_default("loud") != -EINVAL)
		_exit(1);
	one_of_each();
}

static void with_errno(void)
{
	errno = ENOENT;
	ck_err("open x: %m");
	if (errno != ENOENT)
		_exit(1);
	ck_debug("nothing");
	if (errno != ENOENT)
		_exit(1);
}

static void very_long(void)
{
	char *text = malloc(10000);

	memset(text, 'x', 9999);
	text[9999] = '\0';
	ck_err("%s", text);
	ck_err("next\n");
	free(text);
}

static void controls(void)
{
	ck_err("name %s\n", "\033[2Ja\nb\rc\x7f\td");
}

static void enabled_tells(void)
{
	if (!ck_log_enabled(CK_LOG_WARNING) || ck_log_enabled(CK_LOG_INFO))
		_exit(1);
}

static void warnings_and_errors_are_printed_when_nothing_is_set(void **state)
{
	(void)state;
	run(NULL, one_of_each);
	assert_non_null(strstr(output, "ERROR: e\n"));
	assert_non_null(strstr(output, "WARNING: w\n"));
	assert_null(strstr(output, "INFO"));
	run(NULL, enabled_tells);
}

static void a_line_has_time_and_level_in_the_promised_format(void **state)
{
	int h, m, s, us, end = 0;

	(void)state;
	run("info", one_of_each);
	assert_int_equal(sscanf(output, "+%2d:%2d:%2d.%6d ERROR: e\n%n", &h, &m, &s, &us, &end), 4);
	assert_true(end > 0);
	assert_memory_equal(output, "+00:00:00.0", 11);
	assert_non_null(strstr(output, " INFO:  i\n"));
	assert_null(strstr(output, "["));
}

static void what_a_peer_sends_makes_no_lines_and_no_escapes(void **state)
{
	(void)state;
	run(NULL, controls);
	assert_non_null(strstr(output, "ERROR: name ?[2Ja?b?c?\td\n"));
	assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1);
}

static void a_part_named_in_the_list_has_its_own_level(void **state)
{
	(void)state;
	run("error,client:info,server:none", one_of_each);
	assert_non_null(strstr(output, "INFO:  i\n"));
	assert_null(strstr(output, "DEBUG"));
	run("trace,client:none", one_of_each);
	assert_string_equal(output, "");
	run("clien:trace,bogus,:,client:loud,error", one_of_each);
	assert_null(strstr(output, "WARNING"));
	assert_non_null(strstr(output, "ERROR: e"));
}

static void the_pid_is_shown_when_any_part_is_at_debug(void **state)
{
	(void)state;
	run("server:debug,client:info", one_of_each);
	assert_non_null(strstr(output, "] INFO:  i\n"));
	assert_non_null(strstr(output, " ["));
	run("trace", one_of_each);
	assert_non_null(strstr(output, "] DEBUG: d\n"));
	assert_non_null(strstr(output, "] TRACE: t\n"));
}

static void a_program_can_set_another_default_level(void **state)
{
	(void)state;
	run(NULL, info_by_default);
	assert_non_null(strstr(output, "INFO:  i\n"));
	assert_null(strstr(output, "DEBUG"));
	run("error", info_by_default);
	assert_null(strstr(output, "INFO"));
}

static void errno_is_kept_and_percent_m_prints_it(void **state)
{
	(void)state;
	run(NULL, with_errno);
	assert_non_null(strstr(output, "open x: No such file or directory\n"));
}

static void a_line_too_long_is_cut_and_still_ends(void **state)
{
	(void)state;
	run(NULL, very_long);
	assert_in_range(strlen(output), 2048, 2200);
	assert_non_null(strstr(output, "x\n+"));
	assert_string_equal(output + strlen(output) - 5, "next\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warnings_and_errors_are_printed_when_nothing_is_set),
		cmocka_unit_test(a_line_has_time_and_level_in_the_promised_format),
		cmocka_unit_test(what_a_peer_sends_makes_no_lines_and_no_escapes),
		cmocka_unit_test(a_part_named_in_the_list_has_its_own_level),
		cmocka_unit_test(the_pid_is_shown_when_any_part_is_at_debug),
		cmocka_unit_test(a_program_can_set_another_default_level),
		cmocka_unit_test(errno_is_kept_and_percent_m_prints_it),
		cmocka_unit_test(a_line_too_long_is_cut_and_still_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
