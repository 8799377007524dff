/*
 * tests/unit/test_emu_usage.c - the table of processes that use device memory: who is in it, and
 * what it does about processes that were killed, tables that are full, and files that are none.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/core/usage.h"

static char path[] = "/tmp/cricket-usage-XXXXXX";

static void join_table(const char *name)
{
	char words[64];

	snprintf(words, sizeof(words), "usage=%s", name);
	setenv("CRICKET_EMU", words, 1);
	ck_emu_usage_join();
}

static int begin(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	join_table(path);
	return fd < 0;
}

static int end(void **state)
{
	(void)state;
	ck_emu_usage_leave();
	return unlink(path);
}

/* A process that is in the table with @bytes until it is killed. */
static pid_t other(uint64_t bytes)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		ck_emu_usage_join();
		ck_emu_usage_set(0, bytes);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void other_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void only_those_that_use_memory_of_the_device_are_listed(void **state)
{
	struct ck_emu_use list[CK_EMU_USERS];

	(void)state;
	ck_emu_usage_set(1, 4096);
	assert_int_equal(ck_emu_usage_list(0, list), 0);
	assert_int_equal(ck_emu_usage_list(1, list), 1);
	assert_int_equal(list[0].pid, getpid());
	assert_int_equal(list[0].bytes, 4096);
	ck_emu_usage_set(1, 0);
	assert_int_equal(ck_emu_usage_list(1, list), 0);
}

static void a_process_that_was_killed_drops_out(void **state)
{
	struct ck_emu_use list[CK_EMU_USERS];
	pid_t pid = other(100);

	(void)state;
	assert_int_equal(ck_emu_usage_list(0, list), 1);
	assert_int_equal(list[0].pid, pid);
	assert_int_equal(list[0].bytes, 100);
	other_end(pid);
	assert_int_equal(ck_emu_usage_list(0, list), 0);
}

/* A process id that is used again is another process: its start is another. */
static void a_row_of_a_dead_process_is_not_its_successors(void **state)
{
	struct ck_emu_use list[CK_EMU_USERS];
	uint64_t row[2] = {(uint64_t)getpid() << 32 | 1, 77};
	FILE *f = fopen(path, "r+");

	(void)state;
	assert_non_null(f);
	fseek(f, 200 * 72, SEEK_SET);
	assert_int_equal(fwrite(row, 1, sizeof(row), f), sizeof(row));
	fclose(f);
	assert_int_equal(ck_emu_usage_list(0, list), 0);
}

/* Each row is a dead process's: the next one takes one of them. */
static void a_full_table_has_room_for_the_living(void **state)
{
	struct ck_emu_use list[CK_EMU_USERS];
	uint64_t dead = (uint64_t)0x7ffffffe << 32 | 5, owner;
	FILE *f = fopen(path, "r+");
	pid_t pid;

	(void)state;
	assert_non_null(f);
	for (long i = 0; i < CK_EMU_USERS; i++) {
		fseek(f, i * 72, SEEK_SET);
		assert_int_equal(fread(&owner, sizeof(owner), 1, f), 1);
		fseek(f, i * 72, SEEK_SET);
		if (owner == 0)
			assert_int_equal(fwrite(&dead, sizeof(dead), 1, f), 1);
	}
	fclose(f);
	pid = other(300);
	assert_int_equal(ck_emu_usage_list(0, list), 1);
	assert_int_equal(list[0].bytes, 300);
	other_end(pid);
}

static void without_a_table_a_process_sees_itself(void **state)
{
	static const char *const none[] = {"", "/tmp", "/proc/self/no/such/file", "/dev/null"};
	struct ck_emu_use list[CK_EMU_USERS];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			join_table(none[i]);
			ck_emu_usage_set(0, 9);
			_exit(ck_emu_usage_list(0, list) != 1 || list[0].bytes != 9);
		}
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_those_that_use_memory_of_the_device_are_listed),
		cmocka_unit_test(a_process_that_was_killed_drops_out),
		cmocka_unit_test(a_row_of_a_dead_process_is_not_its_successors),
		cmocka_unit_test(a_full_table_has_room_for_the_living),
		cmocka_unit_test(without_a_table_a_process_sees_itself),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
