/*
 * tests/unit/emu_graph_fixture.h - what the tests of graphs, capture and memory operations share.
 */
#ifndef CK_TESTS_EMU_GRAPH_FIXTURE_H
#define CK_TESTS_EMU_GRAPH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/core/emu_api.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define fails(call, error) assert_int_equal(call, CUDA_ERROR_##error)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* count(p, handle): --*p, and cudaGraphSetConditional(handle, *p). */
static const char condition_kernels[] =
	EMU_PTX_HEAD ".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
		     ".visible .entry count(.param .u64 p, .param .u64 handle)\n"
		     "{\n"
		     "	.reg .b64 %rd<3>;\n"
		     "	.reg .b32 %r<3>;\n"
		     "	ld.param.u64 %rd1, [p];\n"
		     "	ld.param.u64 %rd2, [handle];\n"
		     "	ld.global.u32 %r1, [%rd1];\n"
		     "	sub.s32 %r2, %r1, 1;\n"
		     "	st.global.u32 [%rd1], %r2;\n"
		     "	{\n"
		     "	.param .b64 param0;\n"
		     "	st.param.b64 [param0+0], %rd2;\n"
		     "	.param .b32 param1;\n"
		     "	st.param.b32 [param1+0], %r2;\n"
		     "	call.uni cudaGraphSetConditional, (param0, param1);\n"
		     "	}\n"
		     "	ret;\n"
		     "}\n";

/* A context with the kernels, streams, a graph, and words of device memory, which are 0. */
struct fixture {
	CUcontext context;
	CUmodule module;
	CUfunction spin, add, store, nothing;
	CUstream stream, other; /* neither waits for the legacy stream */
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
	    cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING) ||
	    cuStreamCreate(&f->other, CU_STREAM_NON_BLOCKING) || cuGraphCreate(&f->graph, 0) ||
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

static __attribute__((unused)) CUdeviceptr word(struct fixture *f, int i)
{
	return f->words + 4 * (CUdeviceptr)i;
}

static __attribute__((unused)) uint32_t word_read(struct fixture *f, int i)
{
	uint32_t value = 99;

	ok(cuMemcpyDtoHAsync_v2(&value, word(f, i), 4, f->stream));
	ok(cuStreamSynchronize(f->stream));
	return value;
}

/* Queue an addition to word @i. */
static __attribute__((unused)) void add_queue(struct fixture *f, CUstream stream, int i,
					      uint32_t value)
{
	CUdeviceptr p = word(f, i);
	void *args[] = {&p, &value};

	ok(cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

/* A node that adds @value to, or stores it in, word @i. */
static __attribute__((unused)) CUgraphNode node_add(struct fixture *f, CUgraph graph,
						    CUfunction function, int i, uint32_t value,
						    CUgraphNode before)
{
	CUdeviceptr p = word(f, i);
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

/* Instantiate, launch once, wait, destroy. */
static __attribute__((unused)) void graph_run(struct fixture *f, CUgraph graph)
{
	CUgraphExec exec;

	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuStreamSynchronize(f->stream));
}

#endif
