/*
 * server/graphs/capture.c - streams that the client captures.
 *
 * Captures always run in relaxed mode, because the threads here are not the client's. The client
 * enforces the rules of the other modes.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/copy_side.h"
#include "gen/handlers.h"
#include "server/graphs/graph.h"
#include "server/graphs/mirror.h"
#include "server/memory/lease.h"
#include "server/memory/status.h"
#include "server/session/driver.h"

/* Mark of a stream in which a capture began: the kind of its graph. It ends with the stream. */
enum { CK_CAPTURE_NEW = 1, CK_CAPTURE_IN_GRAPH };

static CUresult begin_in_graph(struct cks_request *q, ck_capture_begin_args *a, CUstream stream)
{
	const size_t count = a->dependencies.dependencies_len;
	const CUgraphEdgeData *edges;
	CUgraphNode *nodes;
	CUgraph graph;
	CUresult err;

	if (!ck_driver.cuStreamBeginCaptureToGraph)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_edges_check(a->edges.edges_val, a->edges.edges_len, count, &edges);
	if (err)
		return err;
	err = cks_nodes_find(q, a->dependencies.dependencies_val, count, &nodes);
	if (!err)
		err = ck_driver.cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count,
							    CU_STREAM_CAPTURE_MODE_RELAXED);
	free(nodes);
	return err;
}

