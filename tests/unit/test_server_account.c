/*
 * tests/unit/test_server_account.c - the account of an identity: its limit, several sessions, and
 * sessions that are killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/policy/account.h"

#define MIB ((uint64_t)1 << 20)
#define SEATS 8

static const unsigned char one_gpu[16] = {1}, other_gpu[16] = {2};

static struct cks_account *account;
static int file;

static const struct cks_terms nothing = {.weight = 1};

static int set_up(void **state)
{
	struct cks_terms terms = cks_terms_none();

	(void)state;
	terms.memory = 100 * MIB;
	file = cks_account_create(&terms, SEATS, &account);
	return file < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	cks_account_unmap(account);
	close(file);
	return 0;
}

static bool charge(int seat, int device, uint64_t bytes)
{
	return cks_account_charge(account, (uint32_t)seat, device, bytes,
				  cks_account_limit(account, 1000 * MIB));
}

static void another_process_looks_without_a_seat(void **state)
{
	int seat = cks_account_take_seat(account), gpu = cks_account_device(account, one_gpu);
	struct cks_account *view;
	uint64_t own, others;

	(void)state;
	assert_true(charge(seat, gpu, 30 * MIB));
	assert_int_equal(cks_account_view(file, SEATS, &view), -EPROTO);
	assert_int_equal(cks_account_view(file, (uint32_t)seat, &view), 0);
	cks_account_look(view, (uint32_t)seat, one_gpu, &own, &others);
	assert_int_equal(own, 30 * MIB);
	assert_int_equal(others, 0);
	cks_account_look(view, (uint32_t)seat + 1, one_gpu, &own, &others);
	assert_int_equal(own, 0);
	assert_int_equal(others, 30 * MIB);
	cks_account_look(view, (uint32_t)seat, other_gpu, &own, &others);
	assert_int_equal(own + others, 0);
	assert_false(cks_account_has(view, (unsigned int)getpid()));
	cks_account_unmap(view);
	assert_int_equal(cks_account_map(file, (uint32_t)seat, &view), 0);
	assert_true(cks_account_has(view, (unsigned int)getpid()));
	cks_account_unmap(view);
}

static void sessions_share_one_limit_on_each_device(void **state)
{
	int a = cks_account_take_seat(account), b = cks_account_take_seat(account);
	int gpu = cks_account_device(account, one_gpu),
	    other = cks_account_device(account, other_gpu);

	(void)state;
	assert_true(a >= 0 && b >= 0 && a != b);
	assert_true(gpu != other && cks_account_device(account, one_gpu) == gpu);
	assert_true(charge(a, gpu, 60 * MIB));
	assert_false(charge(b, gpu, 40 * MIB + 1));
	assert_true(charge(b, gpu, 40 * MIB));
	assert_false(charge(a, gpu, 1));
	assert_true(charge(a, other, 100 * MIB));
	assert_int_equal(cks_account_used(account, gpu), 100 * MIB);
	cks_account_refund(account, (uint32_t)b, gpu, 40 * MIB);
	assert_true(charge(a, gpu, 40 * MIB));
	assert_false(charge(a, gpu, UINT64_MAX));
}

static void a_limit_is_bytes_or_a_part_and_may_change(void **state)
{
	struct cks_terms terms = cks_terms_none();

	(void)state;
	assert_int_equal(cks_account_limit(account, 1000 * MIB), 100 * MIB);
	assert_int_equal(cks_account_limit(account, 10 * MIB), 10 * MIB);
	terms.percent = 25;
	cks_account_change(account, &terms);
	assert_int_equal(cks_account_limit(account, 1000 * MIB), 250 * MIB);
	cks_account_change(account, &nothing);
	assert_true(cks_account_limit(account, 1000 * MIB) == CK_ACCOUNT_UNLIMITED);
	assert_true(charge(cks_account_take_seat(account), 0, 5000 * MIB));
	cks_account_change(account, &terms);
	assert_false(charge(1, 0, 1)); /* what it has is more than it may have */
}

