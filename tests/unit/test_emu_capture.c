/*
 * tests/unit/test_emu_capture.c - stream capture: what becomes a node, how streams join, and what
 * is refused meanwhile.
 */
#include <pthread.h>

#include "emu/graphs/graph.h"
#include "tests/unit/emu_graph_fixture.h"

static void begin(CUstream stream)
{
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUstreamCaptureStatus status(CUstream stream)
{
	CUstreamCaptureStatus now;

	ok(cuStreamIsCapturing(stream, &now));
	return now;
}

/* End a capture that has been invalidated. */
static void end_invalidated(CUstream stream)
{
	CUgraph graph = (CUgraph)stream;

	assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	fails(cuStreamEndCapture(stream, &graph), STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

static size_t node_count(CUgraph graph)
{
	size_t count;

	ok(cuGraphGetNodes(graph, NULL, &count));
	return count;
}

static void count_up(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
}

static void callback(CUstream stream, CUresult result, void *data)
{
	(void)stream;
	(void)result;
	(void)data;
}

static void every_queued_call_becomes_a_node(void **state)
{
	static const CUgraphNodeType expected[] = {
		CU_GRAPH_NODE_TYPE_MEMSET,	 CU_GRAPH_NODE_TYPE_KERNEL,
		CU_GRAPH_NODE_TYPE_MEMCPY,	 CU_GRAPH_NODE_TYPE_MEMCPY,
		CU_GRAPH_NODE_TYPE_HOST,	 CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	};
	struct fixture *f = *state;
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .srcPitch = 8,
			      .dstPitch = 4,
			      .WidthInBytes = 4,
			      .Height = 2};
	uint32_t target[2] = {0};
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	size_t count = 8;
	CUevent event;
	CUgraph graph;
	int calls = 0;

	ok(cuEventCreate(&event, 0));
	begin(f->stream);
	ok(cuMemsetD32Async(f->words, 3, 3, f->stream));
	add_queue(f, f->stream, 0, 1);
	ok(cuMemcpyDtoDAsync_v2(word(f, 4), f->words, 4, f->stream));
	rows.srcDevice = f->words;
	rows.dstHost = target;
	ok(cuMemcpy2DAsync_v2(&rows, f->stream));
	ok(cuLaunchHostFunc(f->stream, count_up, &calls));
	ok(cuStreamWriteValue32_v2(f->stream, word(f, 5), 50, 0));
	ok(cuEventRecordWithFlags(event, f->stream, CU_EVENT_RECORD_EXTERNAL));
	ok(cuMemcpyDtoDAsync_v2(word(f, 4), f->words, 0, f->stream)); /* none of nothing */
	ok(cuMemsetD32Async(f->words, 3, 0, f->stream));
	ok(cuStreamEndCapture(f->stream, &graph));
	ok(cuGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 7);
	for (size_t i = 0; i < count; i++) {
		ok(cuGraphNodeGetType(nodes[i], &type));
		assert_int_equal(type, expected[i]);
	}
	ok(cuGraphGetEdges(graph, NULL, NULL, &count));
	assert_int_equal(count, 6);
	assert_int_equal(word_read(f, 0), 0);
	graph_run(f, graph);
	ok(cuEventSynchronize(event));
	assert_int_equal(word_read(f, 4), 4);
	assert_int_equal(word_read(f, 5), 50);
	assert_int_equal(target[0], 4);
	assert_int_equal(target[1], 3);
	assert_int_equal(calls, 1);
	ok(cuGraphDestroy(graph));
	ok(cuEventDestroy_v2(event));
}

static void streams_fork_and_join_by_events(void **state)
{
	struct fixture *f = *state;
	CUevent fork, join;
	CUgraph graph;
	size_t count;

	ok(cuEventCreate(&fork, 0));
	ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	begin(f->stream);
	ok(cuMemsetD32Async(f->words, 1, 2, f->stream));
	ok(cuEventRecord(fork, f->stream));
	ok(cuStreamWaitEvent(f->other, fork, 0));
	assert_int_equal(status(f->other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	add_queue(f, f->stream, 0, 10);
	add_queue(f, f->other, 1, 20);
	ok(cuEventRecord(join, f->other));
	ok(cuStreamWaitEvent(f->stream, join, 0));
	ok(cuMemcpyDtoDAsync_v2(word(f, 2), f->words, 8, f->stream));
	ok(cuStreamEndCapture(f->stream, &graph));
	assert_int_equal(status(f->other), CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(node_count(graph), 4);
	ok(cuGraphGetEdges(graph, NULL, NULL, &count));
	assert_int_equal(count, 4);
	graph_run(f, graph);
	assert_int_equal(word_read(f, 2), 11);
	assert_int_equal(word_read(f, 3), 21);
	/* the events are good for nothing until they are recorded again */
	fails(cuEventQuery(join), INVALID_VALUE);
	fails(cuStreamWaitEvent(f->other, join, 0), INVALID_VALUE);
	begin(f->other);
	fails(cuStreamWaitEvent(f->other, join, 0), INVALID_VALUE);
	end_invalidated(f->other);
	ok(cuEventRecord(join, f->other));
	ok(cuEventSynchronize(join));
	ok(cuGraphDestroy(graph));
	ok(cuEventDestroy_v2(fork));
	ok(cuEventDestroy_v2(join));
}

static void a_fork_that_is_not_joined_ends_the_capture_without_a_graph(void **state)
{
	struct fixture *f = *state;
	CUgraph graph = f->graph;
	CUevent fork;

	ok(cuEventCreate(&fork, 0));
	begin(f->stream);
	ok(cuEventRecord(fork, f->stream));
	ok(cuStreamWaitEvent(f->other, fork, 0));
	add_queue(f, f->other, 0, 1);
	fails(cuStreamEndCapture(f->stream, &graph), STREAM_CAPTURE_UNJOINED);
	assert_null(graph);
	assert_int_equal(status(f->other), CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(status(f->stream), CU_STREAM_CAPTURE_STATUS_NONE);
	add_queue(f, f->stream, 0, 5); /* the streams work as before */
	assert_int_equal(word_read(f, 0), 5);
	ok(cuEventDestroy_v2(fork));
}

static void a_capture_ends_in_the_stream_it_began_in(void **state)
{
	struct fixture *f = *state;
	CUgraph graph;
	CUevent fork;

	fails(cuStreamEndCapture(f->stream, &graph), ILLEGAL_STATE);
	ok(cuEventCreate(&fork, 0));
	begin(f->stream);
	fails(cuStreamBeginCapture_v2(f->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), ILLEGAL_STATE);
	ok(cuEventRecord(fork, f->stream));
	ok(cuStreamWaitEvent(f->other, fork, 0));
	fails(cuStreamEndCapture(f->other, &graph), STREAM_CAPTURE_UNMATCHED);
	assert_null(graph);
	end_invalidated(f->stream);
	begin(f->stream);
	ok(cuStreamEndCapture(f->stream, NULL)); /* nobody wants its graph */
	fails(cuStreamEndCapture(f->stream, NULL), ILLEGAL_STATE);
	ok(cuEventDestroy_v2(fork));
	fails(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	      STREAM_CAPTURE_UNSUPPORTED);
	fails(cuStreamBeginCapture_v2(f->stream, (CUstreamCaptureMode)3), INVALID_VALUE);
}

static void two_captures_do_not_merge_and_outside_work_does_not_enter(void **state)
{
	struct fixture *f = *state;
	CUevent event, outside;

	ok(cuEventCreate(&event, 0));
	ok(cuEventCreate(&outside, 0));
	ok(cuEventRecord(outside, f->other));
	begin(f->stream);
	fails(cuStreamWaitEvent(f->stream, outside, 0), STREAM_CAPTURE_ISOLATION);
	end_invalidated(f->stream);
	begin(f->stream);
	begin(f->other);
	ok(cuEventRecord(event, f->stream));
	fails(cuStreamWaitEvent(f->other, event, 0), STREAM_CAPTURE_MERGE);
	end_invalidated(f->other);
	end_invalidated(f->stream);
	ok(cuEventDestroy_v2(event));
	ok(cuEventDestroy_v2(outside));
}

static void what_is_captured_cannot_be_waited_for(void **state)
{
	struct fixture *f = *state;
	CUevent event;

	ok(cuEventCreate(&event, 0));
	begin(f->stream);
	fails(cuStreamSynchronize(f->stream), STREAM_CAPTURE_UNSUPPORTED);
	fails(cuMemsetD8Async(f->words, 0, 1, f->stream), STREAM_CAPTURE_INVALIDATED);
	fails(cuMemsetD8Async(f->words, 0, 0, f->stream), STREAM_CAPTURE_INVALIDATED);
	fails(cuEventRecord(event, f->stream), STREAM_CAPTURE_INVALIDATED);
	fails(cuStreamSynchronize(f->stream), STREAM_CAPTURE_UNSUPPORTED);
	end_invalidated(f->stream);
	begin(f->stream);
	fails(cuStreamQuery(f->stream), STREAM_CAPTURE_UNSUPPORTED);
	end_invalidated(f->stream);
	begin(f->stream);
	fails(cuCtxSynchronize(), STREAM_CAPTURE_UNSUPPORTED);
	end_invalidated(f->stream);
	begin(f->stream);
	ok(cuEventRecord(event, f->stream));
	fails(cuEventSynchronize(event), CAPTURED_EVENT);
	end_invalidated(f->stream);
	begin(f->stream);
	fails(cuStreamAddCallback(f->stream, callback, NULL, 0), STREAM_CAPTURE_UNSUPPORTED);
	end_invalidated(f->stream);
	ok(cuEventDestroy_v2(event));
}

static void the_legacy_stream_does_not_wait_for_a_capture(void **state)
{
	struct fixture *f = *state;
	CUstreamCaptureStatus now;
	CUstream blocking;
	uint32_t value;
	CUgraph graph;

	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	begin(blocking);
	fails(cuStreamIsCapturing(CU_STREAM_LEGACY, &now), STREAM_CAPTURE_IMPLICIT);
	ok(cuStreamEndCapture(blocking, &graph)); /* the question harmed nothing */
	ok(cuGraphDestroy(graph));
	begin(blocking);
	fails(cuMemsetD8_v2(f->words, 0, 1), STREAM_CAPTURE_IMPLICIT);
	end_invalidated(blocking);
	begin(blocking);
	fails(cuMemcpyDtoH_v2(&value, f->words, 4), STREAM_CAPTURE_IMPLICIT);
	end_invalidated(blocking);
	/* a stream that does not block has nothing to do with it */
	begin(f->stream);
	ok(cuMemsetD8_v2(f->words, 0, 1));
	ok(cuStreamEndCapture(f->stream, &graph));
	ok(cuGraphDestroy(graph));
	ok(cuStreamDestroy_v2(blocking));
}

static void unsafe_calls_are_refused_as_the_modes_say(void **state)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_RELAXED};
	struct fixture *f = *state;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr memory;
	CUgraph graph;

	for (int i = 0; i < 2; i++) {
		ok(cuStreamBeginCapture_v2(f->stream, modes[i]));
		fails(cuMemAlloc_v2(&memory, 16), STREAM_CAPTURE_UNSUPPORTED);
		end_invalidated(f->stream);
		ok(cuStreamBeginCapture_v2(f->stream, modes[i]));
		ok(cuThreadExchangeStreamCaptureMode(&mode));
		ok(cuMemAlloc_v2(&memory, 16));
		ok(cuThreadExchangeStreamCaptureMode(&mode));
		ok(cuStreamEndCapture(f->stream, &graph));
		ok(cuGraphDestroy(graph));
		ok(cuMemFree_v2(memory));
	}
	ok(cuStreamBeginCapture_v2(f->stream, modes[2]));
	ok(cuMemAlloc_v2(&memory, 16));
	ok(cuStreamEndCapture(f->stream, &graph));
	ok(cuGraphDestroy(graph));
}

/* What a call that hears of the capture gives. */
struct probe {
	CUresult (*call)(struct fixture *f);
	CUresult global, relaxed; /* in a capture of these modes */
	bool lost;		  /* the relaxed one, too */
};

static CUgraphExec instance;
static CUevent event;

static CUresult sync_other(struct fixture *f)
{
	return cuStreamSynchronize(f->other);
}

static CUresult query_legacy(struct fixture *f)
{
	(void)f;
	return cuStreamQuery(NULL);
}

static CUresult set_limit(struct fixture *f)
{
	(void)f;
	return cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
}

static CUresult instantiate(struct fixture *f)
{
	return cuGraphInstantiateWithFlags(&instance, f->graph, 0);
}

static CUresult launch_into(struct fixture *f)
{
	return cuGraphLaunch(instance, f->stream);
}

static CUresult launch_elsewhere(struct fixture *f)
{
	return cuGraphLaunch(instance, f->other);
}

static CUresult ask_flags(struct fixture *f)
{
	unsigned int flags;

	return cuStreamGetFlags(f->stream, &flags);
}

static CUresult ask_event(struct fixture *f)
{
	CUresult result = cuEventRecord(event, f->stream);

	return result == CUDA_SUCCESS ? cuEventQuery(event) : result;
}

static CUresult ask_time(struct fixture *f)
{
	CUresult result = cuEventRecord(event, f->stream);
	float ms;

	return result == CUDA_SUCCESS ? cuEventElapsedTime(&ms, event, event) : result;
}

static CUresult wait_for_no_record(struct fixture *f)
{
	CUevent never;
	CUresult result = cuEventCreate(&never, 0);

	if (result == CUDA_SUCCESS)
		result = cuStreamWaitEvent(f->stream, never, 0);
	cuEventDestroy_v2(never);
	return result;
}

static CUresult record_outside(struct fixture *f)
{
	return cuEventRecordWithFlags(event, f->other, CU_EVENT_RECORD_EXTERNAL);
}

static CUresult launch_wrongly(struct fixture *f)
{
	return cuLaunchKernel(f->add, 1, 1, 1, 2000, 1, 1, 0, f->stream, NULL, NULL);
}

static CUresult copy_wrongly(struct fixture *f)
{
	return cuMemcpyDtoDAsync_v2(f->words, 1, 4, f->stream);
}

static CUresult load_module(struct fixture *f)
{
	CUmodule module;

	(void)f;
	return cuModuleLoadData(&module, emu_kernels);
}

/* As a GPU's driver was seen to do it. */
static void calls_harm_a_capture_or_not(void **state)
{
#define UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
	static const struct probe probes[] = {
		{sync_other, UNSUPPORTED, CUDA_SUCCESS, false},
		{query_legacy, UNSUPPORTED, CUDA_SUCCESS, false},
		{set_limit, UNSUPPORTED, CUDA_SUCCESS, false},
		{instantiate, UNSUPPORTED, CUDA_SUCCESS, false},
		{launch_into, UNSUPPORTED, UNSUPPORTED, true},
		{launch_elsewhere, CUDA_SUCCESS, CUDA_SUCCESS, false},
		{ask_flags, UNSUPPORTED, UNSUPPORTED, true},
		{ask_event, CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT, true},
		{ask_time, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, false},
		{wait_for_no_record, CUDA_SUCCESS, CUDA_SUCCESS, false},
		{record_outside, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE, false},
		{launch_wrongly, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, true},
		{copy_wrongly, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, false},
		{load_module, CUDA_SUCCESS, CUDA_SUCCESS, false},
	};
	struct fixture *f = *state;
	CUgraph graph;

	ok(cuEventCreate(&event, 0));
	ok(instantiate(f));
	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(probes); i++) {
		const struct probe *p = &probes[i / 2];
		bool global = i % 2 == 0;

		ok(cuStreamBeginCapture_v2(f->stream, global ? CU_STREAM_CAPTURE_MODE_GLOBAL
							     : CU_STREAM_CAPTURE_MODE_RELAXED));
		assert_int_equal(p->call(f), global ? p->global : p->relaxed);
		if (p->lost || (global && p->global == UNSUPPORTED)) {
			end_invalidated(f->stream);
			continue;
		}
		ok(cuStreamEndCapture(f->stream, &graph));
		assert_int_equal(node_count(graph), 0);
		ok(cuGraphDestroy(graph));
	}
	ok(cuEventDestroy_v2(event));
}

struct visitor {
	struct fixture *f;
	CUresult alloc, end;
};

static void *visit(void *arg)
{
	struct visitor *visitor = arg;
	CUdeviceptr memory;
	CUgraph graph;

	cuCtxSetCurrent(visitor->f->context);
	visitor->alloc = cuMemAlloc_v2(&memory, 16);
	visitor->end = cuStreamEndCapture(visitor->f->stream, &graph);
	return NULL;
}

/* What another thread gets while this one captures. */
static struct visitor visit_during(struct fixture *f, CUstreamCaptureMode mode)
{
	struct visitor visitor = {.f = f};
	pthread_t thread;

	ok(cuStreamBeginCapture_v2(f->stream, mode));
	assert_int_equal(pthread_create(&thread, NULL, visit, &visitor), 0);
	pthread_join(thread, NULL);
	return visitor;
}

static void other_threads_are_held_back_as_the_modes_say(void **state)
{
	struct fixture *f = *state;
	struct visitor visitor = visit_during(f, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUgraph graph;

	assert_int_equal(visitor.end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	assert_int_equal(visitor.alloc, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	fails(cuStreamEndCapture(f->stream, &graph), ILLEGAL_STATE); /* it is over all the same */
	visitor = visit_during(f, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	assert_int_equal(visitor.end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	ok(visitor.alloc);
	fails(cuStreamEndCapture(f->stream, &graph), ILLEGAL_STATE);
	visitor = visit_during(f, CU_STREAM_CAPTURE_MODE_RELAXED);
	ok(visitor.end);
	ok(visitor.alloc);
	fails(cuStreamEndCapture(f->stream, &graph), ILLEGAL_STATE);
}

static void a_capture_tells_where_it_is_and_can_be_moved(void **state)
{
	struct fixture *f = *state;
	cuuint64_t id = 0, again = 0;
	CUstreamCaptureStatus now;
	const CUgraphNode *after;
	CUgraphNode first, empty;
	const CUgraphEdgeData *data;
	CUgraph graph, got;
	size_t count = 9;

	begin(f->stream);
	ok(cuMemsetD8Async(f->words, 1, 1, f->stream));
	ok(cuStreamGetCaptureInfo_v3(f->stream, &now, &id, &graph, &after, &data, &count));
	assert_int_equal(now, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(count, 1);
	first = after[0];
	fails(cuGraphDestroy(graph), INVALID_VALUE); /* the capture's, for now */
	ok(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
	ok(cuStreamUpdateCaptureDependencies(f->stream, &empty, 1,
					     CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	ok(cuStreamGetCaptureInfo_v2(f->stream, &now, &again, NULL, &after, &count));
	assert_int_equal(again, id);
	assert_int_equal(count, 2);
	ok(cuStreamUpdateCaptureDependencies_v2(f->stream, &empty, NULL, 1,
						CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	ok(cuMemsetD8Async(f->words, 2, 1, f->stream));
	fails(cuStreamUpdateCaptureDependencies(f->stream, &empty, 1, 5), INVALID_VALUE);
	ok(cuStreamEndCapture(f->stream, &got));
	assert_ptr_equal(got, graph);
	ok(cuGraphNodeGetDependentNodes(first, NULL, &count));
	assert_int_equal(count, 0);
	ok(cuGraphNodeGetDependentNodes(empty, NULL, &count));
	assert_int_equal(count, 1);
	ok(cuGraphDestroy(graph));
	count = 9;
	ok(cuStreamGetCaptureInfo(f->stream, &now, &id));
	assert_int_equal(now, CU_STREAM_CAPTURE_STATUS_NONE);
	fails(cuStreamUpdateCaptureDependencies(f->stream, NULL, 0, 0), ILLEGAL_STATE);
}

static void a_capture_continues_a_graph_that_is_there(void **state)
{
	struct fixture *f = *state;
	CUgraphNode store = node_add(f, f->graph, f->store, 0, 5, NULL);
	CUgraph got;

	fails(cuStreamBeginCaptureToGraph(f->stream, NULL, NULL, NULL, 0,
					  CU_STREAM_CAPTURE_MODE_GLOBAL),
	      INVALID_VALUE);
	ok(cuStreamBeginCaptureToGraph(f->stream, f->graph, &store, NULL, 1,
				       CU_STREAM_CAPTURE_MODE_GLOBAL));
	fails(cuStreamBeginCaptureToGraph(f->other, f->graph, NULL, NULL, 0,
					  CU_STREAM_CAPTURE_MODE_GLOBAL),
	      ILLEGAL_STATE);
	add_queue(f, f->stream, 0, 2);
	ok(cuStreamEndCapture(f->stream, &got));
	assert_ptr_equal(got, f->graph);
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 0), 7);
	/* a failed capture leaves the graph where it is */
	ok(cuStreamBeginCaptureToGraph(f->stream, f->graph, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_GLOBAL));
	fails(cuStreamQuery(f->stream), STREAM_CAPTURE_UNSUPPORTED);
	end_invalidated(f->stream);
	assert_int_equal(node_count(f->graph), 2);
}

static void allocation_in_stream_order_becomes_nodes(void **state)
{
	struct fixture *f = *state;
	struct ck_emu_stream *stream = (struct ck_emu_stream *)f->stream;
	CUdeviceptr address = 0;
	CUgraphExec exec;
	CUresult result;
	CUgraph graph;

	assert_false(ck_emu_capture_alloc(stream, 64, &address, &result));
	assert_false(ck_emu_capture_free(stream, f->words, &result));
	begin(f->stream);
	assert_true(ck_emu_capture_alloc(stream, 64, &address, &result));
	ok(result);
	ok(cuMemsetD32Async(address, 8, 16, f->stream));
	assert_true(ck_emu_capture_free(stream, f->words, &result));
	assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamEndCapture(f->stream, &graph));
	assert_int_equal(node_count(graph), 2);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 2; i++) {
		ok(cuGraphLaunch(exec, f->stream));
		ok(cuMemcpyDtoDAsync_v2(word(f, i), address + 60, 4, f->stream));
		assert_true(ck_emu_capture_free(stream, address, &result));
		ok(result);
	}
	assert_true(ck_emu_capture_free(stream, address, &result));
	assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(word_read(f, 1), 8);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
}

static void a_destroyed_stream_leaves_its_capture(void **state)
{
	struct fixture *f = *state;
	CUstream stream;
	CUgraph graph;

	ok(cuEventCreate(&event, 0));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin(stream);
	add_queue(f, stream, 0, 1);
	ok(cuEventRecord(event, stream));
	ok(cuStreamDestroy_v2(stream));
	ok(cuMemcpyDtoH_v2(f->flag, f->words, 4)); /* nothing captures any more */
	/* one that had joined harms nothing, but what it did must still be joined */
	for (int work = 0; work < 2; work++) {
		ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		begin(f->stream);
		ok(cuEventRecord(event, f->stream));
		ok(cuStreamWaitEvent(stream, event, 0));
		if (work)
			add_queue(f, stream, 0, 1);
		ok(cuStreamDestroy_v2(stream));
		if (work) {
			fails(cuStreamEndCapture(f->stream, &graph), STREAM_CAPTURE_UNJOINED);
			continue;
		}
		ok(cuStreamEndCapture(f->stream, &graph));
		ok(cuGraphDestroy(graph));
	}
	ok(cuEventDestroy_v2(event));
}

static void *abandon(void *arg)
{
	struct fixture *f = arg;

	cuCtxSetCurrent(f->context);
	return cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL) ? f
											    : NULL;
}

static void a_capture_goes_with_its_context_or_its_thread(void **state)
{
	struct fixture *f = *state;
	CUdeviceptr memory;
	CUcontext context;
	pthread_t thread;
	CUstream stream;
	void *failed;

	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin(stream);
	ok(cuMemsetD8Async(f->words, 0, 1, stream));
	ok(cuCtxDestroy_v2(context));
	ok(cuCtxSetCurrent(f->context));
	ok(cuMemAlloc_v2(&memory, 16)); /* nothing forbids it any more */
	assert_int_equal(pthread_create(&thread, NULL, abandon, f), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	ok(cuMemFree_v2(memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_queued_call_becomes_a_node),
		TEST(streams_fork_and_join_by_events),
		TEST(a_fork_that_is_not_joined_ends_the_capture_without_a_graph),
		TEST(a_capture_ends_in_the_stream_it_began_in),
		TEST(two_captures_do_not_merge_and_outside_work_does_not_enter),
		TEST(what_is_captured_cannot_be_waited_for),
		TEST(the_legacy_stream_does_not_wait_for_a_capture),
		TEST(unsafe_calls_are_refused_as_the_modes_say),
		TEST(calls_harm_a_capture_or_not),
		TEST(other_threads_are_held_back_as_the_modes_say),
		TEST(a_capture_tells_where_it_is_and_can_be_moved),
		TEST(a_capture_continues_a_graph_that_is_there),
		TEST(allocation_in_stream_order_becomes_nodes),
		TEST(a_destroyed_stream_leaves_its_capture),
		TEST(a_capture_goes_with_its_context_or_its_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
