/*
 * tests/test_apps/waits.c - learns in one of many ways that bytes have come from the device, and
 * looks at them, again and again, while somebody cuts connections and kills workers.
 *
 * waits WAY WORDS SECONDS, or waits --list. It ends with 0 (nothing happened), 4 (a call returned
 * an error, as it should), 3 (a call succeeded although bytes are missing), or by SIGBUS.
 */
#define _GNU_SOURCE
#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))                     \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t, CUstream))                         \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                           \
	X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))                                   \
	X(cuEventSynchronize, (CUevent))                                                           \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *))                                          \
	X(cuStreamAddCallback, (CUstream, CUstreamCallback, void *, unsigned int))                 \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                               \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))               \
	X(cuGraphLaunch, (CUgraphExec, CUstream))
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/test_apps/driver_api.h"

#define LIE 3
#define ERROR 4

static size_t words, size;
static CUstream stream;
static CUevent event;
static CUdeviceptr device;
static unsigned int *pinned, *pageable, *host; /* host: where the bytes are to come */
static unsigned int now;
static _Atomic unsigned int stale; /* words that a function of ours has found missing */

static void must(CUresult err)
{
	if (err != CUDA_SUCCESS) {
		/* an error stays */
		exit(cu.cuStreamSynchronize(stream) == CUDA_SUCCESS ? LIE : ERROR);
	}
}

static unsigned int missing(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < words; i++)
		n += ((volatile unsigned int *)host)[i] != now;
	return n;
}

static void copy_later(void)
{
	must(cu.cuMemcpyDtoHAsync_v2(pinned, device, size, stream));
}

static void stream_synchronise(void)
{
	copy_later();
	must(cu.cuStreamSynchronize(stream));
}

static void context_synchronise(void)
{
	copy_later();
	must(cu.cuCtxSynchronize());
}

static void event_synchronise(void)
{
	copy_later();
	must(cu.cuEventRecord(event, stream));
	must(cu.cuEventSynchronize(event));
}

static void stream_query(void)
{
	CUresult err;

	copy_later();
	while ((err = cu.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		;
	must(err);
}

static void event_query(void)
{
	CUresult err;

	copy_later();
	must(cu.cuEventRecord(event, stream));
	while ((err = cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		;
	must(err);
}

static void look(void *unused)
{
	(void)unused;
	stale += missing();
}

static void look_back(CUstream s, CUresult err, void *unused)
{
	(void)s;
	(void)unused;
	if (err == CUDA_SUCCESS)
		stale += missing();
}

static void host_function(void)
{
	copy_later();
	must(cu.cuLaunchHostFunc(stream, look, NULL));
	must(cu.cuStreamSynchronize(stream));
}

static void stream_callback(void)
{
	copy_later();
	must(cu.cuStreamAddCallback(stream, look_back, NULL, 0));
	must(cu.cuStreamSynchronize(stream));
}

/* A wait for one stream covers no copy of another; that of the context does. */
static void other_stream(void)
{
	static CUstream other;

	if (!other)
		must(cu.cuStreamCreate(&other, 1));
	must(cu.cuStreamSynchronize(stream));
	must(cu.cuMemcpyDtoHAsync_v2(pinned, device, size, other));
	must(cu.cuCtxSynchronize());
}

static void copy_pinned(void)
{
	must(cu.cuMemcpyDtoH_v2(pinned, device, size));
}

static void copy_pageable(void)
{
	must(cu.cuMemcpyDtoH_v2(pageable, device, size));
}

static void copy_rows(void)
{
	const CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = device,
		.srcPitch = 256,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = pinned,
		.dstPitch = 256,
		.WidthInBytes = 256,
		.Height = size / 256,
	};

	must(cu.cuMemcpy2DAsync_v2(&rows, stream));
	must(cu.cuStreamSynchronize(stream));
}

/* Copies of graphs go by mirrors where the memory is not shared. */
static void launch(void *to, CUhostFn fn)
{
	static CUgraphExec exec;
	CUgraph graph;

	if (!exec) {
		must(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		must(cu.cuMemcpyDtoHAsync_v2(to, device, size, stream));
		if (fn)
			must(cu.cuLaunchHostFunc(stream, fn, NULL));
		must(cu.cuStreamEndCapture(stream, &graph));
		must(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	}
	must(cu.cuGraphLaunch(exec, stream));
	must(cu.cuStreamSynchronize(stream));
}

static void graph(void)
{
	launch(pinned, NULL);
}

static void graph_pageable(void)
{
	launch(pageable, NULL);
}

static void graph_function(void)
{
	launch(pinned, look);
}

static void touch(void)
{
	must(cu.cuStreamSynchronize(stream));
}

static const struct way {
	const char *name;
	void (*wait)(void);
	enum { PINNED, PAGEABLE, MANAGED, MAPPED } to;
} ways[] = {
	{"stream_synchronise", stream_synchronise, PINNED},
	{"context_synchronise", context_synchronise, PINNED},
	{"event_synchronise", event_synchronise, PINNED},
	{"stream_query", stream_query, PINNED},
	{"event_query", event_query, PINNED},
	{"host_function", host_function, PINNED},
	{"stream_callback", stream_callback, PINNED},
	{"other_stream", other_stream, PINNED},
	{"copy_pinned", copy_pinned, PINNED},
	{"copy_pageable", copy_pageable, PAGEABLE},
	{"copy_rows", copy_rows, PINNED},
	{"graph", graph, PINNED},
	{"graph_pageable", graph_pageable, PAGEABLE},
	{"graph_function", graph_function, PINNED},
	{"managed", touch, MANAGED},
	{"mapped", touch, MAPPED},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void set_up(const struct way *way)
{
	CUcontext context;
	CUdevice gpu;

	must(cu.cuInit(0));
	must(cu.cuDeviceGet(&gpu, 0));
	must(cu.cuDevicePrimaryCtxRetain(&context, gpu));
	must(cu.cuCtxSetCurrent(context));
	must(cu.cuStreamCreate(&stream, 0));
	must(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	must(cu.cuMemHostAlloc((void **)&pinned, size, 0));
	pageable = malloc(size);
	host = way->to == PAGEABLE ? pageable : pinned;
	if (way->to == MANAGED) {
		must(cu.cuMemAllocManaged(&device, size, CU_MEM_ATTACH_GLOBAL));
		host = (unsigned int *)device;
	} else if (way->to == MAPPED) {
		must(cu.cuMemHostGetDevicePointer_v2(&device, pinned, 0));
	} else {
		must(cu.cuMemAlloc_v2(&device, size));
	}
}

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int work(const struct way *way, double seconds)
{
	double end = clock_s() + seconds;
	unsigned int n;

	set_up(way);
	for (now = 1; clock_s() < end; now++) {
		must(cu.cuMemsetD32Async(device, now, words, stream));
		way->wait();
		n = stale + missing();
		if (n == 0)
			continue;
		printf("%s: success in round %u, but %u of %zu words are missing, of which a "
		       "function saw %u\n",
		       way->name, now, n, words, stale);
		return LIE;
	}
	return 0;
}

int main(int argc, char **argv)
{
	size_t i = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (i = 0; i < WAYS; i++)
			puts(ways[i].name);
		return 0;
	}
	while (argc == 4 && i < WAYS && strcmp(argv[1], ways[i].name) != 0)
		i++;
	if (argc != 4 || i == WAYS || driver_open() != 0)
		return 2;
	words = strtoul(argv[2], NULL, 10) & ~63ul;
	size = words * sizeof(unsigned int);
	return work(&ways[i], strtod(argv[3], NULL));
}
