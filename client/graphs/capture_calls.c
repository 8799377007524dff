/*
 * client/graphs/capture_calls.c - the calls that begin, end and query stream captures.
 */
#include <stdlib.h>
#include <string.h>

#include "client/objects/capture.h"
#include "client/objects/capture_list.h"
#include "client/link/hooks.h"
#include "client/graphs/graph.h"

/* For a capture into a graph of the application: the graph, and the dependencies in it. */
struct into {
	struct ckc_graph *graph;
	const uint64_t *dependencies;
	size_t count;
	const CUgraphEdgeData *edges;
};

/* A new graph needs no answer: the client knows each reason to refuse it, and the end reports an
 * error of the driver. */
static CUresult send_begin(struct ckc_context *ctx, struct ckc_stream *s, const struct into *into)
{
	if (!into->graph && ckc_session_offers(ckc_client_current(), CK_PROC_capture_start))
		return ck_wire_capture_start(ctx->object.id, s->object.id);
	if (into->graph)
		ckc_graph_change(into->graph);
	return ck_wire_capture_begin(ctx->object.id, s->object.id,
				     into->graph ? into->graph->object.id : 0, into->dependencies,
				     into->count, into->edges,
				     into->edges ? into->count * sizeof(*into->edges) : 0);
}

static CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode, const struct into *into)
{
	struct ckc_context *ctx;
	struct ckc_stream *s;
	CUresult err = ckc_context_usable(&ctx);

	if (!err)
		err = ckc_stream_from(handle, &s);
	if (err)
		return err;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!s)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (ckc_capturing(s))
		return CUDA_ERROR_ILLEGAL_STATE;
	err = send_begin(ctx, s, into);
	return err ? err : ckc_capture_note(s, mode, into->graph ? into->graph->object.id : 0);
}

CK_EXPORT CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	const struct into none = {0};

	return begin_capture(hStream, mode, &none);
}

CK_EXPORT CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CK_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					       const CUgraphNode *dependencies,
					       const CUgraphEdgeData *dependencyData,
					       size_t numDependencies, CUstreamCaptureMode mode)
{
	struct into into = {.count = numDependencies, .edges = dependencyData};
	uint64_t *ids = NULL;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_graph_from(hGraph, &into.graph);
	if (!err)
		err = ckc_node_ids(dependencies, numDependencies, &ids);
	into.dependencies = ids;
	if (!err)
		err = begin_capture(hStream, mode, &into);
	free(ids);
	return err;
}

/* The stream of a handle, and its capture. ILLEGAL_STATE: it has none. */
static CUresult find_stream_capture(CUstream handle, struct ckc_stream **s, struct ckc_capture *c)
{
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_stream_from(handle, s);
	if (err)
		return err;
	return *s && ckc_capture_find(*s, c) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

/* The result of ending the capture, as far as the client decides it: the server knows no modes. */
static CUresult check_capture_end(const struct ckc_capture *c)
{
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != ckc_thread())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	return c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

/* The graph of the capture that ends, with the number of its nodes, for which frameworks ask
 * next. */
static CUresult take_graph(const struct ckc_stream *s, struct ckc_graph **graph)
{
	uint64_t id = 0;
	size_t nodes = 0;
	bool counts = ckc_session_offers(ckc_client_current(), CK_PROC_capture_graph);
	CUresult err = counts ? ck_wire_capture_graph(ckc_current_id(), s->object.id, &id, &nodes)
			      : ck_wire_capture_end(ckc_current_id(), s->object.id, &id);

	*graph = err ? NULL : ckc_object_named(CK_OBJECT_GRAPH, id);
	if (*graph && counts)
		ckc_graph_counted(*graph, nodes);
	return err;
}

/* The call ends the capture, unless the stream is the wrong one. The graph is destroyed if it is
 * not returned, because of an error or because @phGraph is NULL. */
CK_EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct ckc_stream *s;
	struct ckc_graph *graph;
	struct ckc_capture c;
	CUresult told, err = find_stream_capture(hStream, &s, &c);

	if (phGraph)
		*phGraph = NULL;
	if (err)
		return err;
	if (c.origin != s->object.id) {
		ckc_capture_invalidate(c.sequence);
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	err = check_capture_end(&c);
	told = take_graph(s, &graph);
	ckc_capture_forget(c.sequence);
	if (told && c.graph && !c.to_graph) /* the server may use its id again */
		ckc_graph_gone(c.graph);
	if (told)
		return err ? err : told;
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!err && phGraph)
		*phGraph = (CUgraph)graph;
	else if (!c.to_graph)
		cuGraphDestroy((CUgraph)graph);
	return err;
}

/* Get the status only; *@c is valid if it is ACTIVE. */
static CUresult status_of(CUstream handle, CUstreamCaptureStatus *status, struct ckc_stream **s,
			  struct ckc_capture *c)
{
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_stream_from(handle, s);
	if (err)
		return err;
	if (!*s && !ckc_context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!ckc_captures_any())
		return CUDA_SUCCESS;
	if (!*s)
		return ckc_capture_legacy();
	if (ckc_capture_find(*s, c))
		*status = c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct ckc_stream *s;
	struct ckc_capture c;