static void a_session_that_ends_leaves_its_part_and_its_seat(void **state)
{
	int seat = cks_account_take_seat(account), gpu = cks_account_device(account, one_gpu);

	(void)state;
	assert_true(charge(seat, gpu, 90 * MIB));
	cks_account_leave_seat(account, (uint32_t)seat);
	assert_int_equal(cks_account_used(account, gpu), 0);
	for (int i = 0; i < SEATS; i++)
		assert_true(cks_account_take_seat(account) >= 0);
	assert_int_equal(cks_account_take_seat(account), -EUSERS);
	cks_account_leave_seat(account, 3);
	assert_int_equal(cks_account_take_seat(account), 3);
}

/* A client that has taken over its worker can write anything, and hold the lock. */
static void the_supervisor_believes_nothing_in_the_file(void **state)
{
	struct cks_account *view;
	uint64_t own, others;
	struct stat st;
	void *raw;

	(void)state;
	assert_int_equal(cks_account_take_seat(account), 0);
	assert_int_equal(cks_account_view(file, 0, &view), 0);
	assert_int_equal(fstat(file, &st), 0);
	raw = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_true(raw != MAP_FAILED);
	memset(raw, 0xff, (size_t)st.st_size);
	assert_int_equal(cks_account_take_seat(account), -EUSERS);
	cks_account_change(account, &nothing);
	cks_account_leave_seat(account, 2);
	assert_int_equal(cks_account_take_seat(account), 2);
	cks_account_look(view, 0, one_gpu, &own, &others);
	cks_account_unmap(view);
	munmap(raw, (size_t)st.st_size);
}

static void a_seat_that_was_left_is_empty_for_the_next_session(void **state)
{
	int gpu = cks_account_device(account, one_gpu);
	struct cks_account *next;

	(void)state;
	for (int i = 0; i < SEATS; i++)
		assert_int_equal(cks_account_take_seat(account), i);
	assert_true(charge(5, gpu, 90 * MIB));
	cks_account_leave_seat(account, 5);
	assert_int_equal(cks_account_take_seat(account), 5); /* no other is free */
	assert_int_equal(cks_account_map(file, 5, &next), 0);
	assert_int_equal(cks_account_used(next, gpu), 0);
	assert_true(charge(5, gpu, 100 * MIB));
	cks_account_unmap(next);
}

static void contexts_are_counted_beside_memory(void **state)
{
	struct cks_terms terms = cks_terms_none();
	int a = cks_account_take_seat(account), b = cks_account_take_seat(account);

	(void)state;
	assert_true(cks_account_context_limit(account) == CK_ACCOUNT_UNLIMITED);
	terms.contexts = 2;
	cks_account_change(account, &terms);
	assert_int_equal(cks_account_context_limit(account), 2);
	assert_true(cks_account_charge(account, (uint32_t)a, CK_ACCOUNT_CONTEXTS, 1, 2));
	assert_true(cks_account_charge(account, (uint32_t)b, CK_ACCOUNT_CONTEXTS, 1, 2));
	assert_false(cks_account_charge(account, (uint32_t)b, CK_ACCOUNT_CONTEXTS, 1, 2));
	cks_account_leave_seat(account, (uint32_t)a);
	assert_int_equal(cks_account_used(account, CK_ACCOUNT_CONTEXTS), 1);
}

/* Take and give back until killed. */
static _Noreturn void work(uint32_t seat, int gpu)
{
	struct cks_account *own;

	if (cks_account_map(file, seat, &own) < 0)
		_exit(1);
	for (;;) {
		if (cks_account_charge(own, seat, gpu, MIB, 100 * MIB))
			cks_account_refund(own, seat, gpu, MIB);
	}
}

/* They are killed at any moment, most of them with the lock: the others go on, and no byte is
 * lost. */
