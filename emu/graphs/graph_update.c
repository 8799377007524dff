/*
 * emu/graphs/graph_update.c - changing instances: one node, or all from a graph of the same shape.
 */
#include <string.h>

#include "emu/graphs/graph_node.h"

/* --- permitted changes --- */

static bool one_row(const CUDA_MEMCPY3D *copy)
{
	return copy->Height <= 1 && copy->Depth <= 1;
}

/* CUDA's limits of an instance: contexts and kinds of memory stay, copies have one dimension. */
static bool steps_are_compatible(const struct ck_emu_step *old, const struct ck_emu_step *new)
{
	const CUgraphNodeParams *a = &old->params, *b = &new->params;

	if (old->context != new->context)
		return false;
	switch (b->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return a->memcpy.copyParams.srcMemoryType == b->memcpy.copyParams.srcMemoryType &&
		       a->memcpy.copyParams.dstMemoryType == b->memcpy.copyParams.dstMemoryType &&
		       one_row(&a->memcpy.copyParams) && one_row(&b->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return a->memset.height <= 1 && b->memset.height <= 1;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return old->memory == new->memory;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return old->condition == new->condition &&
		       a->conditional.type == b->conditional.type &&
		       a->conditional.size == b->conditional.size;
	default:
		return true;
	}
}

/* The same in a whole update, which may change copies of several dimensions as long as they stay.
 */
static bool update_compatible(const struct ck_emu_step *old, const struct ck_emu_step *new)
{
	return old == new || steps_are_compatible(old, new) ||
	       (old->context == new->context && old->params.type == new->params.type &&
		(old->params.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
		 old->params.type == CU_GRAPH_NODE_TYPE_MEMSET) &&
		memcmp(&old->params, &new->params, sizeof(old->params)) == 0);
}

/* --- whole graphs; the lock is held --- */

static CUgraphExecUpdateResult set_update_error(CUgraphExecUpdateResultInfo *info,
						CUgraphExecUpdateResult result,
						const struct ck_emu_node *node,
						const struct ck_emu_node *from)
{
	info->result = result;
	info->errorNode = (CUgraphNode)node;
	info->errorFromNode = (CUgraphNode)from;
	return result;
}

/* Whether the edges into a pair of nodes come from pairs, in the same order. */
static CUgraphExecUpdateResult edges_compare(const struct ck_emu_node *old,
					     const struct ck_emu_node *new,
					     CUgraphExecUpdateResultInfo *info)
{
	if (old->in.count != new->in.count)
		return set_update_error(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, new,
					NULL);
	for (size_t e = 0; e < new->in.count; e++) {
		if (old->in.list[e].node->waits != new->in.list[e].node->waits ||
		    memcmp(&old->in.list[e].data, &new->in.list[e].data, sizeof(CUgraphEdgeData)) !=
			    0)
			return set_update_error(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
						new, new->in.list[e].node);
	}
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult graph_compare(const struct ck_emu_graph *old,
					     const struct ck_emu_graph *new,
					     CUgraphExecUpdateResultInfo *info);

/* The contents of a pair of nodes. */
static CUgraphExecUpdateResult below_compare(const struct ck_emu_node *old,
					     const struct ck_emu_node *new,
					     CUgraphExecUpdateResultInfo *info)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	if (new->child)
		return graph_compare(old->child, new->child, info);
	for (unsigned int b = 0; !result && new->bodies &&b < new->step->params.conditional.size;
	     b++)
		result = graph_compare(old->bodies[b], new->bodies[b], info);
	return result;
}

static CUgraphExecUpdateResult node_compare(const struct ck_emu_node *old,
					    const struct ck_emu_node *new,
					    CUgraphExecUpdateResultInfo *info)
{
	CUgraphNodeType type = new->step->params.type;
	CUgraphExecUpdateResult result = edges_compare(old, new, info);

	if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return result;
	if (old->step->params.type != type)
		return set_update_error(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, new,
					NULL);
	if (!update_compatible(old->step, new->step))
		return set_update_error(
			info,
			type == CU_GRAPH_NODE_TYPE_KERNEL
				? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
				: CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
			new, NULL);
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult graph_compare(const struct ck_emu_graph *old,
					     const struct ck_emu_graph *new,
					     CUgraphExecUpdateResultInfo *info)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	if (old->count != new->count)
		return set_update_error(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL,
					NULL);
	for (size_t i = 0; i < new->count; i++)
		old->nodes[i]->waits = new->nodes[i]->waits = i; /* their places */
	for (size_t i = 0; !result && i < new->count; i++)
		result = node_compare(old->nodes[i], new->nodes[i], info);
	for (size_t i = 0; !result && i < new->count; i++)
		result = below_compare(old->nodes[i], new->nodes[i], info);
	return result;
}

/* Give the nodes of @to the steps of @from, which has the same shape. */
static void steps_move(struct ck_emu_graph *to, const struct ck_emu_graph *from)
{
	for (size_t i = 0; i < to->count; i++) {
		struct ck_emu_node *node = to->nodes[i];
		const struct ck_emu_node *other = from->nodes[i];

		ck_emu_step_ref(other->step);
		ck_emu_step_put(node->step);
		node->step = other->step;
		if (node->child)
			steps_move(node->child, other->child);
		for (unsigned int b = 0; node->bodies && b < node->step->params.conditional.size;
		     b++)
			steps_move(node->bodies[b], other->bodies[b]);
	}
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
			      CUgraphExecUpdateResultInfo *resultInfo)
{
	CUgraphExecUpdateResultInfo info = {0};
	struct ck_emu_graph *graph;
	struct ck_emu_exec *exec;
	CUresult result;

	if (!hGraph)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_exec_begin(hGraphExec, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	graph = ck_emu_graph_find(hGraph);
	if (!graph)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (graph_compare(exec->graph, graph, &info) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	else
		steps_move(exec->graph, graph);
	ck_emu_graph_unlock();
	if (resultInfo)
		*resultInfo = info;
	return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			   CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = {0};
	CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	if (updateResult_out)
		*updateResult_out = info.result;
	return result;
}

/* --- one node --- */

/* Give the child graph of a node the steps of another. Lock held. */
static CUresult child_change(struct ck_emu_node *node, CUgraph handle)
{
	const struct ck_emu_graph *graph = ck_emu_graph_find(handle);
	CUgraphExecUpdateResultInfo info;

	if (!graph || graph_compare(node->child, graph, &info) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	steps_move(node->child, graph);
	return CUDA_SUCCESS;
}

/* The node to change, with the lock held if it succeeds. */
static CUresult begin_node_update(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type,
				  struct ck_emu_node **node)
{
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_exec_begin(exec_handle, &exec);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_exec_node(exec, handle, node);
	if (result == CUDA_SUCCESS && (*node)->step->params.type != type)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		ck_emu_graph_unlock();
	return result;
}

static bool params_are_changeable(CUgraphNodeType type)
{
	return type != CU_GRAPH_NODE_TYPE_EMPTY && type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	       type != CU_GRAPH_NODE_TYPE_MEM_FREE && type != CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

/* Give a node another step, which this takes over, also on error. */
static CUresult step_give(CUgraphExec exec, CUgraphNode handle, struct ck_emu_step *step)
{
	struct ck_emu_node *node;
	CUresult result = begin_node_update(exec, handle, step->params.type, &node);
	struct ck_emu_step *old = step;

	if (result == CUDA_SUCCESS && !steps_are_compatible(node->step, step)) {
		result = CUDA_ERROR_INVALID_VALUE;
		ck_emu_graph_unlock();
	} else if (result == CUDA_SUCCESS) {
		old = node->step;
		node->step = step;
		ck_emu_graph_unlock();
	}
	ck_emu_step_put(old);
	return result;
}

CUresult ck_emu_exec_change(CUgraphExec exec, CUgraphNode handle, const CUgraphNodeParams *params)
{
	struct ck_emu_step *old, *step;
	struct ck_emu_node *node;
	CUresult result;

	if (!params_are_changeable(params->type))
		return CUDA_ERROR_INVALID_VALUE;
	result = begin_node_update(exec, handle, params->type, &node);
	if (result != CUDA_SUCCESS)
		return result;
	if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		result = child_change(node, params->graph.graph);
		ck_emu_graph_unlock();
		return result;
	}
	old = node->step;
	ck_emu_step_ref(old);
	ck_emu_graph_unlock();
	result = ck_emu_step_change(old, params, &step);
	ck_emu_step_put(old);
	return result == CUDA_SUCCESS ? step_give(exec, handle, step) : result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				  CUgraphNodeParams *nodeParams)
{
	return nodeParams ? ck_emu_exec_change(hGraphExec, hNode, nodeParams)
			  : CUDA_ERROR_INVALID_VALUE;
}