	return status_of(hStream, captureStatus, &s, &c);
}

CK_EXPORT CUresult cuStreamGetCaptureInfo(CUstream hStream,
					  CUstreamCaptureStatus *captureStatus_out,
					  cuuint64_t *id_out)
{
	struct ckc_stream *s;
	struct ckc_capture c;
	CUresult err = status_of(hStream, captureStatus_out, &s, &c);

	if (!err && *captureStatus_out == CU_STREAM_CAPTURE_STATUS_ACTIVE && id_out)
		*id_out = c.sequence;
	return err;
}

/*
 * The returned dependencies must stay valid until the next call on the stream, so they are kept
 * with the calling thread.
 */
struct told {
	CUgraphNode *nodes;
	CUgraphEdgeData *edges;
};
static __thread struct told *told __attribute__((tls_model("initial-exec")));

static struct told *told_by_thread(void)
{
	if (!told && ckc_thread()) /* whose end is reported */
		told = calloc(1, sizeof(*told));
	return told;
}

static void thread_ended(struct ckc_thread *thread)
{
	(void)thread;
	if (!told)
		return;
	free(told->nodes);
	free(told->edges);
	free(told);
	told = NULL;
}
CK_ON_THREAD_END(thread_ended);

static CUresult describe_capture(struct ckc_stream *s, uint64_t sequence, CUgraph *graph_out,
				 const CUgraphNode **dependencies_out,
				 const CUgraphEdgeData **edges_out, size_t *count_out)
{
	struct told *t = told_by_thread();
	struct ckc_graph *g;
	size_t count;
	ck_capture_info_res r;
	CUresult err;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_wire_capture_info(
		&(ck_capture_info_args){.head.ctx = ckc_current_id(), .stream = s->object.id}, &r);
	free(t->edges);
	t->edges = (void *)r.edges.edges_val;
	count = r.dependencies.dependencies_len;
	g = err ? NULL : ckc_object_named(CK_OBJECT_GRAPH, r.graph);
	if (!err && (!g || r.edges.edges_len != count * sizeof(*t->edges)))
		err = CUDA_ERROR_UNKNOWN;
	if (g)
		ckc_capture_shown(sequence, r.graph);
	if (!err)
		err = ckc_graph_handles(g, r.dependencies.dependencies_val, count, &t->nodes);
	free(r.dependencies.dependencies_val);
	if (err)
		return err;
	if (dependencies_out && !edges_out && ckc_edges_hold_data(t->edges, count))
		return CUDA_ERROR_LOSSY_QUERY;
	if (graph_out)
		*graph_out = (CUgraph)g;
	if (dependencies_out)
		*dependencies_out = t->nodes;
	if (edges_out)
		*edges_out = t->edges;
	if (count_out)
		*count_out = count;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
					     CUstreamCaptureStatus *captureStatus_out,
					     cuuint64_t *id_out, CUgraph *graph_out,
					     const CUgraphNode **dependencies_out,
					     const CUgraphEdgeData **edgeData_out,
					     size_t *numDependencies_out)
{
	struct ckc_stream *s;
	struct ckc_capture c;
	CUresult err;

	if (edgeData_out && !dependencies_out)
		return CUDA_ERROR_INVALID_VALUE;
	err = status_of(hStream, captureStatus_out, &s, &c);
	if (err || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return err;
	if (id_out)
		*id_out = c.sequence;
	if (!graph_out && !dependencies_out && !numDependencies_out)
		return CUDA_SUCCESS;
	return describe_capture(s, c.sequence, graph_out, dependencies_out, edgeData_out,
				numDependencies_out);
}

CK_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
					     CUstreamCaptureStatus *captureStatus_out,
					     cuuint64_t *id_out, CUgraph *graph_out,
					     const CUgraphNode **dependencies_out,
					     size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					 dependencies_out, NULL, numDependencies_out);
}

CK_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
							const CUgraphEdgeData *dependencyData,
							size_t numDependencies, unsigned int flags)
{
	struct ckc_stream *s;
	struct ckc_capture c;
	uint64_t *ids = NULL;
	CUresult err = find_stream_capture(hStream, &s, &c);

	if (!err && c.invalid)
		err = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!err)
		err = ckc_node_ids(dependencies, numDependencies, &ids);
	if (!err)
		err = ck_wire_capture_update(
			ckc_current_id(), s->object.id, ids, numDependencies, dependencyData,
			dependencyData ? numDependencies * sizeof(*dependencyData) : 0, flags);
	free(ids);
	return err;
}

CK_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
						     size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
						    flags);
}

CK_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct ckc_thread *t = ckc_thread();
	CUstreamCaptureMode was;

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	was = t->capture_mode;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	t->capture_mode = *mode;
	*mode = was;
	return ckc_session_check();
}
