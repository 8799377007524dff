/*
 * tests/unit/test_client_graph.c - captures and graphs on the client: what is answered without the
 * server, what a mode forbids, handles that go with their graph, host memory at a launch.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/objects/capture.h"
#include "client/copy/mirror.h"
#include "tests/unit/client_peer.h"

#define GRAPH ((uint64_t)1 << 23) /* ids of the server's own */
#define NODE(i) (GRAPH + 1 + (i))

static unsigned char device[256];
static CUstream stream, other, blocking;
static CUgraphExec instance;
static CUevent event;

/* --- the server's part */

static CUresult end_error;
static uint64_t nodes[3] = {NODE(0), NODE(1), NODE(2)}, to[2] = {NODE(1), NODE(2)};
static uint64_t mirrors[4];
static u_int mirror_count;
static unsigned char bytes[64];
static CUgraphEdgeData edge_data[2];
static int links_until = -1; /* messages with edges, before one is refused */

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	if (m->number == CK_PROC_capture_end) {
		((ck_capture_end_res *)res)->graph = GRAPH;
		return end_error;
	}
	if (m->number == CK_PROC_capture_graph) {
		((ck_capture_graph_res *)res)->graph = GRAPH;
		((ck_capture_graph_res *)res)->nodes = 3;
		return end_error;
	}
	if (m->number == CK_PROC_capture_info)
		((ck_capture_info_res *)res)->graph = nodes[0];
	if (m->number == CK_PROC_capture_copy) {
		const ck_capture_copy_args *args = m->args;
		CUDA_MEMCPY3D c;

		memcpy(&c, args->copy, sizeof(c));
		if (c.srcMemoryType == CU_MEMORYTYPE_HOST)
			mirrors[mirror_count++] = (uintptr_t)c.srcHost;
		if (c.dstMemoryType == CU_MEMORYTYPE_HOST)
			mirrors[mirror_count++] = (uintptr_t)c.dstHost;
	} else if (m->number == CK_PROC_graph_nodes) {
		ck_graph_nodes_res *r = res;

		r->nodes.nodes_val = nodes;
		r->nodes.nodes_len = 3;
	} else if (m->number == CK_PROC_graph_edges) {
		ck_graph_edges_res *r = res;

		r->from.from_val = nodes;
		r->to.to_val = to;
		r->from.from_len = r->to.to_len = 2;
		r->data.data_val = (char *)edge_data;
		r->data.data_len = sizeof(edge_data);
	} else if (m->number == CK_PROC_graph_link) {
		return links_until-- == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	} else if (m->number == CK_PROC_graph_instantiate) {
		ck_graph_instantiate_res *r = res;

		r->mirrors.mirrors_val = mirrors;
		r->mirrors.mirrors_len = mirror_count;
	} else if (m->number == CK_PROC_mirror_read) {
		const ck_mirror_read_args *args = m->args;

		payload->data = bytes + args->offset;
		payload->size = args->size;
	} else if (m->number == CK_PROC_graph_end) {
		ck_graph_end_res *r = res;

		r->gone.gone_val = mirrors;
		r->gone.gone_len = mirror_count;
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	if (peer_begin(state) < 0 ||
	    ckc_allocation_add((uintptr_t)device, sizeof(device), CK_MEMORY_DEVICE,
			       ckc_context_current(), 0, false))
		return -1;
	return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	       cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&blocking, 0);
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	end_error = CUDA_SUCCESS;
	mirror_count = 0;
	return 0;
}

static CUgraph captured(void)
{
	CUgraph graph = NULL;

	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_non_null(graph);
	return graph;
}

/* Begin in @mode; how the capture ends. */
static CUresult ended(void)
{
	CUgraph graph = NULL;
	CUresult err = cuStreamEndCapture(stream, &graph);

	if (graph)
		cuGraphDestroy(graph);
	return err;
}

/* Since peer_clear(), which keeps those without a number. */
static size_t messages(void)
{
	size_t n = 0;

	peer_await_all();
	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count; i++)
		n += peer.log[i].number != 0;
	pthread_mutex_unlock(&peer.lock);
	return n;
}

/* --- */

