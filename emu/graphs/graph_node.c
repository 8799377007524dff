/*
 * emu/graphs/graph_node.c - adding nodes, and getting and setting their parameters.
 */
#include <stdlib.h>

#include "emu/graphs/graph_node.h"
#include "libcuda/libcuda.h"
#include "emu/graphs/graph_run.h"

/* --- adding --- */

/* The dependencies of a new node, as the application lists them. */
struct before {
	const CUgraphNode *nodes;
	const CUgraphEdgeData *data; /* may be NULL */
	size_t count;
};

/* Give a new node the graphs below it. Lock held. */
static CUresult below_create(struct ck_emu_node *node)
{
	const CUgraphNodeParams *params = &node->step->params;
	unsigned int size = params->conditional.size;
	const struct ck_emu_graph *child;

	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		child = ck_emu_graph_find(params->graph.graph);
		if (child && ck_emu_graph_has_memory(child))
			return CUDA_ERROR_NOT_SUPPORTED;
		node->child = child ? ck_emu_graph_copy(child, true) : NULL;
		if (!node->child)
			return child ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
		node->child->parent = node;
	}
	if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_SUCCESS;
	node->bodies = calloc(size, sizeof(struct ck_emu_graph *));
	if (node->bodies && !ck_emu_condition_use(node->step->condition, true)) {
		free(node->bodies);
		node->bodies = NULL;
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (unsigned int i = 0; node->bodies && i < size; i++) {
		node->bodies[i] = ck_emu_graph_create(true);
		if (!node->bodies[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
		node->bodies[i]->parent = node;
	}
	return node->bodies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Add a node with this step, which it takes over, also on error. Lock held. */
static CUresult node_insert(struct ck_emu_graph *graph, struct ck_emu_step *step,
			    const struct before *before, struct ck_emu_node **out)
{
	CUresult result = ck_emu_edges_check(graph, before->nodes, before->data, before->count);
	struct ck_emu_node *node = NULL;

	if (result == CUDA_SUCCESS) {
		node = ck_emu_node_create(graph, step, true);
		result = node ? below_create(node) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; result == CUDA_SUCCESS && i < before->count; i++) {
		if (ck_emu_edge_add(ck_emu_node_find(before->nodes[i]), node,
				    before->data ? &before->data[i] : NULL) < 0)
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS)
		*out = node;
	else if (node)
		ck_emu_node_end(node);
	else
		ck_emu_step_put(step);
	return result;
}

/* cuGraphAddNode(), and the others. Outputs of a node are set in @params. */
static CUresult add_node(CUgraphNode *out, CUgraph handle, const struct before *before,
			 CUgraphNodeParams *params)
{
	const struct ck_emu_step_source source = {.params = params,
						  .context = ck_emu_thread_context()};
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_graph *graph;
	struct ck_emu_node *node;
	struct ck_emu_step *step;

	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_step_create(&source, &step);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_graph_begin(handle, &graph);
	if (result != CUDA_SUCCESS) {
		ck_emu_step_put(step);
		return result;
	}
	result = node_insert(graph, step, before, &node);
	if (result == CUDA_SUCCESS) {
		*out = (CUgraphNode)node;
		/* outputs in the caller's own parameters */
		if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			params->alloc.dptr = step->params.alloc.dptr;
		else if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			params->conditional.phGraph_out = (CUgraph *)node->bodies;
	}
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
			   size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	const struct before before = {dependencies, dependencyData, numDependencies};

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	return add_node(phGraphNode, hGraph, &before, nodeParams);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				 nodeParams);
}

/* --- asking and changing --- */

CUresult ck_emu_node_params(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *params)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(handle, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (node->step->params.type == type)
		*params = node->step->params;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_unlock();
	return result;
}

/* A node's new step keeps the facts that only the old one has: a kernel's attributes. */
CUresult ck_emu_step_change(const struct ck_emu_step *old, const CUgraphNodeParams *params,
			    struct ck_emu_step **step)
{
	const struct ck_emu_step_source source = {
		.params = params,
		.attributes = old->attributes,
		.attribute_count = old->attribute_count,
		/* a step stays in its context, unless the new one names another */
		.context = old->context ? old->context : ck_emu_thread_context(),
	};

	return ck_emu_step_create(&source, step);
}

/* Whether a node's parameters may be changed at all. */
static bool params_are_changeable(CUgraphNodeType type)
{
	return type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
	       type != CU_GRAPH_NODE_TYPE_GRAPH && type != CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

static CUresult change_node_params(CUgraphNode handle, const CUgraphNodeParams *params)
{
	struct ck_emu_step *old, *step;
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(handle, &node);

	if (result != CUDA_SUCCESS)
		return result;
	old = node->step;
	ck_emu_step_ref(old);
	ck_emu_graph_unlock();
	if (old->params.type != params->type || !params_are_changeable(params->type))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = ck_emu_step_change(old, params, &step);
	ck_emu_step_put(old);
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_node_begin(handle, &node);
	if (result != CUDA_SUCCESS) {
		ck_emu_step_put(step);
		return result;
	}
	old = node->step;
	node->step = step;
	ck_emu_graph_unlock();
	ck_emu_step_put(old);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return nodeParams ? change_node_params(hNode, nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (phGraph && node->child)
		*phGraph = (CUgraph)node->child;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_unlock();
	return result;
}

/* --- functions that libcuda/graph_kinds.c calls */

CUresult ck_libcuda_node_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
			     size_t count, CUgraphNodeParams *params)
{
	const struct before before = {dependencies, NULL, count};

	return add_node(out, graph, &before, params);
}

CUresult ck_libcuda_node_change(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	return exec ? ck_emu_exec_change(exec, node, params) : change_node_params(node, params);
}

CUresult ck_libcuda_node_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params)
{
	return type == CU_GRAPH_NODE_TYPE_KERNEL ? ck_emu_node_kernel(node, params)
						 : ck_emu_node_params(node, type, params);
}
