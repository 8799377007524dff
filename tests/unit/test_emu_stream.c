/*
 * tests/unit/test_emu_stream.c - the order that streams, events and contexts of the emulated
 * driver keep, and that they keep it when many threads call. Meant to run under TSan as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/core/emu.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)

/* A context with the kernels, and a flag that kernels wait for. */
struct fixture {
	CUcontext context;
	CUmodule module;
	CUfunction spin, add, store;
	CUdeviceptr word; /* of device memory, 0 */
	uint32_t *flag;	  /* pinned, 0 */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || cuInit(0) || cuCtxCreate_v2(&f->context, 0, 0) ||
	    cuModuleLoadData(&f->module, emu_kernels) ||
	    cuModuleGetFunction(&f->spin, f->module, "spin") ||
	    cuModuleGetFunction(&f->add, f->module, "add") ||
	    cuModuleGetFunction(&f->store, f->module, "store") || cuMemAlloc_v2(&f->word, 4) ||
	    cuMemsetD32_v2(f->word, 0, 1) || cuMemHostAlloc((void **)&f->flag, 4096, 0) ||
	    cuCtxSynchronize())
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int failed = cuCtxDestroy_v2(f->context) != CUDA_SUCCESS;

	free(f);
	return -failed;
}

static void flag_set(struct fixture *f)
{
	__atomic_store_n(f->flag, 1, __ATOMIC_RELEASE);
}

