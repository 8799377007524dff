/*
 * tests/test_apps/bystanders.c - what goes on beside something that it has nothing to do with: a
 * function of one graph and the memory of another, pages that a function and a thread access,
 * a capture and the pages of another context, or an event of before it, the end of a context and a
 * graph of another.
 *
 * What holds a stream up is a function that sleeps, or waits.
 */
#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice))                                   \
	X(cuCtxDestroy_v2, (CUcontext))                                                            \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *))                                          \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                         \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                     \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                           \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                               \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))               \
	X(cuGraphLaunch, (CUgraphExec, CUstream))                                                  \
	X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test_apps/driver_api.h"

#define SIZE ((size_t)100000)
#define SLEEP_US 300000

static CUcontext first;
static unsigned char memory[SIZE];
static _Atomic int ran;
static atomic_bool is_held;

static void check(CUresult err, int line)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bystanders.c:%d: error %d\n", line, (int)err);
	exit(1);
}
#define CHECK(call) check(call, __LINE__)

static size_t count(const unsigned char *bytes, unsigned char value)
{
	size_t n = 0;

	for (size_t i = 0; i < SIZE; i++)
		n += bytes[i] == value;
	return n;
}

static void quick(void *unused)
{
	(void)unused;
	ran++;
}

static void slow(void *unused)
{
	(void)unused;
	usleep(SLEEP_US);
	ran++;
}

static void hold(void *unused)
{
	(void)unused;
	while (is_held)
		usleep(1000);
}

static CUstream new_stream(void)
{
	CUstream stream;

	CHECK(cu.cuStreamCreate(&stream, 0));
	return stream;
}

