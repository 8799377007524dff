/*
 * tests/unit/test_util_log.c - log lines: levels, format, errno.
 */
#define _GNU_SOURCE
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
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "util/process/fd.h"
#include "util/log.h"
#include "util/log_format.h"
#include "util/log_limit.h"

CK_LOG_DEFINE("client");

static char output[32768];

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
	ck_err("name %s\n", "\033[2Ja\nb\rc\x7f\td\xc2\x9b\xe2\x80\xae");
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

static void one_of_a_server(void)
{
	ck_log_plain();
	one_of_each();
}

static void a_servers_line_begins_with_date_and_time(void **state)
{
	struct tm parts = {.tm_isdst = 0};
	int us, end = 0;
	const char *rest;

	(void)state;
	run("info", one_of_a_server);
	rest = strptime(output, "%Y-%m-%dT%H:%M:%S", &parts);
	assert_non_null(rest);
	assert_int_equal(sscanf(rest, ".%6dZ ERROR: e\n%n", &us, &end), 1);
	assert_true(end > 0);
	assert_true(labs((long)(time(NULL) - timegm(&parts))) < 600);
}

static void a_line_says_who_speaks_and_how_bad_it_is(void **state)
{
	(void)state;
	run("info", one_of_each);
	assert_string_equal(output, "cricket: ERROR: e\ncricket: WARNING: w\ncricket: INFO:  i\n");
}

static void a_line_has_its_time_too_when_any_part_is_at_debug(void **state)
{
	int h, m, s, us, pid, end = 0;

	(void)state;
	run("server:debug", one_of_each);
	assert_int_equal(sscanf(output, "cricket: +%2d:%2d:%2d.%6d [%d] ERROR: e\n%n", &h, &m, &s,
				&us, &pid, &end),
			 5);
	assert_true(end > 0);
	assert_memory_equal(output, "cricket: +00:00:00.0", 20);
}

static void what_a_peer_sends_makes_no_lines_and_no_escapes(void **state)
{
	(void)state;
	run(NULL, controls);
	assert_non_null(strstr(output, "ERROR: name ?[2Ja?b?c?\td??\n"));
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
	assert_non_null(strstr(output, "x\ncricket: ERROR: next\n"));
	assert_string_equal(output + strlen(output) - 5, "next\n");
}

/* Exit 3 where @held does not hold: in a child, where an assertion would only confuse. */
static void must(bool held)
{
	if (!held)
		_exit(3);
}

