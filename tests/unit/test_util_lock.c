/*
 * tests/unit/test_util_lock.c - the check of the lock order, which checked builds make.
 */
#ifndef CK_CHECK_LOCKS
#define CK_CHECK_LOCKS
#endif
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Our own copy: the linked one may be of an unchecked build. */
#define ck_lock_check test_lock_check
#define ck_lock_note test_lock_note
#define ck_lock_drop test_lock_drop
#include "util/lock.c"

static struct ck_mutex outer = CK_MUTEX(3), inner = CK_MUTEX(4), other = CK_MUTEX(4), none;
static struct ck_mutex leaf = CK_MUTEX(CK_RANK_LEAF), leaf_too = CK_MUTEX(CK_RANK_LEAF);

/* Does locking @first and then @second end the process? */
static bool aborts(struct ck_mutex *first, struct ck_mutex *second)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		fclose(stderr);
		ck_lock(first);
		ck_lock(second);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void locks_are_taken_in_the_order_of_their_ranks(void **state)
{
	(void)state;
	assert_false(aborts(&outer, &inner));
	assert_false(aborts(&inner, &leaf));
	assert_true(aborts(&inner, &outer));
	assert_true(aborts(&leaf, &inner));
}

static void two_locks_of_one_rank_are_not_held_together(void **state)
{
	(void)state;
	assert_true(aborts(&inner, &other));
	assert_true(aborts(&leaf, &leaf_too));
	assert_true(aborts(&inner, &inner));
}

static void a_lock_without_a_rank_is_found(void **state)
{
	(void)state;
	assert_true(aborts(&none, &outer));
}

static void a_lock_that_was_given_up_does_not_count(void **state)
{
	(void)state;
	ck_lock(&inner);
	ck_lock(&leaf);
	ck_unlock(&inner); /* in whatever order */
	ck_unlock(&leaf);
	assert_false(aborts(&outer, &inner));
	assert_int_equal(ck_trylock(&leaf), 0);
	assert_int_equal(ck_trylock(&leaf_too), 0); /* it cannot block */
	ck_unlock(&leaf_too);
	ck_unlock(&leaf);
	assert_int_equal(held, 0);
}

static void a_renewed_lock_is_free_and_keeps_its_rank(void **state)
{
	(void)state;
	pthread_mutex_lock(&outer.mutex);
	ck_mutex_renew(&outer);
	assert_int_equal(ck_trylock(&outer), 0);
	ck_unlock(&outer);
	assert_int_equal(outer.rank, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_are_taken_in_the_order_of_their_ranks),
		cmocka_unit_test(two_locks_of_one_rank_are_not_held_together),
		cmocka_unit_test(a_lock_without_a_rank_is_found),
		cmocka_unit_test(a_lock_that_was_given_up_does_not_count),
		cmocka_unit_test(a_renewed_lock_is_free_and_keeps_its_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
