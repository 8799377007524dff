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

#define SIZE (256u << 10)

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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_left)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
