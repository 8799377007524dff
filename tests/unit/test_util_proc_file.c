/*
 * tests/unit/test_util_proc_file.c - files of /proc in a program that closes every descriptor and
 * opens its own, at any moment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/process/proc_file.h"

/* The program puts a file of its own at the number that was opened last, before so many more
 * checks; -1: never. */
static int replace_in = -1, theirs = -1;

static void replace(int fd)
{
	theirs = fd;
	close(fd);
	assert_int_equal(memfd_create("theirs", MFD_CLOEXEC), fd);
	assert_int_equal(write(fd, "7f0000000000-7fffffffffff rw-p", 30), 30);
	assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
}

int fstat(int fd, struct stat *st)
{
	if (replace_in >= 0 && replace_in-- == 0)
		replace(fd);
	return fstatat(fd, "", st, AT_EMPTY_PATH);
}

static bool any(const struct ck_own_mapping *m)
{
	(void)m;
	return true;
}

static void all_lines_come_whole(void **state)
{
	struct ck_proc_lines lines = {0};
	struct ck_proc_file f;
	char *line, own[4096];
	size_t size = 0, room = 0;
	FILE *plain;

	(void)state;
	for (int i = 0; i < 100; i++) /* more than a buffer */
		mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	plain = fopen("/proc/self/mountinfo", "re");
	assert_non_null(plain);
	assert_int_equal(ck_proc_file_open(&f, "/proc/self/mountinfo"), 0);
	while (fgets(own, sizeof(own), plain)) {
		own[strcspn(own, "\n")] = '\0';
		line = ck_proc_file_line(&f, &lines);
		assert_non_null(line);
		assert_memory_equal(line, own,
				    strlen(line) + (strlen(own) < CK_PROC_FILE_LINE - 1));
		size += strlen(line);
		room++;
	}
	assert_null(ck_proc_file_line(&f, &lines));
	assert_true(size > 0 && room > 0);
	ck_proc_file_close(&f);
	fclose(plain);
	assert_true(ck_mappings_all((uintptr_t)own, sizeof(own), ck_mapping_writable));
	assert_false(ck_mappings_all(4096, 4096, any));
}

static void a_long_line_is_cut(void **state)
{
	char path[] = "/tmp/ck-test-XXXXXX", longest[5000];
	struct ck_proc_lines lines = {0};
	struct ck_proc_file f;
	int fd = mkstemp(path);

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\n';
	assert_int_equal(write(fd, "first\n", 6), 6);
	assert_int_equal(write(fd, longest, sizeof(longest)), sizeof(longest));
	assert_int_equal(write(fd, "last", 4), 4);
	close(fd);
	assert_int_equal(ck_proc_file_open(&f, path), 0);
	unlink(path);
	assert_string_equal(ck_proc_file_line(&f, &lines), "first");
	assert_int_equal(strlen(ck_proc_file_line(&f, &lines)), CK_PROC_FILE_LINE - 1);
	assert_string_equal(ck_proc_file_line(&f, &lines), "last");
	assert_null(ck_proc_file_line(&f, &lines));
	ck_proc_file_close(&f);
}

static void the_programs_file_is_neither_read_nor_closed(void **state)
{
	int moments = 0;

	(void)state;
	for (bool replaced = true; replaced; moments++) {
		char stack[64];
		bool are;

		theirs = -1;
		replace_in = moments;
		are = ck_mappings_all((uintptr_t)stack, sizeof(stack), any);
		replaced = theirs >= 0;
		replace_in = -1;
		if (!replaced) {
			assert_true(are);
			break;
		}
		assert_int_equal(lseek(theirs, 0, SEEK_CUR), 3);
		assert_false(ck_mappings_all(0x7f0000000000, 0xffffffff, any));
		close(theirs);
	}
	assert_true(moments >= 3); /* after it is opened, after it is read, before it is closed */
}

/* A name may end the parentheses, and the line. */
static void the_name_of_a_process_hides_nothing(void **state)
{
	struct ck_proc_stat own, child;
	int named[2], looked[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(named) | pipe(looked), 0);
	assert_int_equal(ck_proc_stat(0, &own), 0);
	assert_int_equal(own.parent, getppid());
	assert_int_equal(own.state, 'R');
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "a) Z 1\n2");
		_exit(write(named[1], "", 1) != 1 || read(looked[0], &byte, 1) != 1);
	}
	assert_int_equal(read(named[0], &byte, 1), 1);
	assert_int_equal(ck_proc_stat(pid, &child), 0);
	assert_int_equal(child.parent, getpid());
	assert_int_not_equal(child.state, 'Z');
	assert_true(child.start >= own.start);
	assert_int_equal(write(looked[1], "", 1), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ck_proc_stat(pid, &child), -ENOENT);
	for (int i = 0; i < 2; i++) {
		close(named[i]);
		close(looked[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lines_come_whole),
		cmocka_unit_test(a_long_line_is_cut),
		cmocka_unit_test(the_programs_file_is_neither_read_nor_closed),
		cmocka_unit_test(the_name_of_a_process_hides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
