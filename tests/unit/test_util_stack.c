/*
 * tests/unit/test_util_stack.c - the stack that is left to the first thread, to another one, to a
 * coroutine.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include <cmocka.h>

#include "util/process/stack.h"

#define SIZE (4u << 20) /* a sanitizer has much of each stack */

static ucontext_t around, inside;
static bool in_coroutine;

static void coroutine(void)
{
	in_coroutine = ck_stack_has(1);
}

static void *in_thread(void *has)
{
	static char memory[SIZE];
	bool *out = has;

	out[0] = ck_stack_has(SIZE / 2);
	out[1] = ck_stack_has(SIZE);
	getcontext(&inside);
	inside.uc_stack.ss_sp = memory;
	inside.uc_stack.ss_size = sizeof(memory);
	inside.uc_link = &around;
	makecontext(&inside, coroutine, 0);
	in_coroutine = true;
	swapcontext(&around, &inside);
	return NULL;
}

static void test_what_is_left(void **state)
{
	bool has[2] = {false, true};
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	assert_true(ck_stack_has(SIZE));
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, SIZE), 0);
	assert_int_equal(pthread_create(&thread, &attr, in_thread, has), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_true(has[0]);
	assert_false(has[1]);
	assert_false(in_coroutine);
}

static char *low, *high; /* of the stack that the function has */

static void note_stack(void *ran)
{
	pthread_attr_t attr;
	size_t size;
	void *at;

	*(bool *)ran = true;
	if (pthread_getattr_np(pthread_self(), &attr) == 0 &&
	    pthread_attr_getstack(&attr, &at, &size) == 0) {
		low = at;
		high = low + size;
	}
	pthread_attr_destroy(&attr);
}

static void *run_in_thread(void *ran)
{
	char here;

	assert_int_equal(ck_stack_run(SIZE / 2, note_stack, ran), 0);
	assert_true(&here > low && &here < high);
	assert_int_equal(ck_stack_run(2 * SIZE, note_stack, ran), 0);
	assert_false(&here > low && &here < high);
	assert_true((size_t)(high - low) >= 2 * SIZE);
	return NULL;
}

static void test_a_function_that_needs_more_runs_in_another_thread(void **state)
{
	bool ran = false;
	pthread_attr_t attr;
	pthread_t thread;

	(void)state;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, SIZE), 0);
	assert_int_equal(pthread_create(&thread, &attr, run_in_thread, &ran), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_true(ran);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_left),
		cmocka_unit_test(test_a_function_that_needs_more_runs_in_another_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
