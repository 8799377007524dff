/*
 * tests/unit/test_client_arena.c - device memory that the client lays out, as it reaches the
 * server, which the test plays: leases, waits before a use, and memory that goes back.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/memory/arena.h"
#include "tests/unit/client_peer.h"

#define CHUNK ((size_t)2 << 20)
#define LARGE (64 * CHUNK)
#define OWN_POOL (1u << 23) /* an id that the server has picked */

static unsigned int refusals; /* of leases, to come */
static CUresult why = CUDA_ERROR_OUT_OF_MEMORY;
static unsigned int full; /* refusals of the driver's own memory */
static bool earlier;	  /* they are of earlier commands */
static int more;	  /* what others return */
static CUstream one, two;
static CUevent event;
static bool busy; /* the work that uses freed memory */

/* The next lease is granted late: when something has been refused, and a client that does not wait
 * has had the time to fail. */
static atomic_bool late, refused;
static sem_t asked;

static CUresult grant_late(void)
{
	late = false;
	sem_post(&asked);
	while (!refused)
		usleep(1000);
	usleep(100000);
	return CUDA_SUCCESS;
}

static CUresult refuse(unsigned int *count, CUresult err)
{
	--*count;
	refused = *count == 0;
	return err;
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_callback_next) {
		sleep(10); /* or the client would find itself idle */
		return CUDA_SUCCESS;
	}
	if (m->number == CK_PROC_lease && late)
		return grant_late();
	if (m->number == CK_PROC_lease && refusals > 0)
		return refuse(&refusals, why);
	if (m->number == CK_PROC_cuMemAlloc_v2 && full > 0)
		return refuse(&full, CUDA_ERROR_OUT_OF_MEMORY);
	if (m->number == CK_PROC_cuMemAlloc_v2)
		((cuMemAlloc_v2_res *)res)->dptr = 0x700000000000;
	else if (m->number == CK_PROC_cuMemAddressReserve)
		((cuMemAddressReserve_res *)res)->ptr = ((cuMemAddressReserve_args *)m->args)->addr;
	else if (m->number == CK_PROC_cuDeviceGetDefaultMemPool)
		((cuDeviceGetDefaultMemPool_res *)res)->pool_out = OWN_POOL;
	else if (m->number == CK_PROC_capture_graph)
		((ck_capture_graph_res *)res)->graph = OWN_POOL + 1;
	else if (m->number == CK_PROC_lease_quiet)
		((ck_lease_quiet_res *)res)->over = !busy;
	else if (m->number == CK_PROC_command_failed)
		((ck_command_failed_res *)res)->failed = earlier;
	else if (m->number == CK_PROC_lease_press)
		((ck_lease_press_res *)res)->more = more;
	else if (m->number == CK_PROC_cuMemGetInfo_v2)
		((cuMemGetInfo_v2_res *)res)->free = 10 * CHUNK;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	return peer_begin(state) || cuStreamCreate(&one, CU_STREAM_NON_BLOCKING) ||
	       cuStreamCreate(&two, CU_STREAM_NON_BLOCKING) ||
	       cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
}

/* Each test begins without a lease and with nothing to wait for. */
static int clear(void **state)
{
	CUmemoryPool pool;

	(void)state;
	/* work that may wait for other work */
	if (cuEventRecord(event, one) || cuStreamWaitEvent(two, event, 0))
		return -1;
	busy = false;
	more = 0;
	refusals = 10; /* all that is free goes back */
	if (cuMemAlloc_v2(&(CUdeviceptr){0}, LARGE * 100) == CUDA_SUCCESS ||
	    cuDeviceGetDefaultMemPool(&pool, 0) || cuCtxSynchronize())
		return -1;
	peer_await_all();
	peer_clear();
	refusals = 0;
	return 0;
}

static CUdeviceptr take(size_t size)
{
	CUdeviceptr at = 0;

	assert_int_equal(cuMemAlloc_v2(&at, size), CUDA_SUCCESS);
	return at;
}

