/*
 * tests/unit/test_client_session.c - a session is one object: two of them share nothing; a thread
 * whose state cannot be made does not use another's; and a loss is reported before it is felt.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/client_session.h"
#include "util/log.h"

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

/* --- two threads notice at the same time that the session is lost */

static struct {
	struct ckc_client *client;
	sem_t reporting, go; /* the line is being written; that may end */
	int lines, state_at_line;
	_Atomic bool second_returned;
} loss;

static void hold_line(int level, char *text, size_t size)
{
	(void)level;
	(void)text;
	(void)size;
	loss.lines++;
	loss.state_at_line = loss.client->state;
	sem_post(&loss.reporting);
	while (sem_wait(&loss.go) < 0)
		;
}

static void *notice_first(void *unused)
{
	ckc_session_lost(loss.client, "the first thread notices it");
	return unused;
}

static void *notice_second(void *unused)
{
	ckc_session_lost(loss.client, "the second thread notices it");
	loss.second_returned = true;
	sem_post(&loss.go); /* a line that waits for this thread ends now */
	return unused;
}

/* Have both notice it, the second one while the line of the first is held. */
static void lose_twice(pthread_t threads[2])
{
	loss.client = another();
	assert_non_null(loss.client);
	loss.client->state = CK_STATE_READY;
	loss.second_returned = false;
	loss.lines = 0;
	sem_init(&loss.reporting, 0, 0);
	sem_init(&loss.go, 0, 0);
	ck_log_hook(hold_line);
	assert_int_equal(pthread_create(&threads[0], NULL, notice_first, NULL), 0);
	while (sem_wait(&loss.reporting) < 0)
		;
	assert_int_equal(pthread_create(&threads[1], NULL, notice_second, NULL), 0);
}

static void join_both(pthread_t threads[2])
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	ck_log_hook(NULL);
	assert_int_equal(loss.lines, 1);
	assert_int_equal(loss.client->state, CK_STATE_LOST);
}

static void no_call_fails_before_the_line_that_says_why(void **state)
{
	pthread_t threads[2];

	(void)state;
	lose_twice(threads);
	usleep(50000);
	assert_false(loss.second_returned);
	assert_int_equal(loss.state_at_line, CK_STATE_READY);
	sem_post(&loss.go);
	join_both(threads);
}

/* As a function of the program may, which takes such lines and needs a lock of that thread. */
static void a_line_that_waits_for_another_call_holds_up_nothing_for_long(void **state)
{
	pthread_t threads[2];

	(void)state;
	lose_twice(threads);
	join_both(threads);
	assert_true(loss.second_returned);
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
		cmocka_unit_test(no_call_fails_before_the_line_that_says_why),
		cmocka_unit_test(a_line_that_waits_for_another_call_holds_up_nothing_for_long),
	};

	return cmocka_run_group_tests(tests, session_begin, session_end);
}
