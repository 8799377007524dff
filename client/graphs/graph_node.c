/*
 * client/graphs/graph_node.c - add nodes of any type, change and query their parameters.
 */
#include <stdlib.h>
#include <string.h>

#include "client/graphs/graph_node.h"
#include "client/copy/mirror.h"
#include "libcuda/libcuda.h"

/* Note an allocation node's memory now, although it exists only when the graph runs. */
static void note_memory(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *a)
{
	const struct ckc_allocation memory = {
		.base = a->dptr,
		.size = a->bytesize,
		.kind = CK_MEMORY_DEVICE,
		.context = ckc_context_current(),
		.device = a->poolProps.location.id,
		.graph = true,
	};

	ckc_address_claim(a->dptr, a->bytesize);
	ckc_allocation_note(&memory);
}

/* Return the bodies of a conditional node, in an array that stays with the node. */
static CUresult tell_bodies(struct ckc_node *node, const uint64_t *ids, size_t count,
			    CUDA_CONDITIONAL_NODE_PARAMS *c)
{
	CUgraph *bodies = calloc(count + 1, sizeof(*bodies));

	if (!bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++)
		bodies[i] = (CUgraph)ckc_node_graph(node, ids[i]);
	free(node->kept);
	node->kept = bodies;
	c->phGraph_out = bodies;
	return CUDA_SUCCESS;
}

/* The reply to making a node. */
struct answer {
	uint64_t node, *graphs;
	CUdeviceptr address;
	size_t graph_count;
};

static CUresult finish_node(CUgraphNode *out, struct ckc_graph *graph, const struct answer *a,
			    CUgraphNodeParams *p)
{
	struct ckc_node *node = ckc_graph_node(graph, a->node);
	CUresult err = CUDA_SUCCESS;

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		p->alloc.dptr = a->address;
		note_memory(&p->alloc);
	} else if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		err = tell_bodies(node, a->graphs, a->graph_count, &p->conditional);
	} else if (p->type == CU_GRAPH_NODE_TYPE_GRAPH && p->graph.ownership) {
		struct ckc_graph *child = ckc_object_check(p->graph.graph, CK_OBJECT_GRAPH);

		if (child) /* moved: it belongs to the node from now on */
			ckc_node_graph(node, child->object.id);
	}
	*out = (CUgraphNode)node;
	return err;
}

/* Where to add a node: the graph, and the nodes before it. */
struct place {
	CUgraph graph;
	const CUgraphNode *dependencies;
	const CUgraphEdgeData *edges; /* or NULL */
	size_t count;
};

/* Make the node on the server; the reply is in @a. The caller frees its graphs, also on error. */
static CUresult send_node(uint64_t ctx, const struct ckc_graph *graph, const struct place *place,
			  const CUgraphNodeParams *params, struct answer *a)
{
	struct ckc_packed packed = {0};
	uint64_t *ids;
	CUresult err = ckc_node_ids(place->dependencies, place->count, &ids);

	if (err)
		return err;
	err = ckc_node_pack(params, &packed);
	if (!err) {
		ck_node_add_res r;

		err = ck_wire_node_add(
			&(ck_node_add_args){
				.head.ctx = ctx,
				.graph = graph->object.id,
				.dependencies = CK_LIST(ids, place->count),
				.edges = CK_LIST(place->edges,
						 place->edges ? place->count * sizeof(*place->edges)
							      : 0),
				.params = CK_LIST(packed.bytes, packed.size)},
			&r);
		*a = (struct answer){.node = r.node,
				     .address = r.address,
				     .graphs = r.graphs.graphs_val,
				     .graph_count = r.graphs.graphs_len};
		ckc_packed_free(&packed, err != CUDA_SUCCESS);
	}
	free(ids);
	return err;
}

static CUresult add_node(CUgraphNode *out, const struct place *place, CUgraphNodeParams *params)
{
	struct answer a = {0};
	struct ckc_graph *graph;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	err = ckc_graph_from(place->graph, &graph);
	if (err)
		return err;
	if (!out || !params)
		return CUDA_ERROR_INVALID_VALUE;
	err = send_node(ctx, graph, place, params, &a);
	if (!err)
		err = finish_node(out, graph, &a, params);
	free(a.graphs);
	return err;
}

CUresult ck_libcuda_node_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
			     size_t count, CUgraphNodeParams *params)
{
	const struct place place = {graph, dependencies, NULL, count};

	return add_node(out, &place, params);
}

CUresult ck_libcuda_node_change(CUgraphExec exec_handle, CUgraphNode handle,
				CUgraphNodeParams *params)
{
	uint64_t ctx;
	ck_node_set_res r;
	struct ckc_packed packed = {0};
	struct ckc_exec *exec = NULL;
	struct ckc_node *node;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (exec_handle && ckc_exec_from(exec_handle, &exec))
		return CUDA_ERROR_INVALID_VALUE;
	if (ckc_node_from(handle, &node) || !params)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_node_pack(params, &packed);
	if (err)
		return err;
	err = ck_wire_node_set(&(ck_node_set_args){.head.ctx = ctx,
						   .node = node->object.id,
						   .exec = exec ? exec->object.id : 0,
						   .params = CK_LIST(packed.bytes, packed.size)},
			       &r);
	ckc_packed_free(&packed, err != CUDA_SUCCESS);
	if (exec && (params->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
		     params->type == CU_GRAPH_NODE_TYPE_GRAPH)) {
		ckc_mirror_assign(exec, err, r.mirrors.mirrors_val, r.mirrors.mirrors_len,
				  r.gone.gone_val, r.gone.gone_len);
		return err;
	}
	if (!err && !exec && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		ckc_node_empty(node);
	xdr_free((xdrproc_t)xdr_ck_node_set_res, &r);
	return err;
}

CUresult ck_libcuda_node_params(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *params)
{
	struct ckc_node *node;
	void *bytes = NULL, *kept;
	size_t size = 0;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(handle, &node);
	if (!err)
		err = ck_wire_node_get(ckc_current_id(), node->object.id, (int)type, &bytes, &size);
	if (!err) {
		err = ckc_node_unpack(bytes, size, params, &kept);
		if (!err) {
			free(node->kept);
			node->kept = kept;
		} else {
			free(kept);
		}
	}
	free(bytes);
	return err;
}

CK_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependencyData, size_t numDependencies,
				     CUgraphNodeParams *nodeParams)
{
	const struct place place = {hGraph, dependencies, dependencyData, numDependencies};

	return add_node(phGraphNode, &place, nodeParams);
}

CK_EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				 nodeParams);
}

CK_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return ck_libcuda_node_change(NULL, hNode, nodeParams);
}

CK_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    CUgraphNodeParams *nodeParams)
{
	return hGraphExec ? ck_libcuda_node_change(hGraphExec, hNode, nodeParams)
			  : CUDA_ERROR_INVALID_VALUE;
}