static CUdeviceptr take_in(CUstream stream, size_t size)
{
	CUdeviceptr at = 0;

	assert_int_equal(cuMemAllocAsync(&at, size, stream), CUDA_SUCCESS);
	return at;
}

static unsigned int sent(uint32_t number)
{
	peer_await_all();
	return peer_count(number);
}

static void copies_are_waited_for_one_way(void **state)
{
	CUdeviceptr at = take(LARGE);

	(void)state;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
	assert_int_equal(take(LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_settle), 1);
	assert_int_equal(sent(CK_PROC_lease_quiet), 0);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
}

static void small_allocations_share_a_lease(void **state)
{
	CUdeviceptr at[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		at[i] = take(1000);
	for (int i = 1; i < 100; i++)
		assert_int_equal(at[i], at[i - 1] + 1024);
	assert_int_equal(sent(CK_PROC_lease), 1);
	assert_int_equal(sent(CK_PROC_cuMemAlloc_v2), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(cuMemFree_v2(at[i]), CUDA_SUCCESS);
	assert_int_equal(sent(CK_PROC_cuMemFree_v2), 0);
	assert_int_equal(cuMemFree_v2(at[0]), CUDA_ERROR_INVALID_VALUE);
}

static void a_large_allocation_is_one_block(void **state)
{
	const ck_lease_args *lease;
	CUdeviceptr at = take(LARGE - 5);

	(void)state;
	lease = peer_args(CK_PROC_lease, 0);
	assert_int_equal(lease->at, at);
	assert_int_equal(lease->size, LARGE);
	assert_int_equal(lease->unit, LARGE);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
	assert_int_equal(take(LARGE), at); /* nothing has used it: no wait either */
	assert_int_equal(sent(CK_PROC_lease), 1);
	assert_int_equal(sent(CK_PROC_lease_quiet), 0);
	cuMemFree_v2(at);
}

static void memory_is_used_again_when_all_work_is_over(void **state)
{
	const ck_lease_quiet_args *quiet;
	CUdeviceptr at = take(LARGE);

	(void)state;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
	assert_int_equal(take(LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_quiet), 1);
	quiet = peer_args(CK_PROC_lease_quiet, 0);
	assert_true(quiet->all && quiet->time > 0); /* cuMemFree waits natively */
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(take(LARGE), at); /* the program has waited */
	assert_int_equal(sent(CK_PROC_lease_quiet), 1);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
}

static void a_stream_follows_its_own_use_and_asks_about_anothers(void **state)
{
	CUdeviceptr at = take_in(one, LARGE);
	const ck_lease_quiet_args *quiet;

	(void)state;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	assert_int_equal(take_in(one, LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_quiet), 0);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	assert_int_equal(take_in(two, LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_quiet), 1);
	quiet = peer_args(CK_PROC_lease_quiet, 0);
	assert_int_equal(quiet->stream, ((struct ckc_object *)one)->id);
	assert_int_equal(quiet->time, 0); /* nor does the free wait */
	assert_false(quiet->all);
	assert_int_equal(cuMemFreeAsync(at, two), CUDA_SUCCESS);
	assert_int_equal(take(LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_quiet), 2);
	assert_int_equal(sent(CK_PROC_order), 0);
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
}

/* The work may wait for what the program submits later. */
static void other_memory_is_used_while_work_is_not_over(void **state)
{
	CUdeviceptr at = take_in(one, LARGE), other;

	(void)state;
	busy = true;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	other = take_in(two, LARGE);
	assert_int_not_equal(other, at);
	assert_int_equal(sent(CK_PROC_lease), 2);
	assert_int_equal(sent(CK_PROC_order), 0);
	assert_int_equal(sent(CK_PROC_lease_settle), 0);
	assert_int_equal(cuMemFreeAsync(other, two), CUDA_SUCCESS);
}

static void a_stream_waits_for_anothers_use_in_want_of_memory(void **state)
{
	CUdeviceptr at = take_in(one, LARGE);
	const ck_order_args *order;

	(void)state;
	busy = true;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	refusals = 1;
	assert_int_equal(take_in(two, LARGE), at);
	assert_int_equal(sent(CK_PROC_order), 1);
	order = peer_args(CK_PROC_order, 0);
	assert_int_equal(order->before, ((struct ckc_object *)one)->id);
	assert_int_equal(order->after, ((struct ckc_object *)two)->id);
	assert_int_equal(cuMemFreeAsync(at, two), CUDA_SUCCESS);
}

/* Another one may have its id. */
static void the_use_in_a_stream_that_has_ended_is_over_with_all_work(void **state)
{
	const ck_lease_quiet_args *quiet;
	CUstream stream;
	CUdeviceptr at;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	at = take_in(stream, LARGE);
	assert_int_equal(cuMemsetD8Async(at, 1, 10, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	assert_int_equal(take_in(two, LARGE), at);
	assert_int_equal(sent(CK_PROC_lease_quiet), 1);
	quiet = peer_args(CK_PROC_lease_quiet, 0);
	assert_true(quiet->all);
	assert_int_equal(cuMemFreeAsync(at, two), CUDA_SUCCESS);
}

static void a_capture_is_not_waited_for(void **state)
{
	CUdeviceptr at = take_in(one, LARGE), other;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture_v2(two, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_SUCCESS);
	other = take(LARGE);
	assert_int_equal(sent(CK_PROC_lease_quiet), 0);
	assert_int_not_equal(other, at);
	refusals = 1;
	assert_int_equal(cuMemAlloc_v2(&(CUdeviceptr){0}, 3 * LARGE), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(sent(CK_PROC_lease_end), 0); /* nor is memory returned */
	assert_int_equal(sent(CK_PROC_lease_drop), 0);
	assert_int_equal(cuStreamEndCapture(two, &graph), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(other), CUDA_SUCCESS);
}

static void free_memory_goes_back_before_an_allocation_fails(void **state)
{
	CUdeviceptr at = take(LARGE), p = 7;
	const ck_lease_drop_args *end;

	(void)state;
	assert_int_equal(cuMemFree_v2(at), CUDA_SUCCESS);
	refusals = 1;
	assert_int_equal(cuMemAlloc_v2(&p, 2 * LARGE), CUDA_SUCCESS); /* at the second attempt */
	end = peer_args(CK_PROC_lease_drop, 0);
	assert_int_equal(end->at, at);
	assert_int_equal(end->size, LARGE);
	assert_int_equal(sent(CK_PROC_lease_press), 0);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Trimming a pool does not wait natively; want of memory does. */
static void memory_that_work_may_use_goes_back_only_in_want_of_memory(void **state)
{
	CUdeviceptr at = take_in(one, LARGE), p = 7;
	const ck_lease_drop_args *end;
	CUmemoryPool pool;

	(void)state;
	assert_int_equal(cuMemsetD8Async(at, 1, 10, one), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(at, one), CUDA_SUCCESS);
	assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
	assert_int_equal(sent(CK_PROC_lease_drop), 0);
	refusals = 1;
	assert_int_equal(cuMemAlloc_v2(&p, 2 * LARGE), CUDA_SUCCESS);
	assert_int_equal(sent(CK_PROC_lease_quiet), 1);
	assert_int_equal(sent(CK_PROC_lease_end), 0);
	end = peer_args(CK_PROC_lease_drop, 0);
	assert_int_equal(end->at, at);
	assert_int_equal(end->size, LARGE);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void other_sessions_are_asked_before_an_allocation_fails(void **state)
{
	CUdeviceptr p = 7;

	(void)state;
	refusals = 1;
	assert_int_equal(cuMemAlloc_v2(&p, LARGE), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(p, 7);
	assert_int_equal(sent(CK_PROC_lease_press), 1);
	assert_int_equal(sent(CK_PROC_lease), 1);
	refusals = 1;
	more = 1;
	assert_int_equal(cuMemAlloc_v2(&p, LARGE), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Others are faster, or the driver cannot use what is free: ask for more than there is. */
static void it_asks_for_more_where_free_memory_is_not_enough(void **state)
{
	CUdeviceptr p = 7;

	(void)state;
	refusals = 20;
	more = 1;
	assert_int_equal(cuMemAlloc_v2(&p, LARGE), CUDA_SUCCESS);
	assert_int_equal(sent(CK_PROC_lease_press), 20);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(
			((const ck_lease_press_args *)peer_args(CK_PROC_lease_press, i))->size,
			i < 2 ? LARGE : SIZE_MAX);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void a_small_allocation_takes_less_where_memory_is_short(void **state)
{
	const ck_lease_args *lease;
	CUdeviceptr p;

	(void)state;
	refusals = 1;
	p = take(1);
	assert_int_equal(sent(CK_PROC_lease), 2);
	lease = peer_args(CK_PROC_lease, 1);
	assert_int_equal(lease->size, CHUNK);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void a_driver_without_such_memory_is_asked_for_its_own(void **state)
{
	CUdeviceptr p;

	(void)state;
	why = CUDA_ERROR_INVALID_VALUE;
	refusals = 1;
	p = take(LARGE);
	why = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(p, 0x700000000000);
	assert_int_equal(sent(CK_PROC_cuMemAlloc_v2), 1);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(sent(CK_PROC_cuMemFree_v2), 1);
}

static void leased_memory_that_is_free_counts_as_free(void **state)
{
	CUdeviceptr p = take(LARGE);
	size_t left = 0, total = 0;

	(void)state;
	assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
	assert_int_equal(left, 10 * CHUNK);
	assert_int_equal(ckc_arena_idle(ckc_client_current(), 0), 0); /* as NVML asks */
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
	assert_int_equal(left, 10 * CHUNK + LARGE);
	assert_int_equal(ckc_arena_idle(ckc_client_current(), 0), LARGE);
	assert_int_equal(ckc_arena_idle(ckc_client_current(), 1), 0);
	assert_int_equal(cuMemGetInfo_v2(NULL, &total), CUDA_ERROR_INVALID_VALUE);
}

/* --- leases that are on their way */

static void *take_one(void *context)
{
	CUdeviceptr at = 0;

	peer_check(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	peer_check(cuMemAlloc_v2(&at, 1) == CUDA_SUCCESS);
	return (void *)(uintptr_t)at;
}

/* Another thread has asked for an allocation, and more: the lease is not here yet. */
static pthread_t begin_late(void)
{
	CUcontext context;
	pthread_t thread;

	refused = false;
	late = true;
	sem_init(&asked, 0, 0);
	assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, take_one, context), 0);
	while (sem_wait(&asked) != 0)
		;
	return thread;
}

static void end_late(pthread_t thread)
{
	void *at;

	pthread_join(thread, &at);
	assert_int_equal(cuMemFree_v2((CUdeviceptr)(uintptr_t)at), CUDA_SUCCESS);
}

static void an_allocation_takes_what_another_thread_has_been_granted(void **state)
{
	pthread_t other = begin_late();
	CUdeviceptr p;

	(void)state;
	refusals = 2; /* the other has all the memory */
	p = take(1);
	end_late(other);
	assert_int_equal(sent(CK_PROC_lease), 3);
	assert_int_equal(sent(CK_PROC_lease_press), 0);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void what_another_thread_has_been_granted_goes_back_for_the_driver(void **state)
{
	pthread_t other = begin_late();
	CUdeviceptr p;

	(void)state;
	why = CUDA_ERROR_INVALID_VALUE;
	refusals = 1;
	full = 1;
	p = take(LARGE);
	why = CUDA_ERROR_OUT_OF_MEMORY;
	end_late(other);
	assert_int_equal(p, 0x700000000000);
	assert_int_equal(sent(CK_PROC_lease_drop), 1);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void a_lease_on_its_way_counts_as_free(void **state)
{
	pthread_t other = begin_late();
	size_t left = 0, total = 0;

	(void)state;
	refused = true;
	assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
	assert_int_equal(left, 10 * CHUNK + 15 * CHUNK);
	end_late(other);
}

static void others_are_asked_when_what_this_one_returns_is_too_little(void **state)
{
	CUdeviceptr p = take(CHUNK);

	(void)state;
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	why = CUDA_ERROR_INVALID_VALUE;
	refusals = 1;
	full = 2;
	more = 1;
	p = take(LARGE);
	why = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(sent(CK_PROC_lease_drop), 1);
	assert_int_equal(sent(CK_PROC_lease_press), 1);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
}

/* That command was not carried out, whatever memory there is now. */
static void a_command_that_found_no_memory_is_reported(void **state)
{
	CUdeviceptr p;

	(void)state;
	why = CUDA_ERROR_INVALID_VALUE;
	refusals = full = 1;
	more = 1;
	earlier = true;
	assert_int_equal(cuMemAlloc_v2(&p, LARGE), CUDA_ERROR_OUT_OF_MEMORY);
	why = CUDA_ERROR_OUT_OF_MEMORY;
	earlier = false;
	assert_int_equal(sent(CK_PROC_lease_press), 0);
	assert_int_equal(full, 0);
}

static void rows_are_as_far_apart_as_the_driver_puts_them(void **state)
{
	CUdeviceptr p;
	size_t pitch = 0;

	(void)state;
	for (size_t width = 1; width < 2000; width += 511) {
		assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, width, 3, 4), CUDA_SUCCESS);
		assert_int_equal(pitch, (width + 511) / 512 * 512);
		assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	}
	assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, SIZE_MAX, 1, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4),
			 CUDA_ERROR_INVALID_VALUE);
}

static void the_use_of_a_pool_is_known_here(void **state)
{
	CUmemoryPool pool;
	cuuint64_t value = 1;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), 0);
	assert_int_equal(value, 0);
	p = take_in(one, 5000);
	assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), 0);
	assert_int_equal(value, 5000);
	assert_int_equal(cuMemFreeAsync(p, one), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
	assert_true(sent(CK_PROC_lease_drop) > 0);
	assert_int_equal(sent(CK_PROC_lease_end), 0);
	assert_int_equal(sent(CK_PROC_pool_attribute), 0);
	assert_int_equal(sent(CK_PROC_cuMemPoolTrimTo), 0);
}

#define arena_test(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_waited_for_one_way),
		arena_test(small_allocations_share_a_lease),
		arena_test(a_large_allocation_is_one_block),
		arena_test(memory_is_used_again_when_all_work_is_over),
		arena_test(a_stream_follows_its_own_use_and_asks_about_anothers),
		arena_test(other_memory_is_used_while_work_is_not_over),
		arena_test(a_stream_waits_for_anothers_use_in_want_of_memory),
		arena_test(the_use_in_a_stream_that_has_ended_is_over_with_all_work),
		arena_test(a_capture_is_not_waited_for),
		arena_test(free_memory_goes_back_before_an_allocation_fails),
		arena_test(memory_that_work_may_use_goes_back_only_in_want_of_memory),
		arena_test(other_sessions_are_asked_before_an_allocation_fails),
		arena_test(it_asks_for_more_where_free_memory_is_not_enough),
		arena_test(a_small_allocation_takes_less_where_memory_is_short),
		arena_test(a_driver_without_such_memory_is_asked_for_its_own),
		arena_test(leased_memory_that_is_free_counts_as_free),
		arena_test(an_allocation_takes_what_another_thread_has_been_granted),
		arena_test(what_another_thread_has_been_granted_goes_back_for_the_driver),
		arena_test(a_lease_on_its_way_counts_as_free),
		arena_test(others_are_asked_when_what_this_one_returns_is_too_little),
		arena_test(a_command_that_found_no_memory_is_reported),
		arena_test(rows_are_as_far_apart_as_the_driver_puts_them),
		arena_test(the_use_of_a_pool_is_known_here),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