/* Occupy @stream until flag_set(). */
static void spin_launch(struct fixture *f, CUstream stream)
{
	CUdeviceptr p = (CUdeviceptr)f->flag;
	void *params[] = {&p};

	ok(cuLaunchKernel(f->spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void add_launch(struct fixture *f, CUstream stream, uint32_t value)
{
	void *params[] = {&f->word, &value};

	ok(cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static uint32_t word_read(struct fixture *f)
{
	uint32_t value = 99;

	ok(cuMemcpyDtoH_v2(&value, f->word, 4));
	return value;
}

static void a_launch_returns_before_the_kernel_ends(void **state)
{
	struct fixture *f = *state;
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuStreamQuery(stream));
	spin_launch(f, stream);
	assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	flag_set(f);
	ok(cuStreamSynchronize(stream));
	ok(cuStreamQuery(stream));
	ok(cuStreamDestroy_v2(stream));
	assert_int_equal(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamQuery((CUstream)0x77), CUDA_ERROR_INVALID_HANDLE);
}

static void the_legacy_stream_waits_for_blocking_streams_and_blocks_them(void **state)
{
	struct fixture *f = *state;
	CUstream first, second;

	ok(cuStreamCreate(&first, CU_STREAM_DEFAULT));
	ok(cuStreamCreate(&second, CU_STREAM_DEFAULT));
	spin_launch(f, first);
	add_launch(f, NULL, 1);
	add_launch(f, second, 2);
	usleep(20000);
	assert_int_equal(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	flag_set(f);
	ok(cuStreamSynchronize(second));
	assert_int_equal(word_read(f), 3);
	ok(cuStreamDestroy_v2(first));
	ok(cuStreamDestroy_v2(second));
}

static void a_non_blocking_stream_runs_beside_the_legacy_stream(void **state)
{
	struct fixture *f = *state;
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	spin_launch(f, NULL);
	add_launch(f, stream, 1);
	ok(cuStreamSynchronize(stream));
	assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	flag_set(f);
	assert_int_equal(word_read(f), 1);
	ok(cuStreamDestroy_v2(stream));
}

static void the_per_thread_stream_is_a_blocking_stream(void **state)
{
	struct fixture *f = *state;
	unsigned int flags = 9;

	spin_launch(f, CU_STREAM_PER_THREAD);
	add_launch(f, CU_STREAM_LEGACY, 1);
	ok(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
	assert_int_equal(flags, CU_STREAM_DEFAULT);
	usleep(10000);
	assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	flag_set(f);
	assert_int_equal(word_read(f), 1);
}

static void a_wait_keeps_to_the_record_it_saw(void **state)
{
	struct fixture *f = *state;
	CUstream a, b;
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuEventQuery(event));
	ok(cuStreamWaitEvent(b, event, 0));
	add_launch(f, a, 1);
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	spin_launch(f, a);
	ok(cuEventRecord(event, a));
	add_launch(f, b, 2);
	ok(cuStreamSynchronize(b));
	assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	ok(cuStreamWaitEvent(b, event, 0));
	add_launch(f, b, 4);
	usleep(10000);
	assert_int_equal(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	ok(cuEventDestroy_v2(event));
	flag_set(f);
	ok(cuStreamSynchronize(b));
	assert_int_equal(word_read(f), 7);
	ok(cuStreamDestroy_v2(a));
	ok(cuStreamDestroy_v2(b));
	assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

static void elapsed_time_is_that_between_the_records(void **state)
{
	struct fixture *f = *state;
	CUevent start, end, untimed;
	float ms = -1;

	ok(cuEventCreate(&start, 0));
	ok(cuEventCreate(&end, 0));
	ok(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	assert_int_equal(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventRecord(start, NULL));
	spin_launch(f, NULL);
	ok(cuEventRecord(end, NULL));
	ok(cuEventRecord(untimed, NULL));
	ok(cuEventSynchronize(start));
	assert_int_equal(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventElapsedTime(&ms, end, untimed), CUDA_ERROR_INVALID_HANDLE);
	usleep(30000);
	flag_set(f);
	ok(cuEventSynchronize(end));
	ok(cuEventElapsedTime_v2(&ms, start, end));
	assert_true(ms > 25 && ms < 10000);
	ok(cuEventSynchronize(untimed));
	assert_int_equal(cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventDestroy_v2(start));
	ok(cuEventDestroy_v2(end));
	ok(cuEventDestroy_v2(untimed));
}

static void a_destroyed_stream_finishes_its_work(void **state)
{
	struct fixture *f = *state;
	CUstream stream;

	ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	spin_launch(f, stream);
	add_launch(f, stream, 1);
	ok(cuStreamDestroy_v2(stream));
	flag_set(f);
	assert_int_equal(word_read(f), 1);
}

static void a_pageable_source_may_change_after_the_call(void **state)
{
	struct fixture *f = *state;
	uint32_t value = 5;

	spin_launch(f, NULL);
	ok(cuMemcpyHtoDAsync_v2(f->word, &value, 4, NULL));
	value = 6;
	flag_set(f);
	assert_int_equal(word_read(f), 5);
	value = 0;
	ok(cuMemcpyDtoHAsync_v2(&value, f->word, 4, NULL));
	assert_int_equal(value, 5);
}

static CUresult inside_result;
static int calls;

static void host_function(void *data)
{
	CUdeviceptr p;

	inside_result = cuMemAlloc_v2(&p, 16);
	calls += *(int *)data;
}

static void host_callback(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	if (status == CUDA_SUCCESS)
		calls += *(int *)data;
}

static void host_functions_run_in_order_and_may_not_call_back(void **state)
{
	int one = 1, ten = 10;

	(void)state;
	calls = 0;
	ok(cuLaunchHostFunc(NULL, host_function, &one));
	ok(cuStreamAddCallback(NULL, host_callback, &ten, 0));
	ok(cuCtxSynchronize());
	assert_int_equal(calls, 11);
	assert_int_equal(inside_result, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuStreamAddCallback(NULL, host_callback, &ten, 1),
			 CUDA_ERROR_INVALID_VALUE);
}

static void slow_callback(void *done)
{
	usleep(50000);
	*(volatile int *)done = 1;
}

static void the_end_of_a_context_completes_its_work(void **state)
{
	volatile int done = 0;
	CUcontext context;
	CUdeviceptr p;
	CUstream stream;
	static unsigned int word;

	(void)state;
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuStreamCreate(&stream, 0));
	ok(cuLaunchHostFunc(stream, slow_callback, (void *)&done));
	ok(cuMemsetD32Async(p, 42, 1, stream));
	ok(cuMemHostRegister_v2(&word, sizeof(word), 0));
	ok(cuMemcpyDtoHAsync_v2(&word, p, sizeof(word), stream));
	ok(cuCtxDestroy_v2(context));
	assert_int_equal(done, 1);
	assert_int_equal(word, 42);
}

static void destroying_a_context_stops_a_kernel_that_never_ends(void **state)
{
	struct fixture *f = *state;
	CUcontext context;
	CUmodule module;
	CUfunction spin;
	CUstream stream;
	CUdeviceptr p;
	void *params[] = {&p};

	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuMemsetD32_v2(p, 0, 1));
	ok(cuModuleLoadData(&module, emu_kernels));
	ok(cuModuleGetFunction(&spin, module, "spin"));
	ok(cuStreamCreate(&stream, 0));
	ok(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	assert_int_equal(cuLaunchKernel(f->spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	usleep(5000);
	ok(cuCtxDestroy_v2(context));
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

static void streams_keep_priority_flags_and_identity(void **state)
{
	unsigned long long a_id, b_id;
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	struct fixture *f = *state;
	unsigned int flags;
	CUcontext context;
	CUstream a, b;
	int priority;

	ok(cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, -100));
	ok(cuStreamCreateWithPriority(&b, CU_STREAM_DEFAULT, 3));
	ok(cuStreamGetPriority(a, &priority));
	assert_int_equal(priority, -5);
	ok(cuStreamGetPriority(b, &priority));
	assert_int_equal(priority, 0);
	ok(cuStreamGetFlags(a, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	ok(cuStreamGetId(a, &a_id));
	ok(cuStreamGetId(b, &b_id));
	assert_int_not_equal(a_id, b_id);
	ok(cuStreamGetCtx(a, &context));
	assert_ptr_equal(context, f->context);
	ok(cuStreamIsCapturing(a, &capture));
	assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(cuStreamCreate(&a, 2), CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamDestroy_v2(a));
	ok(cuStreamDestroy_v2(b));
}

/* --- many threads --- */

#define THREADS 4
#define ROUNDS 60

struct job {
	struct fixture *fixture;
	CUevent event; /* shared by all threads */
	CUresult result;
};

/* The first error of a list of calls; a thread cannot fail a test itself. */
#define step(call)                                                                                 \
	do {                                                                                       \
		if (job->result == CUDA_SUCCESS)                                                   \
			job->result = (call);                                                      \
	} while (0)

static void *job_run(void *arg)
{
	struct job *job = arg;
	struct fixture *f = job->fixture;
	uint32_t one = 1, back;
	CUstream stream;
	CUevent event;
	CUdeviceptr p;
	void *params[] = {&p, &one};

	step(cuCtxSetCurrent(f->context));
	for (int i = 0; i < ROUNDS && job->result == CUDA_SUCCESS; i++) {
		step(cuMemAlloc_v2(&p, 4));
		step(cuStreamCreate(&stream, i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
		step(cuEventCreate(&event, 0));
		step(cuMemsetD32Async(p, (unsigned int)i, 1, stream));
		step(cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		step(cuEventRecord(event, stream));
		step(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
		step(cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, params,
				    NULL));
		step(cuEventRecord(job->event, CU_STREAM_PER_THREAD));
		step(cuMemsetD8_v2(f->word, 0, 4));
		step(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		step(cuMemcpyDtoH_v2(&back, p, 4));
		step(back == (uint32_t)i + 2 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
		step(cuEventSynchronize(job->event));
		step(cuEventDestroy_v2(event));
		step(cuStreamDestroy_v2(stream));
		step(cuMemFree_v2(p));
	}
	return NULL;
}

static void many_threads_keep_their_own_order(void **state)
{
	struct job jobs[THREADS];
	pthread_t threads[THREADS];
	CUevent event;

	ok(cuEventCreate(&event, 0));
	for (int i = 0; i < THREADS; i++) {
		jobs[i] = (struct job){.fixture = *state, .event = event};
		assert_int_equal(pthread_create(&threads[i], NULL, job_run, &jobs[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ok(jobs[i].result);
	}
	ok(cuEventDestroy_v2(event));
}

static void *storm_run(void *arg)
{
	struct job *job = arg;
	CUcontext context;
	CUdeviceptr p;
	CUstream stream;

	/* any of these may fail as the context goes; none may crash or hang */
	while (cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && job->result < ROUNDS) {
		job->result++;
		cuCtxSetCurrent(context);
		if (cuMemAlloc_v2(&p, 4096) == CUDA_SUCCESS) {
			cuMemsetD8Async(p, 1, 2048, CU_STREAM_PER_THREAD);
			if (cuStreamCreate(&stream, 0) == CUDA_SUCCESS)
				cuMemsetD8Async(p + 2048, 2, 2048, stream);
			cuCtxSynchronize();
		}
		cuDevicePrimaryCtxReset(0);
	}
	cuCtxSetCurrent(NULL);
	return NULL;
}

static void a_context_reset_under_other_threads_does_no_harm(void **state)
{
	struct job jobs[THREADS];
	pthread_t threads[THREADS];
	size_t free_bytes, total;

	for (int i = 0; i < THREADS; i++) {
		jobs[i] = (struct job){.fixture = *state};
		assert_int_equal(pthread_create(&threads[i], NULL, storm_run, &jobs[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ok(cuDevicePrimaryCtxReset(0));
	ok(cuMemGetInfo_v2(&free_bytes, &total));
	/* what the fixture holds, and no more: its word and its module's variable */
	assert_true(total - free_bytes <= 4096);
}

#define in_context(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_context(a_launch_returns_before_the_kernel_ends),
		in_context(the_legacy_stream_waits_for_blocking_streams_and_blocks_them),
		in_context(a_non_blocking_stream_runs_beside_the_legacy_stream),
		in_context(the_per_thread_stream_is_a_blocking_stream),
		in_context(a_wait_keeps_to_the_record_it_saw),
		in_context(elapsed_time_is_that_between_the_records),
		in_context(a_destroyed_stream_finishes_its_work),
		in_context(a_pageable_source_may_change_after_the_call),
		in_context(host_functions_run_in_order_and_may_not_call_back),
		in_context(the_end_of_a_context_completes_its_work),
		in_context(destroying_a_context_stops_a_kernel_that_never_ends),
		in_context(streams_keep_priority_flags_and_identity),
		in_context(many_threads_keep_their_own_order),
		in_context(a_context_reset_under_other_threads_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
