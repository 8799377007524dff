/*
 * tests/unit/test_client_callback.c - functions of the application that the server has called: the
 * peer hands out what the test tells it to, one ticket after another.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/graphs/host_function.h"
#include "client/objects/callback.h"
#include "tests/unit/client_peer.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	ck_callback_next_res queue[64];
	unsigned int first, count, waiting;
	uint64_t numbers;
	bool done[256]; /* by ticket */
} work = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* --- the peer's side */

static void next(const ck_callback_next_args *a, ck_callback_next_res *res)
{
	pthread_mutex_lock(&work.lock);
	work.done[a->done] = true;
	work.waiting++;
	pthread_cond_broadcast(&work.changed);
	while (work.first == work.count)
		pthread_cond_wait(&work.changed, &work.lock);
	*res = work.queue[work.first++ % 64];
	work.waiting--;
	pthread_mutex_unlock(&work.lock);
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_callback_next)
		next(m->args, res);
	return CUDA_SUCCESS;
}

static uint64_t hand_out(uint64_t callback, int status)
{
	ck_callback_next_res res = {.callback = callback, .status = status};

	pthread_mutex_lock(&work.lock);
	res.ticket = ++work.numbers;
	work.queue[work.count++ % 64] = res;
	pthread_cond_broadcast(&work.changed);
	pthread_mutex_unlock(&work.lock);
	return res.ticket;
}

static void await(uint64_t ticket)
{
	pthread_mutex_lock(&work.lock);
	while (!work.done[ticket])
		pthread_cond_wait(&work.changed, &work.lock);
	pthread_mutex_unlock(&work.lock);
}

/* --- the application's */

static _Atomic int calls;
static _Atomic bool gate;
static CUresult inside;
static CUresult told;
static CUstream told_stream;

static void count(void *data)
{
	*(_Atomic int *)data += 1;
}

static void block(void *data)
{
	(void)data;
	while (!gate)
		usleep(100);
}

static void call_cuda(void *data)
{
	CUdeviceptr p;

	(void)data;
	inside = cuMemAlloc_v2(&p, 4);
}

static void callback(CUstream stream, CUresult status, void *data)
{
	told = status;
	told_stream = stream;
	count(data);
}

static uint64_t registered(size_t index)
{
	ck_host_function_args *args = peer_args(CK_PROC_host_function, index);

	assert_non_null(args);
	return args->callback;
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	calls = 0;
	gate = false;
	return 0;
}

static void test_a_function_is_called_once_and_then_reported(void **state)
{
	uint64_t id;

	(void)state;
	assert_int_equal(cuLaunchHostFunc(NULL, count, (void *)&calls), CUDA_SUCCESS);
	id = registered(0);
	assert_int_equal(calls, 0);
	await(hand_out(id, 0));
	assert_int_equal(calls, 1);
	await(hand_out(id, 0)); /* forgotten: nothing is called, and the server not kept waiting */
	assert_int_equal(calls, 1);
}

static void test_ids_that_are_none_call_nothing(void **state)
{
	(void)state;
	await(hand_out(0, 0));
	await(hand_out(~(uint64_t)0, 0));
	assert_int_equal(calls, 0);
}

static void test_a_function_that_blocks_holds_up_no_other(void **state)
{
	uint64_t blocked;

	(void)state;
	assert_int_equal(cuLaunchHostFunc(NULL, block, NULL), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(NULL, count, (void *)&calls), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(NULL, count, (void *)&calls), CUDA_SUCCESS);
	blocked = hand_out(registered(0), 0);
	await(hand_out(registered(1), 0));
	await(hand_out(registered(2), 0));
	assert_int_equal(calls, 2);
	assert_false(work.done[blocked]);
	gate = true;
	await(blocked);
}

static void test_cuda_is_not_permitted_inside(void **state)
{
	CUdevice device;

	(void)state;
	assert_int_equal(cuLaunchHostFunc(NULL, call_cuda, NULL), CUDA_SUCCESS);
	await(hand_out(registered(0), 0));
	assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuCtxGetDevice(&device), CUDA_SUCCESS);
}

static void test_a_callback_is_told_stream_and_error(void **state)
{
	CUstream stream;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamAddCallback(stream, callback, (void *)&calls, 0), CUDA_SUCCESS);
	await(hand_out(registered(0), CUDA_ERROR_ILLEGAL_ADDRESS));
	assert_int_equal(told, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_ptr_equal(told_stream, stream);
	assert_int_equal(calls, 1);
}

