/*
 * tests/test_apps/graph_threads.c - threads whose graphs and nodes end while those of other threads
 * begin: each thread has graphs of its own, and keeps them. With an argument: a graph that is to be
 * destroyed while a stream is captured into it.
 */
#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuGraphCreate, (CUgraph *, unsigned int))                                                \
	X(cuGraphDestroy, (CUgraph))                                                               \
	X(cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t))              \
	X(cuGraphDestroyNode, (CUgraphNode))                                                       \
	X(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *))                                     \
	X(cuGraphNodeGetType, (CUgraphNode, CUgraphNodeType *))                                    \
	X(cuStreamBeginCaptureToGraph, (CUstream, CUgraph, const CUgraphNode *,                    \
					const CUgraphEdgeData *, size_t, CUstreamCaptureMode))     \
	X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                         \
	X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int))                                    \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                               \
	X(cuStreamGetCaptureInfo_v2, (CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,  \
				      const CUgraphNode **, size_t *))
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/test_apps/driver_api.h"

#define THREADS 4
#define ROUNDS 1000

static CUcontext context;
static _Atomic int wrong;

static void check(CUresult err, int line)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "graph_threads.c:%d: error %d\n", line, (int)err);
	exit(1);
}
#define CHECK(call) check(call, __LINE__)

/* The only node of @graph is of @type. */
static CUgraphNode only_node(CUgraph graph, CUgraphNodeType type)
{
	CUgraphNodeType found = CU_GRAPH_NODE_TYPE_KERNEL;
	CUgraphNode node = NULL;
	size_t count = 1;

	CHECK(cu.cuGraphGetNodes(graph, &node, &count));
	if (count == 1)
		CHECK(cu.cuGraphNodeGetType(node, &found));
	wrong += count != 1 || found != type;
	return node;
}

static void *change_nodes(void *unused)
{
	CUgraphNode node;
	CUgraph graph;

	CHECK(cu.cuCtxSetCurrent(context));
	CHECK(cu.cuGraphCreate(&graph, 0));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cu.cuGraphAddEmptyNode(&node, graph, NULL, 0));
		wrong += only_node(graph, CU_GRAPH_NODE_TYPE_EMPTY) != node;
		CHECK(cu.cuGraphDestroyNode(node));
	}
	CHECK(cu.cuGraphDestroy(graph));
	return unused;
}

/* Every second capture fails, because a stream has not joined the first one again. */
static void capture(CUstream stream, CUstream other, CUevent event, CUdeviceptr memory, bool fails)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *last;
	cuuint64_t number;
	CUgraph shown, graph;
	size_t count;
	CUresult err;

	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cu.cuMemsetD8Async(memory, 1, 64, stream));
	CHECK(cu.cuStreamGetCaptureInfo_v2(stream, &status, &number, &shown, &last, &count));
	if (fails) {
		CHECK(cu.cuEventRecord(event, stream));
		CHECK(cu.cuStreamWaitEvent(other, event, 0));
		CHECK(cu.cuMemsetD8Async(memory, 1, 64, other));
	}
	err = cu.cuStreamEndCapture(stream, &graph);
	wrong += fails ? err == CUDA_SUCCESS : err != CUDA_SUCCESS || graph != shown;
	if (err)
		return;
	only_node(graph, CU_GRAPH_NODE_TYPE_MEMSET);
	CHECK(cu.cuGraphDestroy(graph));
}

static void *capture_graphs(void *unused)
{
	CUdeviceptr memory;
	CUstream stream[2];
	CUevent event;

	CHECK(cu.cuCtxSetCurrent(context));
	CHECK(cu.cuMemAlloc_v2(&memory, 64));
	CHECK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < 2; i++)
		CHECK(cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < ROUNDS; i++)
		capture(stream[0], stream[1], event, memory, i % 2);
	return unused;
}

static void run(const char *what, void *(*routine)(void *))
{
	pthread_t threads[THREADS];

	wrong = 0;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, routine, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%s: %d wrong\n", what, wrong);
}

static void destroy_early(void)
{
	CUgraph graph, same;
	CUdeviceptr memory;
	CUstream stream;
	CUresult err;

	CHECK(cu.cuCtxSetCurrent(context));
	CHECK(cu.cuMemAlloc_v2(&memory, 64));
	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cu.cuGraphCreate(&graph, 0));
	CHECK(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
					     CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cu.cuMemsetD8Async(memory, 1, 64, stream));
	err = cu.cuGraphDestroy(graph);
	CHECK(cu.cuStreamEndCapture(stream, &same));
	only_node(graph, CU_GRAPH_NODE_TYPE_MEMSET);
	CHECK(cu.cuGraphDestroy(graph));
	printf("destroyed early: error %d, %d wrong\n", (int)err, wrong + (same != graph));
}

int main(int argc, char **argv)
{
	CUdevice device;

	if (driver_open() < 0)
		return 1;
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGet(&device, 0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&context, device));
	(void)argv;
	if (argc > 1) {
		destroy_early();
		return 0;
	}
	run("nodes", change_nodes);
	run("captures", capture_graphs);
	return 0;
}