static void whether_a_stream_is_captured_is_known_here(void **state)
{
	CUstreamCaptureStatus status;
	cuuint64_t id = 0, again = 0;

	(void)state;
	assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	cuEventRecord(event, stream);
	cuStreamWaitEvent(other, event, 0);
	peer_clear();
	assert_int_equal(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(cuStreamGetCaptureInfo(stream, &status, &id), CUDA_SUCCESS);
	assert_int_equal(cuStreamGetCaptureInfo_v2(other, &status, &again, NULL, NULL, NULL), 0);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_not_equal(id, 0);
	assert_int_equal(again, id);
	assert_int_equal(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(messages(), 0);
	assert_int_equal(ended(), CUDA_SUCCESS);
	assert_int_equal(cuStreamIsCapturing(other, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_false(ckc_captures_any());
	cuEventDestroy_v2(event);
}

static void a_capture_that_failed_is_over(void **state)
{
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph)device;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	end_error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_null(graph);
	assert_int_equal(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

/* The graph of a capture that failed is gone from the server, which uses its id for a node. */
static void the_graph_of_a_failed_capture_is_forgotten(void **state)
{
	CUstreamCaptureStatus status;
	CUgraphNode found[3];
	size_t count = 3;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL), 0);
	end_error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	assert_int_equal(ended(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_int_equal(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	end_error = CUDA_SUCCESS;
	graph = captured();
	assert_int_equal(cuGraphGetNodes(graph, found, &count), CUDA_SUCCESS);
	assert_int_equal(count, 3);
	cuGraphDestroy(graph);
}

static void what_a_capture_forbids_ends_it(void **state)
{
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	assert_int_equal(cuMemAlloc_v2(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(peer_count(CK_PROC_cuMemAlloc_v2), 0);
	assert_int_equal(cuMemsetD8Async((uintptr_t)device, 0, 1, stream),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(ended(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* the server's capture had nothing wrong with it: its graph goes */
	assert_int_equal(peer_count(CK_PROC_cuGraphDestroy), 1);

	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(ended(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(ended(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static CUresult sync_other(void)
{
	return cuStreamSynchronize(other);
}

static CUresult query_legacy(void)
{
	return cuStreamQuery(NULL);
}

static CUresult sync_event(void)
{
	return cuEventSynchronize(event);
}

static CUresult pin(void)
{
	void *p;

	return cuMemHostAlloc(&p, 4096, 0);
}

static CUresult set_limit(void)
{
	return cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20);
}

static CUresult destroy_instance(void)
{
	return cuGraphExecDestroy(instance);
}

static CUresult launch_into(void)
{
	return cuGraphLaunch(instance, stream);
}

static CUresult launch_elsewhere(void)
{
	return cuGraphLaunch(instance, other);
}

static CUresult upload_into(void)
{
	return cuGraphUpload(instance, stream);
}

static CUresult ask_flags(void)
{
	unsigned int flags;

	return cuStreamGetFlags(stream, &flags);
}

static CUresult ask_captured(void)
{
	CUresult err = cuEventRecord(event, stream);

	return err ? err : cuEventQuery(event);
}

static CUresult record_outside(void)
{
	return cuEventRecordWithFlags(event, other, CU_EVENT_RECORD_EXTERNAL);
}

static CUresult wait_outside(void)
{
	return cuStreamWaitEvent(other, event, CU_EVENT_WAIT_EXTERNAL);
}

static CUresult copy(void)
{
	return cuMemcpyDtoD_v2((uintptr_t)device, (uintptr_t)device + 8, 8);
}

/* As a GPU's driver was seen to do it. What the thread's own mode allows harms nothing. */
static void calls_harm_a_capture_or_not(void **state)
{
	static const struct {
		CUresult (*call)(void);
		CUresult expected;
		bool always; /* whatever the mode is */
	} calls[] = {
		{sync_other, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
		{query_legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
		{sync_event, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
		{pin, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
		{set_limit, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
		{launch_into, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true},
		{upload_into, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true},
		{ask_flags, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true},
		{ask_captured, CUDA_ERROR_CAPTURED_EVENT, true},
		{launch_elsewhere, CUDA_SUCCESS, true},
		{record_outside, CUDA_ERROR_ILLEGAL_STATE, true},
		{wait_outside, CUDA_ERROR_ILLEGAL_STATE, true},
		{copy, CUDA_SUCCESS, true},
		{destroy_instance, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false},
	};
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)state;
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	assert_int_equal(cuGraphInstantiateWithFlags(&instance, captured(), 0), CUDA_SUCCESS);
	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(calls); i++) {
		size_t n = i / 2;
		bool relaxed = i % 2;
		CUresult expected = calls[n].expected;
		bool harm = expected && expected != CUDA_ERROR_ILLEGAL_STATE;

		assert_int_equal(cuEventRecord(event, other), CUDA_SUCCESS);
		assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
		if (relaxed && !calls[n].always)
			expected = harm = CUDA_SUCCESS;
		if (relaxed)
			cuThreadExchangeStreamCaptureMode(&mode);
		assert_int_equal(calls[n].call(), expected);
		if (relaxed)
			cuThreadExchangeStreamCaptureMode(&mode);
		assert_int_equal(ended(),
				 harm ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
	}
	/* the refused call has left it alone, the other has not */
	assert_int_equal(peer_count(CK_PROC_cuGraphExecDestroy), 1);
	cuEventDestroy_v2(event);
}

static void events_of_a_capture_that_is_over_mean_nothing(void **state)
{
	CUgraph graph;

	(void)state;
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
	assert_int_equal(ended(), CUDA_SUCCESS);
	assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ended(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(cuEventRecord(event, other), CUDA_SUCCESS);
	assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
	/* a graph that nobody wants goes */
	peer_clear();
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamEndCapture(stream, NULL), CUDA_SUCCESS);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	assert_null(graph);
	assert_int_equal(peer_count(CK_PROC_cuGraphDestroy), 1);
	cuEventDestroy_v2(event);
}

static void *end_it(void *result)
{
	CUgraph graph;

	*(CUresult *)result = cuStreamEndCapture(stream, &graph);
	return NULL;
}

static void another_thread_ends_a_capture_to_no_avail(void **state)
{
	CUresult err = CUDA_SUCCESS;
	pthread_t thread;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
	assert_int_equal(pthread_create(&thread, NULL, end_it, &err), 0);
	pthread_join(thread, NULL);
	assert_int_equal(err, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	assert_int_equal(peer_count(CK_PROC_capture_graph), 1);
	assert_false(ckc_captures_any());
	assert_int_equal(ended(), CUDA_ERROR_ILLEGAL_STATE);
}

/* What frameworks do with a capture takes no question. */
static void a_captured_graph_is_counted_until_it_changes(void **state)
{
	CUgraphNode node[3];
	size_t count = 0;
	CUgraph graph;

	(void)state;
	graph = captured();
	assert_int_equal(cuGraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(count, 3);
	assert_int_equal(peer_count(CK_PROC_capture_start), 1);
	assert_int_equal(peer_count(CK_PROC_capture_begin), 0);
	assert_int_equal(peer_count(CK_PROC_graph_nodes), 0);
	assert_int_equal(cuGraphGetNodes(graph, node, &count), CUDA_SUCCESS);
	assert_int_equal(cuGraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(cuGraphGetRootNodes(graph, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_graph_nodes), 3);
	cuGraphDestroy(graph);
}

static void an_older_server_captures_too(void **state)
{
	static unsigned char few[CK_PROC_END / 8 + 1];
	struct ckc_client *client = ckc_client_current();
	CUgraph graph;
	size_t count;

	(void)state;
	memset(few, 0xff, sizeof(few));
	few[CK_PROC_capture_start / 8] &= (unsigned char)~(1 << CK_PROC_capture_start % 8);
	few[CK_PROC_capture_graph / 8] &= (unsigned char)~(1 << CK_PROC_capture_graph % 8);
	client->offers.procedures.procedures_len = sizeof(few);
	client->offers.procedures.procedures_val = (char *)few;
	graph = captured();
	assert_int_equal(peer_count(CK_PROC_capture_begin), 1);
	assert_int_equal(peer_count(CK_PROC_capture_end), 1);
	assert_int_equal(cuGraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_graph_nodes), 1);
	cuGraphDestroy(graph);
	client->offers.procedures.procedures_len = 0;
	client->offers.procedures.procedures_val = NULL;
}

static void the_legacy_stream_does_not_wait_for_a_capture(void **state)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuMemsetD8_v2((uintptr_t)device, 0, 1), CUDA_SUCCESS);
	assert_int_equal(ended(), CUDA_SUCCESS);

	assert_int_equal(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_int_equal(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
	assert_int_equal(cuMemsetD8_v2((uintptr_t)device, 0, 1),
			 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_int_equal(cuStreamEndCapture(blocking, &graph),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void a_stream_that_goes_takes_its_capture_along(void **state)
{
	CUstream gone;

	(void)state;
	assert_int_equal(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	assert_true(ckc_captures_any());
	assert_int_equal(cuStreamDestroy_v2(gone), CUDA_SUCCESS);
	assert_false(ckc_captures_any());
}

static void nodes_go_with_their_graph(void **state)
{
	CUgraph graph = captured();
	CUgraphNodeType type;
	CUgraphNode list[5] = {0}, again[1];
	size_t count = 0;

	(void)state;
	assert_int_equal(cuGraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(count, 3);
	count = 5;
	memset(list, 1, sizeof(list));
	assert_int_equal(cuGraphGetNodes(graph, list, &count), CUDA_SUCCESS);
	assert_int_equal(count, 3);
	assert_null(list[3]);
	assert_null(list[4]);
	count = 1;
	assert_int_equal(cuGraphGetRootNodes(graph, again, &count), CUDA_SUCCESS);
	assert_int_equal(count, 1);
	assert_ptr_equal(again[0], list[0]);
	assert_int_equal(cuGraphNodeGetType(list[2], &type), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_not_equal(cuGraphNodeGetType(list[2], &type), CUDA_SUCCESS);
	assert_int_not_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_not_equal(cuGraphDestroy((CUgraph)device), CUDA_SUCCESS);
}

static unsigned int links(size_t i, u_int *count)
{
	const ck_graph_link_args *a = peer_args(CK_PROC_graph_link, i);

	*count = a->from.from_len;
	assert_int_equal(a->to.to_len, *count);
	assert_int_equal(a->data.data_len, *count * sizeof(CUgraphEdgeData));
	return a->cut;
}

/* They are more than a record holds. */
static void many_edges_are_made_all_or_none(void **state)
{
	enum { MANY = 100000 };
	CUgraph graph = captured();
	CUgraphEdgeData *data = calloc(MANY, sizeof(*data));
	CUgraphNode *ends = calloc(MANY, sizeof(*ends)), list[3];
	size_t count = 3, sum = 0;
	u_int n, made;

	(void)state;
	assert_int_equal(cuGraphGetNodes(graph, list, &count), CUDA_SUCCESS);
	for (size_t i = 0; i < MANY; i++)
		ends[i] = list[i % 3];
	assert_int_equal(cuGraphAddDependencies_v2(graph, ends, ends, data, MANY), CUDA_SUCCESS);
	for (size_t i = 0; i < peer_count(CK_PROC_graph_link); i++) {
		assert_int_equal(links(i, &n), 0);
		sum += n;
	}
	assert_int_equal(sum, MANY);
	peer_clear();
	links_until = 1; /* the second is refused: the first is taken back */
	assert_int_equal(cuGraphAddDependencies_v2(graph, ends, ends, data, MANY),
			 CUDA_ERROR_INVALID_VALUE);
	links_until = -1;
	assert_int_equal(peer_count(CK_PROC_graph_link), 3);
	assert_int_equal(links(0, &made), 0);
	assert_int_equal(links(2, &n), 1);
	assert_int_equal(n, made);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	free(data);
	free(ends);
}

static void edges_with_data_are_not_told_without_it(void **state)
{
	CUgraph graph = captured();
	CUgraphNode from[2], behind[2];
	CUgraphEdgeData data[2];
	size_t count = 2;

	(void)state;
	edge_data[1].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
	assert_int_equal(cuGraphGetEdges(graph, from, behind, &count), CUDA_ERROR_LOSSY_QUERY);
	assert_int_equal(cuGraphGetEdges_v2(graph, from, behind, data, &count), CUDA_SUCCESS);
	assert_int_equal(data[1].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
	edge_data[1].type = 0;
	assert_int_equal(cuGraphGetEdges(graph, from, behind, &count), CUDA_SUCCESS);
	assert_ptr_equal(from[1], behind[0]);
	assert_int_equal(cuGraphGetEdges(graph, from, NULL, &count), CUDA_ERROR_INVALID_VALUE);
	cuGraphDestroy(graph);
}

/* Two rows of 8 bytes that lie 16 apart travel as 16; what comes back goes where it belongs. */
static void host_memory_is_read_and_written_at_each_launch(void **state)
{
	unsigned char in[32], out[32] = {0};
	CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = in,
			    .srcPitch = 16,
			    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			    .WidthInBytes = 8,
			    .Height = 2,
			    .dstDevice = (uintptr_t)device,
			    .dstPitch = 8};
	CUDA_MEMCPY2D down = {.dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = out,
			      .dstPitch = 16,
			      .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .WidthInBytes = 8,
			      .Height = 2,
			      .srcDevice = (uintptr_t)device,
			      .srcPitch = 8};
	const ck_mirror_fill_args *fill;
	CUgraphExec exec;
	CUgraph graph;

	(void)state;
	assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuMemcpy2DAsync_v2(&up, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemcpy2DAsync_v2(&down, stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_upload_3d), 0);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_int_equal(mirror_count, 2);
	assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
	for (unsigned char round = 1; round < 3; round++) {
		peer_clear();
		memset(in, round, sizeof(in));
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)(round * 50 + i);
		assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
		assert_int_equal(peer_count(CK_PROC_mirror_fill), 1);
		fill = peer_args(CK_PROC_mirror_fill, 0);
		assert_int_equal(fill->mirror, mirrors[0]);
		assert_int_equal(fill->data_length, 16);
		assert_int_equal(out[0], round * 50);
		assert_int_equal(out[7], round * 50 + 7);
		assert_int_equal(out[8], 0); /* between the rows */
		assert_int_equal(out[16], round * 50 + 8);
		assert_int_equal(out[24], 0);
	}
	assert_true(ckc_mirrors_any());
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_false(ckc_mirrors_any());
	assert_int_not_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
}

static void graphs_without_host_memory_are_launched_one_way(void **state)
{
	CUgraph graph = captured();
	CUgraphExec exec;

	(void)state;
	assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
	peer_clear();
	for (int i = 0; i < 10; i++)
		assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuGraphLaunch), 10);
	assert_int_equal(messages(), 10);
	cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
}

#define graph_test(name) cmocka_unit_test_setup(name, clear)

static void a_graph_uploaded_as_it_is_made_is_waited_for(void **state)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
					   .hUploadStream = other};
	CUgraph graph = captured();
	CUgraphExec exec;

	(void)state;
	assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
	assert_int_equal(cuGraphInstantiateWithParams(&exec, graph, &p), CUDA_SUCCESS);
	peer_clear();
	assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		graph_test(whether_a_stream_is_captured_is_known_here),
		graph_test(a_capture_that_failed_is_over),
		graph_test(the_graph_of_a_failed_capture_is_forgotten),
		graph_test(what_a_capture_forbids_ends_it),
		graph_test(calls_harm_a_capture_or_not),
		graph_test(events_of_a_capture_that_is_over_mean_nothing),
		graph_test(another_thread_ends_a_capture_to_no_avail),
		graph_test(a_captured_graph_is_counted_until_it_changes),
		graph_test(an_older_server_captures_too),
		graph_test(the_legacy_stream_does_not_wait_for_a_capture),
		graph_test(a_stream_that_goes_takes_its_capture_along),
		graph_test(nodes_go_with_their_graph),
		graph_test(many_edges_are_made_all_or_none),
		graph_test(edges_with_data_are_not_told_without_it),
		graph_test(host_memory_is_read_and_written_at_each_launch),
		graph_test(graphs_without_host_memory_are_launched_one_way),
		graph_test(a_graph_uploaded_as_it_is_made_is_waited_for),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
