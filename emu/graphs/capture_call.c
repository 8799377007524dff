/*
 * emu/graphs/capture_call.c - the calls of stream capture.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/graphs/capture.h"

/* --- begin and end --- */

/* Make a stream capture into @graph behind these nodes. Lock held. */
static CUresult begin_capture(struct ck_emu_stream *stream, struct ck_emu_graph *graph,
			      const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
			      CUstreamCaptureMode mode)
{
	struct ck_emu_capture_end *end;
	CUresult result;

	/* one capture a stream, and one a graph */
	if (ck_emu_capture_end_of(stream) || graph->captures)
		return CUDA_ERROR_ILLEGAL_STATE;
	result = ck_emu_context_state(stream->base.context); /* it may be going just now */
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_edges_check(graph, nodes, data, count);
	if (result == CUDA_SUCCESS)
		result = ck_emu_capture_create(stream, graph, mode, &end);
	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (!ck_emu_after_add(&end->after, ck_emu_node_find(nodes[i]),
				      data ? &data[i] : NULL)) {
			ck_emu_capture_finish(end->capture);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return result;
}

/* @handle: NULL, or a graph that is there. */
static CUresult begin_any(CUstream stream_handle, bool lent, CUgraph handle,
			  const CUgraphNode *nodes, const CUgraphEdgeData *data, size_t count,
			  CUstreamCaptureMode mode)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(stream_handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_graph_lock();
	graph = lent ? ck_emu_graph_find(handle) : ck_emu_graph_create(true);
	if (stream->is_legacy)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	else if (!graph)
		result = lent ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	else
		result = begin_capture(stream, graph, nodes, data, count, mode);
	if (result == CUDA_SUCCESS)
		ck_emu_capture_end_of(stream)->capture->lent = lent;
	else if (graph && !lent)
		ck_emu_graph_end(graph);
	ck_emu_graph_unlock();
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	return begin_any(hStream, false, NULL, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependencyData, size_t numDependencies,
				     CUstreamCaptureMode mode)
{
	return begin_any(hStream, true, hGraph, dependencies, dependencyData, numDependencies,
			 mode);
}

/* Mark a node and all before it. */
static void mark_before(struct ck_emu_node *node, struct ck_emu_node **stack)
{
	size_t depth = 0;

	if (!node->waits)
		stack[depth++] = node;
	node->waits = 1;
	while (depth) {
		const struct ck_emu_edges *in = &stack[--depth]->in;

		for (size_t i = 0; i < in->count; i++) {
			if (!in->list[i].node->waits)
				stack[depth++] = in->list[i].node;
			in->list[i].node->waits = 1;
		}
	}
}

/* True when the origin is behind the ends of all other streams. */
static bool streams_are_joined(const struct ck_emu_capture *capture,
			       const struct ck_emu_capture_end *origin)
{
	const struct ck_emu_graph *graph = capture->graph;
	struct ck_emu_node **stack = calloc(graph->count + 1, sizeof(struct ck_emu_node *));
	const struct ck_emu_capture_end *end;
	bool all = stack != NULL;

	for (size_t i = 0; i < graph->count; i++)
		graph->nodes[i]->waits = 0;
	for (size_t i = 0; all && i < origin->after.count; i++) {
		if (origin->after.nodes[i]->graph == graph)
			mark_before(origin->after.nodes[i], stack);
	}
	for (end = capture->ends; end && all; end = end->next) {
		for (size_t i = 0; i < end->after.count; i++) {
			const struct ck_emu_node *node = end->after.nodes[i];

			all &= node->graph != graph || node->waits;
		}
	}
	free(stack);
	return all;
}

/* The result of ending a capture in this stream; *@over: it ends, with that result. */
static CUresult end_result(const struct ck_emu_capture_end *end, bool *over)
{
	const struct ck_emu_capture *capture = end->capture;

	*over = capture->origin == end->stream;
	if (!*over)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (!ck_emu_capture_mine(capture))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return streams_are_joined(capture, end) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct ck_emu_capture_end *end;
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_graph *graph;
	bool over = false;

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (phGraph)
		*phGraph = NULL;
	ck_emu_graph_lock();
	end = ck_emu_capture_end_of(stream);
	result = end ? end_result(end, &over) : CUDA_ERROR_ILLEGAL_STATE;
	if (over) {
		graph = end->capture->graph;
		if (result == CUDA_SUCCESS && phGraph)
			*phGraph = (CUgraph)graph;
		else if (!end->capture->lent)
			ck_emu_graph_end(graph); /* no handle to it remains */
		ck_emu_capture_finish(end->capture);
	} else if (end && result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) {
		end->capture->invalid = true;
	}
	ck_emu_graph_unlock();
	ck_emu_object_put(&stream->base);
	return result;
}

/* --- questions --- */

/* The stream of a question, with the lock; IMPLICIT for the legacy stream next to a capture. */
static CUresult ask_begin(CUstream handle, struct ck_emu_stream **stream)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(handle, context, stream);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_graph_lock();
	result = ck_emu_capture_implicit(*stream, false);
	if (result != CUDA_SUCCESS) {
		ck_emu_graph_unlock();
		ck_emu_object_put(&(*stream)->base);
	}
	return result;
}

static CUstreamCaptureStatus status_of(const struct ck_emu_capture_end *end)
{
	if (!end)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return end->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct ck_emu_stream *stream;
	CUresult result = ask_begin(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (captureStatus)
		*captureStatus = status_of(ck_emu_capture_end_of(stream));
	ck_emu_graph_unlock();
	ck_emu_object_put(&stream->base);
	return captureStatus ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				cuuint64_t *id)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
				   size_t *numDependencies)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus, id, graph, dependencies, NULL,
					 numDependencies);
}