static void test_a_kept_function_is_called_any_number_of_times(void **state)
{
	uint64_t id, again, other;

	(void)state;
	assert_int_equal(ckc_host_function_register(count, (void *)&calls, true, &id),
			 CUDA_SUCCESS);
	assert_int_equal(ckc_host_function_register(count, (void *)&calls, true, &again),
			 CUDA_SUCCESS);
	assert_int_equal(ckc_host_function_register(count, NULL, true, &other), CUDA_SUCCESS);
	assert_int_equal(id, again);
	assert_int_not_equal(id, other);
	for (int i = 0; i < 3; i++)
		await(hand_out(id, 0));
	assert_int_equal(calls, 3);
}

static void test_wrong_arguments_are_refused_at_once(void **state)
{
	CUstream none = (CUstream)0x1234;
	CUuserObject user;

	(void)state;
	assert_int_equal(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchHostFunc(none, count, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamAddCallback(NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamAddCallback(NULL, callback, NULL, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamAddCallback(none, callback, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuUserObjectCreate(&user, NULL, count, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuUserObjectCreate(&user, NULL, count, 0, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuUserObjectRetain((CUuserObject)none, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_host_function), 0);
}

static void test_a_user_object_is_freed_with_its_destructor(void **state)
{
	CUuserObject user;
	ck_user_object_args *args;

	(void)state;
	assert_int_equal(cuUserObjectCreate(&user, (void *)&calls, count, 2, 1), CUDA_SUCCESS);
	args = peer_args(CK_PROC_user_object, 0);
	assert_int_equal(args->count, 2);
	assert_int_equal(cuUserObjectRelease(user, 2), CUDA_SUCCESS);
	await(hand_out(args->callback, 0));
	assert_int_equal(calls, 1);
	assert_int_equal(cuUserObjectRetain(user, 1), CUDA_ERROR_INVALID_VALUE);
}

static int begin(void **state)
{
	peer.call = answer;
	return peer_begin(state);
}

static void nothing(const struct ckc_callback *c, int status, uint64_t value)
{
	(void)c;
	(void)status;
	(void)value;
}

static uint64_t hold(uint64_t stream)
{
	const struct ckc_callback own = {
		.run = nothing, .ours = true, .in_stream = true, .stream = stream};
	uint64_t id;

	assert_int_equal(ckc_callback_add(&own, &id), CUDA_SUCCESS);
	return id;
}

static _Atomic uint64_t held;

static void *hold_another(void *stream)
{
	uint64_t id = hold(*(uint64_t *)stream);

	atomic_store(&held, id);
	return NULL;
}

/* NVIDIA's driver runs functions one after the other: one of ours waits in no stream while another
 * stream has one. */
static void test_ours_are_in_one_stream_at_a_time(void **state)
{
	uint64_t first = hold(7), second = hold(7), other = 8;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, hold_another, &other), 0);
	ckc_callback_drop(first);
	usleep(2000);
	assert_int_equal(atomic_load(&held), 0);
	assert_int_equal(cuLaunchHostFunc(NULL, count, (void *)&calls), CUDA_SUCCESS);
	ckc_callback_drop(second);
	usleep(2000);
	assert_int_equal(atomic_load(&held), 0); /* nor while the program has one */
	await(hand_out(registered(0), 0));
	pthread_join(thread, NULL);
	ckc_callback_drop(atomic_load(&held));
	ckc_callback_drop(hold(9));
}

static void ignore(const struct ckc_callback *call, int status, uint64_t value)
{
	(void)call;
	(void)status;
	(void)value;
}

/* Copies of pinned memory wait for functions that may write it; the notice of the lease is none. */
static void test_a_notice_of_the_server_is_not_waited_for(void **state)
{
	struct ckc_callback notice = {.run = ignore, .persistent = true, .ours = true};
	uint64_t id, other;

	(void)state;
	assert_int_equal(ckc_callback_add(&notice, &id), CUDA_SUCCESS);
	assert_false(ckc_callback_pending());
	await(hand_out(id, 0));
	assert_false(ckc_callback_pending());
	ckc_callback_drop(id);
	assert_int_equal(cuLaunchHostFunc(NULL, count, (void *)&calls), CUDA_SUCCESS);
	other = registered(0);
	assert_true(ckc_callback_pending());
	await(hand_out(other, 0));
	assert_false(ckc_callback_pending());
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, clear)
	const struct CMUnitTest tests[] = {
		TEST(test_a_function_is_called_once_and_then_reported),
		TEST(test_ours_are_in_one_stream_at_a_time),
		TEST(test_a_notice_of_the_server_is_not_waited_for),
		TEST(test_ids_that_are_none_call_nothing),
		TEST(test_a_function_that_blocks_holds_up_no_other),
		TEST(test_cuda_is_not_permitted_inside),
		TEST(test_a_callback_is_told_stream_and_error),
		TEST(test_a_kept_function_is_called_any_number_of_times),
		TEST(test_wrong_arguments_are_refused_at_once),
		TEST(test_a_user_object_is_freed_with_its_destructor),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