static CUresult begin_new(CUstream stream)
{
	if (!ck_driver.cuStreamBeginCapture_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

CUresult ck_serve_capture_begin(struct cks_request *q, ck_capture_begin_args *a,
				ck_capture_begin_res *res)
{
	unsigned char was;
	CUstream stream;
	CUresult err;

	(void)res;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	was = cks_handles_mark(q->session->handles, a->stream,
			       a->graph ? CK_CAPTURE_IN_GRAPH : CK_CAPTURE_NEW);
	cks_status_capture(q->session);
	ck_lock(&q->session->captures);
	q->session->captured = true;
	err = a->graph ? begin_in_graph(q, a, stream) : begin_new(stream);
	ck_unlock(&q->session->captures);
	if (err)
		cks_handles_mark(q->session->handles, a->stream, was);
	return err;
}

CUresult ck_serve_capture_start(struct cks_request *q, ck_capture_start_args *a, void *res)
{
	ck_capture_begin_args begin = {.head = a->head, .stream = a->stream};

	(void)res;
	return ck_serve_capture_begin(q, &begin, NULL);
}

/*
 * If the capture fails, the driver destroys its graph, unless the graph existed before: forget the
 * objects reported to the client. An unreported error of a command makes the capture fail too; in
 * any case, the program must get it.
 */
static CUresult end_capture(struct cks_request *q, uint64_t stream_id, CUgraph *graph)
{
	struct cks_handles *handles = q->session->handles;
	CUresult err, earlier;
	CUstream stream;
	uint64_t id;
	bool own, known;

	if (!ck_driver.cuStreamEndCapture)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, stream_id, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	known = cks_handles_known(handles, CK_KIND_GRAPH, cks_capture_graph(stream), &id);
	if (known)
		cks_handles_ending(handles, id, true);
	err = ck_driver.cuStreamEndCapture(stream, graph);
	own = cks_handles_mark(handles, stream_id, 0) == CK_CAPTURE_NEW;
	earlier = (CUresult)atomic_exchange(&q->session->async_error, 0);
	if (!err && earlier && own && ck_driver.cuGraphDestroy)
		ck_driver.cuGraphDestroy(*graph);
	if (known && own && (err || earlier)) {
		cks_mirrors_owner_gone(q->session->mirrors, id, NULL, NULL);
		cks_handle_remove(q, id);
	} else if (known) {
		cks_handles_ending(handles, id, false);
	}
	return earlier ? earlier : err;
}

CUresult ck_serve_capture_end(struct cks_request *q, ck_capture_end_args *a,
			      ck_capture_end_res *res)
{
	CUgraph graph = NULL;
	CUresult err = end_capture(q, a->stream, &graph);

	return err ? err : cks_handle_name(q, CK_KIND_GRAPH, graph, 0, &res->graph);
}

CUresult ck_serve_capture_graph(struct cks_request *q, ck_capture_graph_args *a,
				ck_capture_graph_res *res)
{
	CUgraph graph = NULL;
	size_t nodes = 0;
	CUresult err = end_capture(q, a->stream, &graph);

	if (!err)
		err = cks_handle_name(q, CK_KIND_GRAPH, graph, 0, &res->graph);
	if (!err)
		err = ck_driver.cuGraphGetNodes ? ck_driver.cuGraphGetNodes(graph, NULL, &nodes)
						: CUDA_ERROR_NOT_SUPPORTED;
	res->nodes = nodes;
	return err;
}

/* Result of cuStreamGetCaptureInfo; the driver owns the arrays. */
struct info {
	CUstreamCaptureStatus status;
	cuuint64_t sequence;
	CUgraph graph;
	const CUgraphNode *nodes;
	const CUgraphEdgeData *edges;
	size_t count;
};

static CUresult info_get(CUstream stream, struct info *i)
{
	if (ck_driver.cuStreamGetCaptureInfo_v3)
		return ck_driver.cuStreamGetCaptureInfo_v3(stream, &i->status, &i->sequence,
							   &i->graph, &i->nodes, &i->edges,
							   &i->count);
	if (ck_driver.cuStreamGetCaptureInfo_v2)
		return ck_driver.cuStreamGetCaptureInfo_v2(stream, &i->status, &i->sequence,
							   &i->graph, &i->nodes, &i->count);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_capture_info(struct cks_request *q, ck_capture_info_args *a,
			       ck_capture_info_res *res)
{
	struct info i = {0};
	CUstream stream;
	CUresult err;

	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	err = info_get(stream, &i);
	res->status = (int)i.status;
	if (err)
		return err;
	if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	res->sequence = i.sequence;
	err = cks_handle_name(q, CK_KIND_GRAPH, i.graph, 0, &res->graph);
	if (!err)
		err = cks_nodes_name(q, res->graph, i.nodes, i.count,
				     &res->dependencies.dependencies_val);
	if (err)
		return err;
	res->dependencies.dependencies_len = (u_int)i.count;
	res->edges.edges_val = calloc(i.count + 1, sizeof(*i.edges));
	if (!res->edges.edges_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->edges.edges_len = (u_int)(i.count * sizeof(*i.edges));
	if (i.edges)
		memcpy(res->edges.edges_val, i.edges, i.count * sizeof(*i.edges));
	return CUDA_SUCCESS;
}

CUresult ck_serve_capture_update(struct cks_request *q, ck_capture_update_args *a,
				 ck_capture_update_res *res)
{
	const size_t count = a->dependencies.dependencies_len;
	const CUgraphEdgeData *edges;
	CUgraphNode *nodes = NULL;
	CUstream stream;
	CUresult err;

	(void)res;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_edges_check(a->edges.edges_val, a->edges.edges_len, count, &edges);
	if (!err)
		err = cks_nodes_find(q, a->dependencies.dependencies_val, count, &nodes);
	if (err)
		return err;
	if (ck_driver.cuStreamUpdateCaptureDependencies_v2)
		err = ck_driver.cuStreamUpdateCaptureDependencies_v2(stream, nodes, edges, count,
								     a->flags);
	else if (ck_driver.cuStreamUpdateCaptureDependencies && !edges)
		err = ck_driver.cuStreamUpdateCaptureDependencies(stream, nodes, count, a->flags);
	else
		err = CUDA_ERROR_NOT_SUPPORTED;
	free(nodes);
	return err;
}

static bool is_linear(const CUDA_MEMCPY3D *c, enum ck_copy_end end)
{
	const struct ck_copy_side side = ck_copy_side(c, end);

	return side.type != CU_MEMORYTYPE_ARRAY && side.x == 0 && side.y == 0 && side.z == 0;
}

/* The driver makes a linear copy node only for a call of the linear kind. */
static CUresult capture_flat(const CUDA_MEMCPY3D *c, CUstream stream)
{
	bool to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
	bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST;
	size_t n = c->WidthInBytes;

	if (from_host && !to_host && ck_driver.cuMemcpyHtoDAsync_v2)
		return ck_driver.cuMemcpyHtoDAsync_v2(c->dstDevice, c->srcHost, n, stream);
	if (to_host && !from_host && ck_driver.cuMemcpyDtoHAsync_v2)
		return ck_driver.cuMemcpyDtoHAsync_v2(c->dstHost, c->srcDevice, n, stream);
	return ck_driver.cuMemcpy3DAsync_v2 ? ck_driver.cuMemcpy3DAsync_v2(c, stream)
					    : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_capture_copy(struct cks_request *q, ck_capture_copy_args *a,
			       ck_capture_copy_res *res)
{
	CUDA_MEMCPY3D copy;
	CUstream stream;
	CUgraph graph;
	uint64_t id;
	bool flat;
	CUresult err;

	(void)res;
	memcpy(&copy, a->copy, sizeof(copy));
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	graph = cks_capture_graph(stream);
	if (!graph)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	err = cks_handle_name(q, CK_KIND_GRAPH, graph, 0, &id);
	if (!err)
		err = cks_mirror_copy(q, &copy, cks_graph_root(q, id));
	if (err)
		return err;
	flat = copy.Height == 1 && copy.Depth == 1 && is_linear(&copy, CK_COPY_SOURCE) &&
	       is_linear(&copy, CK_COPY_DESTINATION);
	if (flat)
		return capture_flat(&copy, stream);
	return ck_driver.cuMemcpy3DAsync_v2 ? ck_driver.cuMemcpy3DAsync_v2(&copy, stream)
					    : CUDA_ERROR_NOT_SUPPORTED;
}
