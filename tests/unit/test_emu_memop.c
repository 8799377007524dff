/*
 * tests/unit/test_emu_memop.c - stream memory operations: writes, waits and their comparisons.
 */
#include <time.h>

#include "tests/unit/emu_graph_fixture.h"
#include "util/until.h"

static void writes_of_both_widths_arrive_in_order(void **state)
{
	struct fixture *f = *state;

	ok(cuStreamWriteValue32_v2(f->stream, word(f, 0), 7, 0));
	ok(cuStreamWriteValue32(f->stream, word(f, 1), 8, 0));
	ok(cuStreamWriteValue64_v2(f->stream, word(f, 2), 0x500000006ull, 0));
	add_queue(f, f->stream, 0, 1);
	assert_int_equal(word_read(f, 0), 8);
	assert_int_equal(word_read(f, 1), 8);
	assert_int_equal(word_read(f, 2), 6);
	assert_int_equal(word_read(f, 3), 5);
}

static void bad_operations_are_refused_at_once(void **state)
{
	struct fixture *f = *state;
	CUstreamBatchMemOpParams batch[257] = {0};
	uint32_t pageable = 0;

	for (size_t i = 0; i < 257; i++) {
		batch[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		batch[i].writeValue.address = word(f, 0);
		batch[i].writeValue.value = (uint32_t)i;
	}
	fails(cuStreamWriteValue32_v2(f->stream, f->words + 2, 1, 0), INVALID_VALUE);
	fails(cuStreamWriteValue64_v2(f->stream, f->words + 4, 1, 0), INVALID_VALUE);
	fails(cuStreamWriteValue32_v2(f->stream, f->words, 1, 2), INVALID_VALUE);
	fails(cuStreamWriteValue32_v2(f->stream, f->words, 1,
				      CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
	      INVALID_VALUE);
	fails(cuStreamWaitValue32_v2(f->stream, f->words, 0, CU_STREAM_WAIT_VALUE_FLUSH),
	      NOT_SUPPORTED);
	fails(cuStreamWaitValue32_v2(f->stream, f->words, 1, 4), INVALID_VALUE);
	fails(cuStreamWaitValue32_v2(f->stream, (CUdeviceptr)&pageable, 0, 0), INVALID_VALUE);
	fails(cuStreamWaitValue32_v2(f->stream, 0, 0, 0), INVALID_VALUE);
	fails(cuStreamWriteValue32_v2((CUstream)f->graph, f->words, 1, 0), INVALID_HANDLE);
	fails(cuStreamBatchMemOp_v2(f->stream, 257, batch, 0), INVALID_VALUE);
	fails(cuStreamBatchMemOp_v2(f->stream, 1, NULL, 0), INVALID_VALUE);
	fails(cuStreamBatchMemOp_v2(f->stream, 1, batch, 1), INVALID_VALUE);
	ok(cuStreamBatchMemOp_v2(f->stream, 0, NULL, 0));
	ok(cuStreamBatchMemOp_v2(f->stream, 256, batch, 0));
	assert_int_equal(word_read(f, 0), 255);
	batch[1].operation = (CUstreamBatchMemOpType)9;
	fails(cuStreamBatchMemOp(f->stream, 2, batch, 0), INVALID_VALUE);
	assert_int_equal(word_read(f, 0), 255); /* nothing of it was done */
}

static void each_comparison_passes_when_it_holds(void **state)
{
	static const struct {
		uint64_t now, value;
		unsigned int flags;
		bool wide, passes;
	} cases[] = {
		{5, 5, CU_STREAM_WAIT_VALUE_GEQ, false, true},
		{4, 5, CU_STREAM_WAIT_VALUE_GEQ, false, false},
		{1, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ, false, true}, /* it has wrapped round */
		{5, 5, CU_STREAM_WAIT_VALUE_EQ, false, true},
		{6, 5, CU_STREAM_WAIT_VALUE_EQ, false, false},
		{6, 2, CU_STREAM_WAIT_VALUE_AND, false, true},
		{6, 1, CU_STREAM_WAIT_VALUE_AND, false, false},
		{0xf0, 0x0f, CU_STREAM_WAIT_VALUE_NOR, false, true},
		{0xffff0000, 0x0000ffff, CU_STREAM_WAIT_VALUE_NOR, false, false},
		{1ull << 40, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ, true, true},
		{1ull << 40, 1ull << 41, CU_STREAM_WAIT_VALUE_GEQ, true, false},
	};
	struct fixture *f = *state;
	uint64_t *place = (uint64_t *)f->flag;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CUdeviceptr p = (CUdeviceptr)place;

		__atomic_store_n(place, cases[i].now, __ATOMIC_RELEASE);
		if (cases[i].wide)
			ok(cuStreamWaitValue64_v2(f->stream, p, cases[i].value, cases[i].flags));
		else
			ok(cuStreamWaitValue32_v2(f->stream, p, (uint32_t)cases[i].value,
						  cases[i].flags));
		if (!cases[i].passes) {
			usleep(20000);
			fails(cuStreamQuery(f->stream), NOT_READY);
			/* each of these passes with the value itself, or with none */
			__atomic_store_n(
				place,
				cases[i].flags == CU_STREAM_WAIT_VALUE_NOR ? 0 : cases[i].value,
				__ATOMIC_RELEASE);
		}
		ok(cuStreamSynchronize(f->stream));
	}
}

static void a_wait_ends_with_another_streams_write_or_a_kernels(void **state)
{
	struct fixture *f = *state;

	ok(cuStreamWaitValue32_v2(f->stream, word(f, 0), 3, CU_STREAM_WAIT_VALUE_EQ));
	add_queue(f, f->stream, 1, 1);
	usleep(10000);
	fails(cuStreamQuery(f->stream), NOT_READY);
	ok(cuStreamWriteValue32_v2(f->other, word(f, 0), 3, 0));
	assert_int_equal(word_read(f, 1), 1);
	ok(cuStreamWaitValue32_v2(f->stream, word(f, 0), 10, CU_STREAM_WAIT_VALUE_EQ));
	add_queue(f, f->other, 0, 7);
	ok(cuStreamSynchronize(f->stream));
}

static void a_waiting_stream_leaves_the_core_to_others(void **state)
{
	struct fixture *f = *state;
	int64_t began = ck_now_ms();
	struct timespec from, to;

	ok(cuStreamWaitValue32_v2(f->stream, word(f, 0), 1, CU_STREAM_WAIT_VALUE_EQ));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	usleep(200000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	assert_true((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 <
		    (ck_now_ms() - began) / 2);
	ok(cuStreamWriteValue32_v2(f->other, word(f, 0), 1, 0));
	ok(cuStreamSynchronize(f->stream));
}

static void a_wait_goes_with_its_context(void **state)
{
	struct fixture *f = *state;
	CUcontext context;
	CUdeviceptr p;
	CUstream stream;

	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuMemsetD32_v2(p, 0, 1));
	ok(cuStreamWaitValue32_v2(stream, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuCtxDestroy_v2(context));
	ok(cuCtxSetCurrent(f->context));
}

static void a_batch_is_a_node_of_a_graph(void **state)
{
	struct fixture *f = *state;
	CUstreamBatchMemOpParams operations[2] = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = {f->context, 2, operations, 0}, got;
	CUgraphNode node;

	operations[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	operations[0].writeValue.address = word(f, 0);
	operations[0].writeValue.value = 4;
	operations[1].operation = CU_STREAM_MEM_OP_BARRIER;
	ok(cuGraphAddBatchMemOpNode(&node, f->graph, NULL, 0, &params));
	operations[0].writeValue.value = 5;
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 0), 4);
	ok(cuGraphBatchMemOpNodeGetParams(node, &got));
	assert_int_equal(got.paramArray[0].writeValue.value, 4);
	ok(cuGraphBatchMemOpNodeSetParams(node, &params));
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 0), 5);
	params.count = 0;
	fails(cuGraphAddBatchMemOpNode(&node, f->graph, NULL, 0, &params), INVALID_VALUE);
}

static void the_device_says_that_they_work(void **state)
{
	static const CUdevice_attribute attributes[] = {
		CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
		CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
	};
	int value;

	(void)state;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		ok(cuDeviceGetAttribute(&value, attributes[i], 0));
		assert_int_equal(value, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_of_both_widths_arrive_in_order),
		TEST(bad_operations_are_refused_at_once),
		TEST(each_comparison_passes_when_it_holds),
		TEST(a_wait_ends_with_another_streams_write_or_a_kernels),
		TEST(a_waiting_stream_leaves_the_core_to_others),
		TEST(a_wait_goes_with_its_context),
		TEST(a_batch_is_a_node_of_a_graph),
		TEST(the_device_says_that_they_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
