/*
 * tests/unit/test_client_session.c - a session is one object: two of them share nothing; and a
 * thread whose state cannot be made does not use another's.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/client_session.h"

/* What follows concerns @c, as if it were the process's session. */
static void be(struct ckc_client *c)
{
	ckc_client_default = c;
}

/* Sessions are never freed: a process has one for each server until it ends. */
static struct ckc_client *another(void)
{
	static struct ckc_client *made[8];
	static size_t count;

	assert_true(count < 8);
	made[count] = ckc_client_create();
	return made[count++];
}

static void a_new_session_is_fresh(void **state)
{
	struct ckc_client *first = ckc_client_current(), *second = another();
	int count;

	(void)state;
	assert_non_null(second);
	assert_ptr_not_equal(first, second);
	be(second);
	assert_ptr_equal(ckc_client_current(), second);
	assert_int_equal(second->state, CK_STATE_FRESH);
	assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	be(first);
	assert_int_equal(cuDeviceGetCount(&count), CUDA_SUCCESS);
}

static void answers_of_one_session_are_not_those_of_another(void **state)
{
	struct ckc_client *first = ckc_client_current(), *second = another();
	const uint64_t key[3] = {5, 0, 7};
	int answer = 42, got = 0;

	(void)state;
	assert_non_null(second);
	assert_false(ckc_cache_get(key, sizeof(key), &got, sizeof(got)));
	ckc_cache_put(key, sizeof(key), &answer, sizeof(answer));
	assert_true(ckc_cache_get(key, sizeof(key), &got, sizeof(got)));
	be(second);
	assert_false(ckc_cache_get(key, sizeof(key), &got, sizeof(got)));
	ckc_cache_clear();
	be(first);
	assert_true(ckc_cache_get(key, sizeof(key), &got, sizeof(got)));
}

static void an_id_that_the_server_picked_names_an_object_of_its_session(void **state)
{
	struct ckc_client *first = ckc_client_current(), *second = another();
	const uint64_t id = 1ull << 33;
	void *pool, *other;

	(void)state;
	assert_non_null(second);
	pool = ckc_object_named(CK_OBJECT_POOL, id);
	assert_non_null(pool);
	be(second);
	assert_null(ckc_object_by_id(CK_OBJECT_POOL, id));
	other = ckc_object_named(CK_OBJECT_POOL, id);
	assert_ptr_not_equal(other, pool);
	be(first);
	assert_ptr_equal(ckc_object_by_id(CK_OBJECT_POOL, id), pool);
}

static void memory_of_one_session_is_unknown_to_another(void **state)
{
	struct ckc_client *first = ckc_client_current(), *second = another();
	const uint64_t at = 0x7f0000000000;
	struct ckc_allocation a;

	(void)state;
	assert_non_null(second);
	assert_int_equal(CUDA_SUCCESS, ckc_allocation_add(at, 100, CK_MEMORY_DEVICE,
							  session_activate(0), 0, false));
	be(second);
	assert_false(ckc_allocation_find(at, &a));
	be(first);
	assert_true(ckc_allocation_remove(at, CK_MEMORY_DEVICE, &a));
}

/* Leave no keys of thread-specific data: then no thread's state can be kept. */
static int without_keys(void)
{
	CUcontext context = (CUcontext)ckc_gpu(0)->primary, current = context;
	pthread_key_t key;

	session_activate(0);
	while (pthread_key_create(&key, NULL) == 0)
		;
	if (ckc_thread() || cuCtxPushCurrent_v2(context) != CUDA_ERROR_OUT_OF_MEMORY)
		return 1;
	if (cuCtxGetCurrent(&current) != CUDA_SUCCESS || current)
		return 2;
	if (cuStreamSynchronize(NULL) != CUDA_ERROR_INVALID_CONTEXT)
		return 3;
	return 0;
}

static void a_thread_whose_state_cannot_be_made_has_no_context(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(without_keys());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: no key is made yet */
		cmocka_unit_test(a_thread_whose_state_cannot_be_made_has_no_context),
		cmocka_unit_test(a_new_session_is_fresh),
		cmocka_unit_test(answers_of_one_session_are_not_those_of_another),
		cmocka_unit_test(an_id_that_the_server_picked_names_an_object_of_its_session),
		cmocka_unit_test(memory_of_one_session_is_unknown_to_another),
	};

	return cmocka_run_group_tests(tests, session_begin, session_end);
}
