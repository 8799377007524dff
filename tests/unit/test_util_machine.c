/*
 * tests/unit/test_util_machine.c - the id of this machine, and processes that end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/process/machine.h"

static void processes_of_a_machine_have_one_id(void **state)
{
	unsigned char own[CK_MACHINE_ID], other[CK_MACHINE_ID], none[CK_MACHINE_ID] = {0};
	int pair[2];
	pid_t child;

	(void)state;
	assert_true(ck_machine_id(own));
	assert_memory_not_equal(own, none, sizeof(own));
	assert_int_equal(pipe(pair), 0);
	child = fork();
	if (child == 0) {
		ck_machine_id(other);
		_exit(write(pair[1], other, sizeof(other)) != sizeof(other));
	}
	assert_int_equal(read(pair[0], other, sizeof(other)), sizeof(other));
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_memory_equal(own, other, sizeof(own));
}

static void a_host_has_another_id_than_its_machines(void **state)
{
	unsigned char machine[CK_MACHINE_ID], host[CK_MACHINE_ID], again[CK_MACHINE_ID];

	(void)state;
	assert_true(ck_machine_id(machine));
	assert_true(ck_machine_host(host));
	assert_memory_not_equal(machine, host, sizeof(host));
	assert_true(ck_machine_host(again));
	assert_memory_equal(host, again, sizeof(host));
}

static void an_end_is_seen_before_the_parent_has_waited(void **state)
{
	pid_t child = fork();
	struct pollfd p = {.events = POLLIN};

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	p.fd = ck_machine_watch(child);
	assert_true(p.fd >= 0 || p.fd == -ENOSYS);
	assert_false(ck_machine_ended(child));
	kill(child, SIGKILL);
	if (p.fd >= 0) {
		assert_int_equal(poll(&p, 1, 10000), 1);
		assert_true(ck_machine_ended(child));
		close(p.fd);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(ck_machine_ended(child));
	assert_int_equal(ck_machine_watch(child), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_of_a_machine_have_one_id),
		cmocka_unit_test(a_host_has_another_id_than_its_machines),
		cmocka_unit_test(an_end_is_seen_before_the_parent_has_waited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