static void killed_sessions_leave_nothing_behind(void **state)
{
	int gpu = cks_account_device(account, one_gpu), stays = cks_account_take_seat(account);

	(void)state;
	assert_true(charge(stays, gpu, 7 * MIB));
	for (int round = 0; round < 100; round++) {
		int seats[2];
		pid_t pids[2];

		for (int i = 0; i < 2; i++) {
			seats[i] = cks_account_take_seat(account);
			assert_true(seats[i] >= 0);
			pids[i] = fork();
			if (pids[i] == 0)
				work((uint32_t)seats[i], gpu);
		}
		usleep(1000 + (unsigned int)round * 37);
		for (int i = 0; i < 2; i++) {
			kill(pids[i], SIGKILL);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
			cks_account_leave_seat(account, (uint32_t)seats[i]);
		}
		assert_int_equal(cks_account_used(account, gpu), 7 * MIB);
	}
}

static void a_file_that_is_no_account_is_refused(void **state)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING);
	struct cks_account *own;

	(void)state;
	assert_int_equal(cks_account_map(fd, 0, &own), -EPROTO);
	assert_int_equal(cks_account_map(-1, 0, &own), -EPROTO);
	assert_int_equal(cks_account_map(file, SEATS, &own), -EPROTO);
	assert_int_equal(cks_account_map(file, SEATS - 1, &own), 0);
	cks_account_unmap(own);
	close(fd);
}

static void devices_together_have_a_limit_too(void **state)
{
	struct cks_terms terms = cks_terms_none();
	int a = cks_account_take_seat(account), b = cks_account_take_seat(account);
	int gpu = cks_account_device(account, one_gpu),
	    other = cks_account_device(account, other_gpu);
	uint64_t most = 0;

	(void)state;
	assert_true(cks_account_left(account, &most) == CK_ACCOUNT_UNLIMITED);
	terms.memory = 100 * MIB;
	terms.memory_total = 150 * MIB;
	cks_account_change(account, &terms);
	assert_true(charge(a, gpu, 100 * MIB));
	assert_false(charge(b, other, 51 * MIB));
	assert_true(charge(b, other, 50 * MIB));
	assert_int_equal(cks_account_left(account, &most), 0);
	assert_int_equal(most, 150 * MIB);
	assert_true(cks_account_charge(account, (uint32_t)a, CK_ACCOUNT_CONTEXTS, 1,
				       CK_ACCOUNT_UNLIMITED));
	cks_account_refund(account, (uint32_t)a, gpu, 30 * MIB);
	assert_int_equal(cks_account_left(account, &most), 30 * MIB);
	cks_account_move(account, (uint32_t)b, other, 60 * MIB); /* it has that already */
	assert_int_equal(cks_account_left(account, &most), 0);
}

static void the_processes_of_an_identity_are_known(void **state)
{
	int seat = cks_account_take_seat(account);
	struct cks_account *mapped = NULL;

	(void)state;
	assert_false(cks_account_has(account, (unsigned int)getpid()));
	assert_int_equal(cks_account_map(file, (uint32_t)seat, &mapped), 0);
	assert_true(cks_account_has(account, (unsigned int)getpid()));
	assert_false(cks_account_has(account, (unsigned int)getpid() + 1));
	cks_account_leave_seat(account, (uint32_t)seat);
	assert_false(cks_account_has(account, (unsigned int)getpid()));
	cks_account_unmap(mapped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_process_looks_without_a_seat, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(sessions_share_one_limit_on_each_device, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_limit_is_bytes_or_a_part_and_may_change, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_supervisor_believes_nothing_in_the_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_seat_that_was_left_is_empty_for_the_next_session,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(contexts_are_counted_beside_memory, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_session_that_ends_leaves_its_part_and_its_seat,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed_sessions_leave_nothing_behind, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(devices_together_have_a_limit_too, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_processes_of_an_identity_are_known, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_is_no_account_is_refused, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