static CUgraphExec end_capture(CUstream stream)
{
	CUgraph graph;
	CUgraphExec exec;

	CHECK(cu.cuStreamEndCapture(stream, &graph));
	CHECK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* A graph has brought bytes to the host, which has changed them since; another graph has a
 * function. */
static void function_and_memory(void)
{
	CUstream stream = new_stream();
	CUgraphExec fetch, call;
	CUdeviceptr d;

	CHECK(cu.cuMemAlloc_v2(&d, SIZE));
	CHECK(cu.cuMemsetD8Async(d, 1, SIZE, stream));
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cu.cuMemcpyDtoHAsync_v2(memory, d, SIZE, stream));
	fetch = end_capture(stream);
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cu.cuLaunchHostFunc(stream, quick, NULL));
	call = end_capture(stream);
	CHECK(cu.cuGraphLaunch(fetch, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	printf("fetched: %zu\n", count(memory, 1));
	memset(memory, 2, SIZE);
	CHECK(cu.cuGraphLaunch(call, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	printf("kept: %zu\n", count(memory, 2));
	CHECK(cu.cuMemFree_v2(d));
}

static unsigned char *new_managed(CUstream stream, unsigned char value)
{
	CUdeviceptr m;

	CHECK(cu.cuMemAllocManaged(&m, SIZE, CU_MEM_ATTACH_GLOBAL));
	CHECK(cu.cuMemsetD8Async(m, value, SIZE, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	return (unsigned char *)(uintptr_t)m;
}

static void slow_count(void *managed)
{
	slow(NULL);
	printf("in the function: %zu\n", count(managed, 3));
}

/* The thread's access comes first, and that of the function while it is served. */
static void pages_in_function(void)
{
	CUstream stream = new_stream();
	unsigned char *theirs = new_managed(stream, 3), *ours = new_managed(stream, 4);
	size_t n;

	CHECK(cu.cuLaunchHostFunc(stream, slow_count, theirs));
	n = count(ours, 4);
	CHECK(cu.cuStreamSynchronize(stream));
	printf("in the thread: %zu\n", n);
}

static void *use_pages(void *context)
{
	CUstream stream;
	unsigned char *managed;

	CHECK(cu.cuCtxSetCurrent(context));
	stream = new_stream();
	managed = new_managed(stream, 5);
	printf("during the capture: %zu\n", count(managed, 5));
	return NULL;
}

static void pages_and_capture(CUcontext second)
{
	CUstream stream = new_stream();
	CUgraphExec exec;
	CUdeviceptr d;
	pthread_t thread;

	CHECK(cu.cuMemAlloc_v2(&d, SIZE));
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(cu.cuMemsetD8Async(d, 6, SIZE, stream));
	pthread_create(&thread, NULL, use_pages, second);
	pthread_join(thread, NULL);
	exec = end_capture(stream);
	CHECK(cu.cuGraphLaunch(exec, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	CHECK(cu.cuMemcpyDtoH_v2(memory, d, SIZE));
	printf("captured: %zu\n", count(memory, 6));
}

/* A graph that copies from the host, and then has a function. */
static void launch_copy(CUstream stream, CUdeviceptr d, CUhostFn function)
{
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cu.cuMemcpyHtoDAsync_v2(d, memory, SIZE, stream));
	CHECK(cu.cuLaunchHostFunc(stream, function, NULL));
	CHECK(cu.cuGraphLaunch(end_capture(stream), stream));
}

static void end_of_context(CUcontext second)
{
	CUstream stream = new_stream();
	CUdeviceptr d, theirs;

	CHECK(cu.cuMemAlloc_v2(&d, SIZE));
	CHECK(cu.cuCtxSetCurrent(second));
	CHECK(cu.cuMemAlloc_v2(&theirs, SIZE));
	launch_copy(new_stream(), theirs, quick);
	CHECK(cu.cuCtxSynchronize());
	CHECK(cu.cuCtxSetCurrent(first));
	ran = 0;
	launch_copy(stream, d, slow);
	CHECK(cu.cuCtxDestroy_v2(second));
	CHECK(cu.cuStreamSynchronize(stream));
	printf("ran: %d\n", ran);
}

static CUfunction nothing;

/* The first launch may wait for functions. */
static void load_kernel(void)
{
	CUmodule module;

	CHECK(cu.cuModuleLoadData(&module, ".version 7.0\n.target sm_75\n.address_size 64\n"
					   ".visible .entry nothing()\n{\n	ret;\n}\n"));
	CHECK(cu.cuModuleGetFunction(&nothing, module, "nothing"));
	CHECK(cu.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cu.cuCtxSynchronize());
}

static void record(CUevent event, CUstream stream)
{
	CHECK(cu.cuEventRecord(event, stream));
}

/* The event that a kernel records in its stream when it has been launched. */
static void record_by_launch(CUevent event, CUstream stream)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};

	attribute.value.launchCompletionEvent.event = event;
	CHECK(cu.cuLaunchKernelEx(&config, nothing, NULL, NULL));
}

/* The program has asked for an event that is not over, and records it in a capture. */
static void event_and_capture(void (*record_event)(CUevent, CUstream))
{
	CUstream busy = new_stream(), stream = new_stream();
	CUgraph graph;
	CUevent event;
	CUdeviceptr d;

	CHECK(cu.cuMemAlloc_v2(&d, SIZE));
	CHECK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	is_held = true;
	CHECK(cu.cuLaunchHostFunc(busy, hold, NULL));
	CHECK(cu.cuEventRecord(event, busy));
	while (cu.cuEventQuery(event) != CUDA_ERROR_NOT_READY)
		;
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CHECK(cu.cuMemsetD8Async(d, 6, SIZE, stream));
	record_event(event, stream);
	usleep(SLEEP_US / 6);
	printf("captured with an event: %d\n", (int)cu.cuStreamEndCapture(stream, &graph));
	is_held = false;
	CHECK(cu.cuStreamSynchronize(busy));
}

int main(void)
{
	CUcontext second;
	CUdevice device;

	if (driver_open() < 0)
		return 1;
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGet(&device, 0));
	CHECK(cu.cuCtxCreate_v2(&second, 0, device));
	CHECK(cu.cuDevicePrimaryCtxRetain(&first, device));
	CHECK(cu.cuCtxSetCurrent(first));
	function_and_memory();
	pages_in_function();
	pages_and_capture(second);
	load_kernel();
	event_and_capture(record);
	event_and_capture(record_by_launch);
	end_of_context(second);
	return 0;
}
