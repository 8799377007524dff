/*
 * tests/unit/test_client_launch.c - launches: what is refused at once, and what is sent.
 *
 * Kernels are those of tests/data/elf: mixed_args has parameters at 0, 8, 12, 16 and 40, of 8, 4,
 * 1, 24 and 2 bytes; bounded has at most 192 threads and 132 bytes of shared memory.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"

#define DEFAULT_SHARED 49152
#define BOUNDED_SHARED 132

static CUmodule module;
static CUfunction mixed, bounded, no_args;

/* --- the driver's answers */

static int driver_max_threads = 192, driver_max_shared = DEFAULT_SHARED - BOUNDED_SHARED;
static int (*driver_blocks)(int block, size_t shared);

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_cuFuncGetAttribute) {
		const cuFuncGetAttribute_args *args = m->args;
		cuFuncGetAttribute_res *r = res;

		r->pi = args->attrib == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? driver_max_threads
										: driver_max_shared;
	} else if (m->number == CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessor) {
		const cuOccupancyMaxActiveBlocksPerMultiprocessor_args *args = m->args;

		((cuOccupancyMaxActiveBlocksPerMultiprocessor_res *)res)->numBlocks =
			driver_blocks(args->blockSize, args->dynamicSMemSize);
	} else if (m->number == CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) {
		const cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_args *args = m->args;

		((cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_res *)res)->numBlocks =
			driver_blocks(args->blockSize, args->dynamicSMemSize);
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	struct elf_data data;
	CUresult err;

	peer.call = answer;
	if (peer_begin(state) < 0)
		return -1;
	data = elf_data_read("sm_90.cubin");
	err = cuModuleLoadData(&module, data.bytes);
	elf_data_free(&data);
	if (!err)
		err = cuModuleGetFunction(&mixed, module, "mixed_args");
	if (!err)
		err = cuModuleGetFunction(&bounded, module, "bounded");
	if (!err)
		err = cuModuleGetFunction(&no_args, module, "no_args");
	return (int)err;
}

static int end(void **state)
{
	cuModuleUnload(module);
	return peer_end(state);
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	ckc_cache_clear();
	return 0;
}

static const ck_launch_args *only_launch(void)
{
	assert_int_equal(peer_count(CK_PROC_launch), 1);
	return peer_args(CK_PROC_launch, 0);
}

static void assert_nothing_launched(void)
{
	assert_int_equal(peer_count(CK_PROC_launch), 0);
}

/* --- parameters */

static const unsigned char block[42] = {
	1,  2,	3,  4,	5,  6,	7,  8,				    /* pointer */
	11, 12, 13, 14,						    /* int */
	21, 0,	0,  0,						    /* char, a gap */
	31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,		    /* struct of 24 */
	42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 61, 62, /* and a short */
};

/* Where an application keeps its arguments: apart from each other. */
struct arguments {
	unsigned char bytes[5][32];
	void *params[5];
};

static void arguments_init(struct arguments *a)
{
	static const unsigned char at[5] = {0, 8, 12, 16, 40}, size[5] = {8, 4, 1, 24, 2};

	memset(a, 0xff, sizeof(*a));
	for (int i = 0; i < 5; i++) {
		memcpy(a->bytes[i], block + at[i], size[i]);
		a->params[i] = a->bytes[i];
	}
}

/* Leave no zeros where the next call has its local variables. */
static void __attribute__((noinline)) fill_the_stack(void)
{
	volatile unsigned char bytes[128 << 10];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0xdd;
}

static CUresult launch(CUfunction f, unsigned int threads, unsigned int shared, void **params,
		       void **extra)
{
	return cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, shared, NULL, params, extra);
}

static void parameters_are_packed_and_gaps_are_zero(void **state)
{
	const ck_launch_args *sent;
	struct arguments a;

	(void)state;
	arguments_init(&a);
	fill_the_stack();
	assert_int_equal(cuLaunchKernel(mixed, 2, 3, 4, 5, 6, 7, 8, NULL, a.params, NULL),
			 CUDA_SUCCESS);
	memset(&a, 0xee, sizeof(a)); /* taken over at the call */
	sent = only_launch();
	assert_int_equal(sent->params.params_len, sizeof(block));
	assert_memory_equal(sent->params.params_val, block, sizeof(block));
	assert_int_equal(sent->attributes.attributes_len, 0);
	assert_int_equal(sent->function, ((struct ck_function *)mixed)->object.id);
	assert_int_equal(sent->head.ctx, ckc_context_current()->object.id);
	assert_int_equal(sent->stream, 0);
	assert_true(sent->gx == 2 && sent->gy == 3 && sent->gz == 4);
	assert_true(sent->bx == 5 && sent->by == 6 && sent->bz == 7 && sent->shared == 8);
}

