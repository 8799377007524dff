/*
 * tests/unit/test_emu_graph.c - graphs of the emulated driver: nodes, edges, instances, launches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/emu_api.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)

/* A context with the kernels, a stream, a graph, and words of device memory, which are 0. */
struct fixture {
	CUcontext context;
	CUmodule module;
	CUfunction spin, add, store, nothing;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr words;
	uint32_t *flag; /* pinned, 0 */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || cuInit(0) || cuCtxCreate_v2(&f->context, 0, 0) ||
	    cuModuleLoadData(&f->module, emu_kernels) ||
	    cuModuleGetFunction(&f->spin, f->module, "spin") ||
	    cuModuleGetFunction(&f->add, f->module, "add") ||
	    cuModuleGetFunction(&f->store, f->module, "store") ||
	    cuModuleGetFunction(&f->nothing, f->module, "nothing") ||
	    cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING) || cuGraphCreate(&f->graph, 0) ||
	    cuMemAlloc_v2(&f->words, 64) || cuMemsetD32_v2(f->words, 0, 16) ||
	    cuMemHostAlloc((void **)&f->flag, 4096, 0) || cuCtxSynchronize())
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int failed = cuGraphDestroy(f->graph) || cuCtxDestroy_v2(f->context);

	free(f);
	return -failed;
}

static uint32_t word_read(struct fixture *f, int i)
{
	uint32_t value = 99;

	ok(cuMemcpyDtoHAsync_v2(&value, f->words + 4 * (CUdeviceptr)i, 4, f->stream));
	ok(cuStreamSynchronize(f->stream));
	return value;
}

/* A node that adds @value to, or stores it in, word @i. */
static CUgraphNode kernel_node(struct fixture *f, CUgraph graph, CUfunction function, int i,
			       uint32_t value, CUgraphNode before)
{
	CUdeviceptr p = f->words + 4 * (CUdeviceptr)i;
	void *args[] = {&p, &value};
	CUDA_KERNEL_NODE_PARAMS params = {.func = function,
					  .gridDimX = 1,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 1,
					  .blockDimY = 1,
					  .blockDimZ = 1,
					  .kernelParams = args};
	CUgraphNode node;

	ok(cuGraphAddKernelNode_v2(&node, graph, &before, before ? 1 : 0, &params));
	return node;
}

static void launch(struct fixture *f, CUgraphExec exec)
{
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuStreamSynchronize(f->stream));
}

static void a_launch_runs_nodes_in_the_order_of_their_edges(void **state)
{
	struct fixture *f = *state;
	CUgraphNode add, store;
	CUgraphExec exec;

	add = kernel_node(f, f->graph, f->add, 0, 3, NULL);
	store = kernel_node(f, f->graph, f->store, 0, 10, NULL);
	ok(cuGraphAddDependencies(f->graph, &store, &add, 1));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	launch(f, exec);
	assert_int_equal(word_read(f, 0), 13);
	launch(f, exec);
	assert_int_equal(word_read(f, 0), 13);
	ok(cuGraphExecDestroy(exec));
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuGraphLaunch(exec, f->stream), CUDA_ERROR_INVALID_HANDLE);
}

static void a_captured_stream_becomes_a_graph(void **state)
{
	struct fixture *f = *state;
	uint32_t value = 4;
	void *args[] = {&f->words, &value};
	CUstreamCaptureStatus status;
	CUgraphExec exec;
	CUgraph graph;
	size_t count;

	ok(cuStreamBeginCapture_v2(f->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuStreamIsCapturing(f->stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuMemsetD32Async(f->words, 1, 1, f->stream));
	ok(cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 1, 0, f->stream, args, NULL));
	ok(cuMemcpyDtoDAsync_v2(f->words + 4, f->words, 4, f->stream));
	ok(cuStreamEndCapture(f->stream, &graph));
	assert_int_equal(word_read(f, 0), 0);
	ok(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 3);
	ok(cuGraphGetEdges(graph, NULL, NULL, &count));
	assert_int_equal(count, 2);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	launch(f, exec);
	assert_int_equal(word_read(f, 1), 5);
	ok(cuGraphExecDestroy(exec));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_launch_runs_nodes_in_the_order_of_their_edges),
		TEST(a_captured_stream_becomes_a_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