static size_t count(const char *text)
{
	size_t n = 0;

	for (const char *at = output; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static void fill(int fd)
{
	char page[1024];

	memset(page, '.', sizeof(page));
	while (ck_fd_write_now(fd, page, sizeof(page)) > 0)
		;
}

/* Make room in a full pipe, or find what has come into it. */
static void take(int fd, size_t size)
{
	ssize_t n = read(fd, output, size < sizeof(output) ? size : sizeof(output) - 1);

	must(n > 0);
	output[n] = '\0';
}

static void log_to(int fd, const char *drop)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", fd);
	setenv("CRICKET_LOG_FD", text, 1);
	setenv("CRICKET_LOG_DROP", drop, 1);
	alarm(20); /* one that waits fails */
}

/* Lines for @fds[1], full, of which somebody takes from @fds[0] only later. */
static void lose_lines(int fds[2])
{
	int waiting;

	fill(fds[1]);
	log_to(fds[1], "1");
	for (int i = 0; i < 3; i++)
		ck_err("lost %d", i);
	must(ck_log_report_dropped(false) == 1000);
	while (ioctl(fds[0], FIONREAD, &waiting) == 0 && waiting > 0)
		take(fds[0], sizeof(output) - 1);
	ck_err("found");
	must(ck_log_report_dropped(false) == -1);
	take(fds[0], sizeof(output) - 1);
	must(strstr(output, "WARNING: 3 lines dropped") && strstr(output, "ERROR: found\n"));
	must(!strstr(output, "lost"));
}

static void to_a_full_pipe(void)
{
	int fds[2];

	must(pipe(fds) == 0);
	lose_lines(fds);
	must((fcntl(fds[1], F_GETFL) & O_NONBLOCK) == 0); /* other processes have it too */
}

static void to_a_full_socket(void)
{
	int fds[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	lose_lines(fds);
}

static void to_a_slow_reader(void)
{
	int fds[2], status;
	pid_t pid;

	must(pipe(fds) == 0);
	fill(fds[1]);
	pid = fork();
	if (pid == 0) {
		log_to(fds[1], "0");
		ck_err("kept");
		_exit(0);
	}
	close(fds[1]);
	usleep(20000);
	do
		take(fds[0], 1024);
	while (!strstr(output, "kept"));
	must(waitpid(pid, &status, 0) == pid && status == 0);
}

static void to_nobody(void)
{
	int fds[2];

	must(pipe(fds) == 0);
	close(fds[0]);
	log_to(fds[1], "1");
	ck_err("a line");
}

static void a_hundred(void)
{
	for (int i = 0; i < 100; i++) {
		ck_warn("refused %d", i);
		ck_debug("seen %d", i);
	}
	ck_log_report_dropped(false); /* too early */
	ck_warn("another");
	ck_log_report_dropped(true);
}

static void a_hundred_limited(void)
{
	setenv("CRICKET_LOG_DROP", "1", 1);
	a_hundred();
}

static void a_full_pipe_stops_nothing_and_the_next_line_says_what_is_missing(void **state)
{
	(void)state;
	run(NULL, to_a_full_pipe);
	run(NULL, to_a_full_socket);
	run(NULL, to_nobody);
}

static void a_program_waits_for_the_reader_of_its_errors(void **state)
{
	(void)state;
	run(NULL, to_a_slow_reader);
}

static void repeated_lines_are_summarised_where_lines_may_be_dropped(void **state)
{
	(void)state;
	run("warning", a_hundred_limited);
	assert_int_equal(count(": refused"), CK_LOG_BURST + 1);
	assert_int_equal(count("WARNING: refused 19 ... 80 more in the last "), 1);
	assert_true(strstr(output, "another") < strstr(output, "more"));
	run("warning", a_hundred);
	assert_int_equal(count(": refused"), 100);
	assert_null(strstr(output, "more"));
}

static void lines_for_debugging_are_all_written(void **state)
{
	(void)state;
	run("debug", a_hundred_limited);
	assert_int_equal(count("seen"), 100);
}

static void each_window_lets_lines_through_and_is_summarised_once(void **state)
{
	static struct ck_log_limit limit;
	static const char one[] = "one", other[] = "other";
	struct ck_log_held held;

	(void)state;
	for (int i = 0; i < CK_LOG_BURST; i++)
		assert_true(ck_log_limit_pass(&limit, one, CK_LOG_INFO, 1000 + i, &held));
	ck_log_limit_note(&limit, one, "the one", 7);
	assert_false(ck_log_limit_pass(&limit, one, CK_LOG_INFO, 5000, &held));
	assert_true(ck_log_limit_pass(&limit, other, CK_LOG_INFO, 5000, &held));
	assert_int_equal(ck_log_limit_next(&limit, 5000), 6000);
	assert_false(ck_log_limit_take(&limit, 10999, false, &held));
	assert_true(ck_log_limit_take(&limit, 11000, false, &held));
	assert_int_equal(held.count, 1);
	assert_int_equal(held.seconds, 10);
	assert_string_equal(held.text, "the one");
	assert_false(ck_log_limit_take(&limit, 11000, true, &held));
	assert_int_equal(ck_log_limit_next(&limit, 11000), -1);
	for (int i = 0; i < CK_LOG_BURST + 5; i++)
		ck_log_limit_pass(&limit, one, CK_LOG_INFO, 12000, &held);
	assert_true(
		ck_log_limit_pass(&limit, one, CK_LOG_INFO, 42000, &held)); /* which says it too */
	assert_int_equal(held.count, 5);
	assert_int_equal(held.seconds, 31);
}

static void more_kinds_of_lines_than_are_counted_go_through(void **state)
{
	static struct ck_log_limit limit;
	static char formats[CK_LOG_KINDS + 10];
	struct ck_log_held held;

	(void)state;
	for (int i = 0; i < CK_LOG_BURST + 1; i++) {
		for (size_t k = 0; k < sizeof(formats); k++)
			assert_int_equal(
				ck_log_limit_pass(&limit, &formats[k], CK_LOG_INFO, 0, &held),
				i < CK_LOG_BURST || k >= CK_LOG_KINDS);
	}
	/* A kind that has been quiet for long gives its place away. */
	assert_true(ck_log_limit_take(&limit, 10000, false, &held));
	for (int i = 0; i < CK_LOG_BURST; i++)
		assert_true(ck_log_limit_pass(&limit, &formats[CK_LOG_KINDS], CK_LOG_INFO, 30000,
					      &held));
	assert_false(ck_log_limit_pass(&limit, &formats[CK_LOG_KINDS], CK_LOG_INFO, 30000, &held));
}

static void json_lines(void)
{
	setenv("CRICKET_LOG_FORMAT", "json", 1);
	ck_warn("quote \" backslash \\ bell \a tab \t escape \033[31m");
	ck_err("h\303\244\360\237\231\202 and bad: \377 \300\257 \355\240\200 \303");
	ck_info("%02000d%s", 0, "\"\"\"\"");
}

/* Text from a peer stays in its field of the log. */
static void a_json_line_is_an_object_whatever_it_says(void **state)
{
	static const char *const expected[][2] = {
		{"warning", "quote \" backslash \\ bell ? tab   escape ?[31m"},
		{"error", "h\303\244\360\237\231\202 and bad: ? ?? ??? ?"},
		{"info", NULL},
	};
	char *line = output, *end;

	(void)state;
	run("info", json_lines);
	for (size_t i = 0; i < CK_ARRAY_SIZE(expected); i++, line = end + 1) {
		const char *text;
		json_t *object;

		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(end - line < CK_LOG_JSON_SIZE);
		object = json_loadb(line, (size_t)(end - line), 0, NULL);
		assert_non_null(object);
		text = json_string_value(json_object_get(object, "message"));
		assert_string_equal(json_string_value(json_object_get(object, "level")),
				    expected[i][0]);
		assert_string_equal(json_string_value(json_object_get(object, "part")), "client");
		assert_int_equal(strlen(json_string_value(json_object_get(object, "time"))), 24);
		assert_true(json_integer_value(json_object_get(object, "pid")) > 1);
		if (expected[i][1])
			assert_string_equal(text, expected[i][1]);
		else
			assert_true(strlen(text) > 1900 && text[0] == '0');
		json_decref(object);
	}
	assert_int_equal(*line, 0);
}

/* JOURNAL_STREAM names stderr as systemd does, or @other. */
static void name_stream(bool other)
{
	char stream[64];
	struct stat st;

	fstat(STDERR_FILENO, &st);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + other);
	setenv("JOURNAL_STREAM", stream, 1);
}

static void with_journal(void)
{
	name_stream(false);
	one_of_each();
	setenv("CRICKET_LOG_FORMAT", "json", 1);
	ck_warn("w");
}

static void without_journal(void)
{
	name_stream(true);
	ck_err("e");
	setenv("JOURNAL_STREAM", "garbage", 1);
	ck_err("e");
}

static void lines_have_priorities_only_for_journald(void **state)
{
	static const char *const heads[] = {"<3>c", "<4>c", "<6>c", "<7>c", "<7>c", "<4>{"};
	const char *line = output;

	(void)state;
	run("trace", with_journal);
	for (size_t i = 0; i < CK_ARRAY_SIZE(heads); i++, line = strchr(line, '\n') + 1)
		assert_memory_equal(line, heads[i], 4);
	run("trace", without_journal);
	assert_null(strchr(output, '<'));
	assert_int_equal(output[0], 'c');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warnings_and_errors_are_printed_when_nothing_is_set),
		cmocka_unit_test(a_line_says_who_speaks_and_how_bad_it_is),
		cmocka_unit_test(a_line_has_its_time_too_when_any_part_is_at_debug),
		cmocka_unit_test(a_servers_line_begins_with_date_and_time),
		cmocka_unit_test(what_a_peer_sends_makes_no_lines_and_no_escapes),
		cmocka_unit_test(a_part_named_in_the_list_has_its_own_level),
		cmocka_unit_test(the_pid_is_shown_when_any_part_is_at_debug),
		cmocka_unit_test(a_program_can_set_another_default_level),
		cmocka_unit_test(errno_is_kept_and_percent_m_prints_it),
		cmocka_unit_test(a_line_too_long_is_cut_and_still_ends),
		cmocka_unit_test(a_full_pipe_stops_nothing_and_the_next_line_says_what_is_missing),
		cmocka_unit_test(a_program_waits_for_the_reader_of_its_errors),
		cmocka_unit_test(repeated_lines_are_summarised_where_lines_may_be_dropped),
		cmocka_unit_test(lines_for_debugging_are_all_written),
		cmocka_unit_test(each_window_lets_lines_through_and_is_summarised_once),
		cmocka_unit_test(more_kinds_of_lines_than_are_counted_go_through),
		cmocka_unit_test(a_json_line_is_an_object_whatever_it_says),
		cmocka_unit_test(lines_have_priorities_only_for_journald),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