static void a_parameter_that_is_missing_is_refused(void **state)
{
	struct arguments a;

	(void)state;
	for (int i = 0; i < 5; i++) {
		arguments_init(&a);
		a.params[i] = NULL;
		assert_int_equal(launch(mixed, 1, 0, a.params, NULL), CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(launch(mixed, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_nothing_launched();
}

static void a_kernel_without_parameters_needs_no_list(void **state)
{
	(void)state;
	assert_int_equal(launch(no_args, 1, 0, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(only_launch()->params.params_len, 0);
}

static void extra_gives_the_block_in_either_order(void **state)
{
	size_t size = sizeof(block);
	void *bytes = (void *)(uintptr_t)block;
	void *forms[2][5] = {
		{CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
		 CU_LAUNCH_PARAM_END},
		{CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, bytes,
		 CU_LAUNCH_PARAM_END},
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const ck_launch_args *sent;

		assert_int_equal(launch(mixed, 1, 0, NULL, forms[i]), CUDA_SUCCESS);
		sent = only_launch();
		assert_int_equal(sent->params.params_len, sizeof(block));
		assert_memory_equal(sent->params.params_val, block, sizeof(block));
		peer_clear();
	}
}

static void extra_that_makes_no_sense_is_refused(void **state)
{
	size_t size = 8, large = CK_KERNEL_PARAM_MAX + 5;
	void *bytes = (void *)(uintptr_t)block;
	void *unknown[] = {(void *)7, bytes, CU_LAUNCH_PARAM_END};
	void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, NULL,
			   CU_LAUNCH_PARAM_END};
	void *no_bytes[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	void *too_large[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE,
			     &large, CU_LAUNCH_PARAM_END};
	void **bad[] = {unknown, no_size, no_bytes, too_large};
	struct arguments a;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		assert_int_equal(launch(mixed, 1, 0, NULL, bad[i]), CUDA_ERROR_INVALID_VALUE);
	arguments_init(&a);
	assert_int_equal(launch(mixed, 1, 0, a.params, too_large), CUDA_ERROR_INVALID_VALUE);
	assert_nothing_launched();
}

/* --- what is refused at once */

static void bad_dimensions_are_refused_and_the_largest_are_not(void **state)
{
	static const unsigned int bad[][6] = {
		{0, 1, 1, 1, 1, 1},	      {1, 0, 1, 1, 1, 1},
		{1, 1, 0, 1, 1, 1},	      {1, 1, 1, 0, 1, 1},
		{1, 1, 1, 1, 0, 1},	      {1, 1, 1, 1, 1, 0},
		{0x80000000u, 1, 1, 1, 1, 1}, {1, 65536, 1, 1, 1, 1},
		{1, 1, 65536, 1, 1, 1},	      {1, 1, 1, 1025, 1, 1},
		{1, 1, 1, 1, 1025, 1},	      {1, 1, 1, 1, 1, 65},
		{1, 1, 1, 32, 33, 1},	      {1, 1, 1, 1024, 1024, 64},
		{1, 1, 1, 0xffffffffu, 1, 1}, {0xffffffffu, 1, 1, 1, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++) {
		const unsigned int *d = bad[i];

		assert_int_equal(cuLaunchKernel(no_args, d[0], d[1], d[2], d[3], d[4], d[5], 0,
						NULL, NULL, NULL),
				 CUDA_ERROR_INVALID_VALUE);
	}
	assert_nothing_launched();
	assert_int_equal(
		cuLaunchKernel(no_args, 0x7fffffff, 65535, 65535, 1, 1, 64, 0, NULL, NULL, NULL),
		CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
}

static void bad_handles_and_no_context_are_refused(void **state)
{
	CUcontext context;
	CUstream gone;

	(void)state;
	assert_int_equal(launch(NULL, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch((CUfunction)module, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch((CUfunction)&module, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLaunchKernelEx(NULL, no_args, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamCreate(&gone, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(gone), CUDA_SUCCESS);
	assert_int_equal(cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, gone, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(
		cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, (CUstream)no_args, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuCtxPopCurrent_v2(&context), CUDA_SUCCESS);
	assert_int_equal(launch(no_args, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
	assert_nothing_launched();
}

/* A module's function runs in streams of its own context, events are recorded in them. */
static void streams_of_another_context_are_refused_at_once(void **state)
{
	CUcontext other;
	CUstream here, there;
	CUevent event;

	(void)state;
	assert_int_equal(cuStreamCreate(&here, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&there, 0), CUDA_SUCCESS);
	assert_int_equal(launch(no_args, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
	assert_int_equal(cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, there, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventRecord(event, there), CUDA_ERROR_INVALID_HANDLE);
	assert_nothing_launched();
	assert_int_equal(peer_count(CK_PROC_cuEventRecord), 0);
	assert_int_equal(cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, here, NULL, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(event, here), CUDA_SUCCESS);
	assert_int_equal(cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(here), CUDA_SUCCESS);
}

static void the_stream_travels_as_its_id(void **state)
{
	CUstream s;

	(void)state;
	assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(only_launch()->stream, ((struct ckc_stream *)s)->object.id);
	peer_clear();
	assert_int_equal(cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, NULL, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(only_launch()->stream, 0);
	peer_clear();
	assert_int_equal(
		cuLaunchKernel(no_args, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL),
		CUDA_SUCCESS);
	assert_true(only_launch()->stream > 2); /* a stream of our own: made first */
	assert_int_equal(peer_count(CK_PROC_cuStreamCreateWithPriority), 1);
	assert_int_equal(cuStreamDestroy_v2(s), CUDA_SUCCESS);
}

static void a_function_is_announced_once_and_before_its_launch(void **state)
{
	const ck_function_args *announced;
	CUfunction f;

	(void)state;
	assert_int_equal(cuModuleGetFunction(&f, module, "_Z9templatedIdEvPT_S0_"), CUDA_SUCCESS);
	peer_clear();
	for (int i = 0; i < 3; i++) {
		double value = 1;
		void *to = NULL, *params[] = {&to, &value};

		assert_int_equal(launch(f, 1, 0, params, NULL), CUDA_SUCCESS);
	}
	assert_int_equal(peer_count(CK_PROC_function), 1);
	assert_int_equal(peer_count(CK_PROC_launch), 3);
	announced = peer_args(CK_PROC_function, 0);
	assert_string_equal(announced->name, "_Z9templatedIdEvPT_S0_");
	assert_int_equal(announced->module, ((struct ckc_module *)module)->object.id);
	assert_int_equal(announced->head.seq + 1,
			 ((ck_launch_args *)peer_args(CK_PROC_launch, 0))->head.seq);
}

static void too_many_threads_for_the_kernel_ask_the_driver_once(void **state)
{
	void *params[2];
	uint64_t p[2] = {0};

	(void)state;
	params[0] = &p[0];
	params[1] = &p[1];
	assert_int_equal(launch(bounded, 192, 0, params, NULL), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(launch(bounded, 193, 0, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 1);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
	ckc_cache_clear();
	driver_max_threads = 200; /* its word counts, not the image's */
	assert_int_equal(launch(bounded, 200, 0, params, NULL), CUDA_SUCCESS);
	driver_max_threads = 192;
}

static void too_many_registers_are_another_error(void **state)
{
	(void)state;
	driver_max_threads = 256;
	assert_int_equal(launch(no_args, 1024, 0, NULL, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	assert_nothing_launched();
	ckc_cache_clear();
	driver_max_threads = 1024;
	assert_int_equal(launch(no_args, 1024, 0, NULL, NULL), CUDA_SUCCESS);
	driver_max_threads = 192;
}

static void too_much_shared_memory_asks_the_driver_once_and_is_refused(void **state)
{
	static const unsigned int too_much[] = {DEFAULT_SHARED - BOUNDED_SHARED + 1,
						100000,
						0x7fffffff,
						0x80000000,
						0xffffffff - 100,
						0xffffffff};
	uint64_t p[2] = {0};
	void *params[] = {&p[0], &p[1]};

	(void)state;
	assert_int_equal(launch(bounded, 1, DEFAULT_SHARED - BOUNDED_SHARED, params, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(too_much); i++)
		assert_int_equal(launch(bounded, 1, too_much[i], params, NULL),
				 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 1);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
}

static CUresult allow_shared(int size)
{
	return cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size);
}

static void shared_memory_that_was_asked_for_is_allowed_without_a_question(void **state)
{
	uint64_t p[2] = {0};
	void *params[] = {&p[0], &p[1]};

	(void)state;
	assert_int_equal(launch(bounded, 1, 60000, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(allow_shared(65536), CUDA_SUCCESS);
	driver_max_shared = 65536;
	peer_clear();
	assert_int_equal(launch(bounded, 1, 65536, params, NULL), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 0);
	assert_int_equal(launch(bounded, 1, 65537, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(bounded, 1, 0x80000000u, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
	/* the same again stays here */
	assert_int_equal(allow_shared(65536), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuFuncSetAttribute), 0);
}

/* --- attributes */

static CUresult launch_with(CUlaunchAttribute *attributes, unsigned int count)
{
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = attributes,
				 .numAttrs = count};

	return cuLaunchKernelEx(&config, no_args, NULL, NULL);
}

static void attributes_travel_with_ids_in_place_of_events(void **state)
{
	CUlaunchAttribute given[] = {{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
				     {.id = CU_LAUNCH_ATTRIBUTE_IGNORE},
				     {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT},
				     {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT}};
	CUlaunchAttribute sent[4], was[4];
	const ck_launch_args *args;
	CUevent event;

	(void)state;
	assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	given[0].value.clusterDim.x = given[0].value.clusterDim.y = 1;
	given[0].value.clusterDim.z = 1;
	given[2].value.programmaticEvent.event = event;
	given[2].value.programmaticEvent.triggerAtBlockStart = 1;
	given[3].value.launchCompletionEvent.event = event;
	memcpy(was, given, sizeof(was));
	assert_int_equal(launch_with(given, 4), CUDA_SUCCESS);
	assert_memory_equal(given, was, sizeof(was)); /* the caller's own are not changed */
	args = only_launch();
	assert_int_equal(args->attributes.attributes_len, 3 * sizeof(sent[0]));
	memcpy(sent, args->attributes.attributes_val, 3 * sizeof(sent[0]));
	assert_memory_equal(&sent[0], &given[0], sizeof(sent[0]));
	assert_int_equal(sent[1].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
	assert_int_equal((uintptr_t)sent[1].value.programmaticEvent.event,
			 ((struct ckc_event *)event)->object.id);
	assert_int_equal(sent[1].value.programmaticEvent.triggerAtBlockStart, 1);
	assert_int_equal((uintptr_t)sent[2].value.launchCompletionEvent.event,
			 ((struct ckc_event *)event)->object.id);
	assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
	given[2].value.programmaticEvent.event = event;
	assert_int_equal(launch_with(given, 4), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
}

static void clusters_that_cannot_be_are_refused_at_once(void **state)
{
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};

	(void)state;
	/* the grid is of one block */
	cluster.value.clusterDim.x = 2;
	cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
	assert_int_equal(launch_with(&cluster, 1), CUDA_ERROR_INVALID_VALUE);
	cluster.value.clusterDim.x = 1;
	cluster.value.clusterDim.z = 0;
	assert_int_equal(launch_with(&cluster, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_launch), 0);
	/* none of the three: nothing is asked for */
	cluster.value.clusterDim.x = cluster.value.clusterDim.y = 0;
	assert_int_equal(launch_with(&cluster, 1), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_launch), 1);
}

static void lists_of_attributes_are_bounded(void **state)
{
	static CUlaunchAttribute many[65];

	(void)state;
	for (int i = 0; i < 65; i++)
		many[i].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	assert_int_equal(launch_with(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch_with(many, 65), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch_with(many, ~0u), CUDA_ERROR_INVALID_VALUE);
	assert_nothing_launched();
	assert_int_equal(launch_with(many, 64), CUDA_SUCCESS);
	assert_int_equal(only_launch()->attributes.attributes_len, 64 * sizeof(many[0]));
}

/* --- occupancy */

static int two_blocks(int threads, size_t shared)
{
	(void)threads;
	(void)shared;
	return 2;
}

static CUresult cooperative(unsigned int blocks)
{
	return cuLaunchCooperativeKernel(no_args, blocks, 1, 1, 64, 1, 1, 0, NULL, NULL);
}

static void a_cooperative_launch_must_fit_on_the_device(void **state)
{
	CUlaunchAttribute sent;
	const ck_launch_args *args;

	(void)state;
	driver_blocks = two_blocks;
	assert_int_equal(cooperative(13), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_int_equal(cooperative(0), CUDA_ERROR_INVALID_VALUE);
	assert_nothing_launched();
	assert_int_equal(cooperative(12), CUDA_SUCCESS); /* two on each of six */
	args = only_launch();
	assert_int_equal(args->attributes.attributes_len, sizeof(sent));
	memcpy(&sent, args->attributes.attributes_val, sizeof(sent));
	assert_int_equal(sent.id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
	assert_int_equal(sent.value.cooperative, 1);
	assert_int_equal(peer_count(CK_PROC_cuOccupancyMaxActiveBlocksPerMultiprocessor), 1);
	assert_int_equal(
		cuLaunchCooperativeKernel(no_args, 65536, 65535, 65535, 64, 1, 1, 0, NULL, NULL),
		CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_int_equal(
		cuLaunchCooperativeKernel((CUfunction)module, 1, 1, 1, 64, 1, 1, 0, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
}

/* 32 KiB of shared memory and 1536 threads a multiprocessor */
static int by_resources(int threads, size_t shared)
{
	int by_threads = 1536 / threads, by_shared = shared ? (int)(32768 / shared) : 32;

	return by_threads < by_shared ? by_threads : by_shared;
}

static size_t shared_for(int threads)
{
	return (size_t)threads * 64;
}

static void the_best_block_fills_the_device(void **state)
{
	int grid, size;

	(void)state;
	driver_blocks = by_resources;
	driver_max_threads = 1024;
	assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &size, no_args, NULL, 0, 0),
			 CUDA_SUCCESS);
	assert_int_equal(size, 768); /* the largest that gives 1536 threads */
	assert_int_equal(grid, 2 * 6);
	assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &size, no_args, NULL, 0, 100),
			 CUDA_SUCCESS);
	assert_int_equal(size, 96);
	assert_int_equal(grid, 16 * 6);
	assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &size, no_args, shared_for, 0, 0),
			 CUDA_SUCCESS);
	assert_int_equal(size, 512); /* shared memory is for 512 threads */
	assert_int_equal(grid, 6);
	assert_int_equal(cuOccupancyMaxPotentialBlockSize(NULL, &size, no_args, NULL, 0, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &size, NULL, NULL, 0, 0),
			 CUDA_ERROR_INVALID_HANDLE);
	driver_max_threads = 192;
}

#define launch_test(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_test(parameters_are_packed_and_gaps_are_zero),
		launch_test(a_parameter_that_is_missing_is_refused),
		launch_test(a_kernel_without_parameters_needs_no_list),
		launch_test(extra_gives_the_block_in_either_order),
		launch_test(extra_that_makes_no_sense_is_refused),
		launch_test(bad_dimensions_are_refused_and_the_largest_are_not),
		launch_test(bad_handles_and_no_context_are_refused),
		launch_test(streams_of_another_context_are_refused_at_once),
		launch_test(the_stream_travels_as_its_id),
		launch_test(a_function_is_announced_once_and_before_its_launch),
		launch_test(too_many_threads_for_the_kernel_ask_the_driver_once),
		launch_test(too_many_registers_are_another_error),
		launch_test(too_much_shared_memory_asks_the_driver_once_and_is_refused),
		launch_test(shared_memory_that_was_asked_for_is_allowed_without_a_question),
		launch_test(attributes_travel_with_ids_in_place_of_events),
		launch_test(clusters_that_cannot_be_are_refused_at_once),
		launch_test(lists_of_attributes_are_bounded),
		launch_test(a_cooperative_launch_must_fit_on_the_device),
		launch_test(the_best_block_fills_the_device),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