/* True when no edge into the next node has data. */
static bool edges_are_plain(const struct ck_emu_after *after)
{
	static const CUgraphEdgeData zero;

	for (size_t i = 0; i < after->count; i++) {
		if (memcmp(&after->data[i], &zero, sizeof(zero)) != 0)
			return false;
	}
	return true;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
				   const CUgraphEdgeData **edgeData, size_t *numDependencies)
{
	const struct ck_emu_capture_end *end;
	struct ck_emu_stream *stream;
	CUresult result = ask_begin(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	end = ck_emu_capture_end_of(stream);
	if (!captureStatus) {
		result = CUDA_ERROR_INVALID_VALUE;
		goto unlock;
	}
	*captureStatus = status_of(end);
	/* an inactive capture returns no more, and the other outputs stay unchanged */
	if (*captureStatus != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		goto unlock;
	if (id)
		*id = end->capture->id;
	if (graph)
		*graph = (CUgraph)end->capture->graph;
	/* the lists stay valid until the next call on the stream */
	if (dependencies)
		*dependencies = (const CUgraphNode *)end->after.nodes;
	if (edgeData)
		*edgeData = end->after.data;
	else if (dependencies && !edges_are_plain(&end->after))
		result = CUDA_ERROR_LOSSY_QUERY;
	if (numDependencies)
		*numDependencies = end->after.count;
unlock:
	ck_emu_graph_unlock();
	ck_emu_object_put(&stream->base);
	return result;
}

/* Lock held. */
static CUresult after_update(struct ck_emu_capture_end *end, const CUgraphNode *nodes,
			     const CUgraphEdgeData *data, size_t count, unsigned int flags)
{
	CUresult result = ck_emu_edges_check(end->capture->graph, nodes, data, count);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		ck_emu_after_clear(&end->after);
	for (size_t i = 0; i < count; i++) {
		if (!ck_emu_after_add(&end->after, ck_emu_node_find(nodes[i]),
				      data ? &data[i] : NULL))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *dependencyData,
					      size_t numDependencies, unsigned int flags)
{
	struct ck_emu_capture_end *end;
	struct ck_emu_stream *stream;
	CUresult result = ask_begin(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_capture_end_get(stream, &end);
	if (result == CUDA_SUCCESS && flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = after_update(end, dependencies, dependencyData, numDependencies, flags);
	ck_emu_graph_unlock();
	ck_emu_object_put(&stream->base);
	return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
					   size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
						    flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = ck_emu_thread_capture_mode(*mode);
	return CUDA_SUCCESS;
}
