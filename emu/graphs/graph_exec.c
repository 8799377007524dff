/*
 * emu/graphs/graph_exec.c - instances of graphs: making and ending them, and which of their nodes
 * run.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"
#include "emu/graphs/graph_pool.h"

#define FLAGS                                                                                      \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |    \
	 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |                                               \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

CUresult ck_emu_exec_begin(CUgraphExec handle, struct ck_emu_exec **exec)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_lock();
	*exec = ck_emu_object_get(handle, CK_EMU_EXEC);
	if (*exec) {
		ck_emu_object_put(&(*exec)->base); /* the handle goes under the lock only */
		return CUDA_SUCCESS;
	}
	ck_emu_graph_unlock();
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult ck_emu_exec_node(struct ck_emu_exec *exec, CUgraphNode handle, struct ck_emu_node **out)
{
	const struct ck_emu_node *node = ck_emu_node_find(handle);
	struct ck_emu_node *found = node ? ck_emu_graph_copy_of(exec->graph, node->id, true) : NULL;

	*out = found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The last reference may go on the thread of a stream, when the last launch is done. */
static void exec_free(struct ck_emu_object *object)
{
	struct ck_emu_exec *exec = (struct ck_emu_exec *)object;

	ck_emu_graph_pool_forget(exec);
	ck_emu_graph_lock();
	if (exec->claimed)
		ck_emu_graph_memory_claim(exec->graph, false);
	ck_emu_graph_end(exec->graph);
	ck_emu_graph_unlock();
	ck_emu_point_put(&exec->last);
	free(exec->order);
	free(exec);
}

/* Nodes of a graph and of all child graphs; not of bodies, whose order is found when they run. */
static size_t node_count(const struct ck_emu_graph *graph)
{
	size_t count = graph->count;

	for (size_t i = 0; i < graph->count; i++) {
		if (graph->nodes[i]->child)
			count += node_count(graph->nodes[i]->child);
	}
	return count;
}

/* Put all nodes in order from @at on, those of a child graph behind its node; NULL: a cycle. */
static struct ck_emu_node **flatten_graph(const struct ck_emu_graph *graph, struct ck_emu_node **at)
{
	struct ck_emu_node **order = calloc(graph->count + 1, sizeof(struct ck_emu_node *));

	if (!order || !ck_emu_graph_order(graph, order))
		at = NULL;
	for (size_t i = 0; at && i < graph->count; i++) {
		*at++ = order[i];
		if (order[i]->child)
			at = flatten_graph(order[i]->child, at);
		for (unsigned int b = 0;
		     at && order[i]->bodies && b < order[i]->step->params.conditional.size; b++) {
			struct ck_emu_node **scratch = calloc(node_count(order[i]->bodies[b]) + 1,
							      sizeof(struct ck_emu_node *));

			if (!scratch || !flatten_graph(order[i]->bodies[b], scratch))
				at = NULL;
			free(scratch);
		}
	}
	free(order);
	return at;
}

/* Whether all nodes below conditional nodes are of those kinds that may be there. */
static bool bodies_valid(const struct ck_emu_graph *graph, bool inside)
{
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_node *node = graph->nodes[i];
		CUgraphNodeType type = node->step->params.type;
		unsigned int size = node->bodies ? node->step->params.conditional.size : 0;

		if (inside && type != CU_GRAPH_NODE_TYPE_KERNEL &&
		    type != CU_GRAPH_NODE_TYPE_MEMCPY && type != CU_GRAPH_NODE_TYPE_MEMSET &&
		    type != CU_GRAPH_NODE_TYPE_EMPTY && type != CU_GRAPH_NODE_TYPE_GRAPH &&
		    type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
			return false;
		if (node->child && !bodies_valid(node->child, inside))
			return false;
		for (unsigned int b = 0; b < size; b++) {
			if (!bodies_valid(node->bodies[b], true))
				return false;
		}
	}
	return true;
}

/* Put the nodes of an instance in order, and take the memory that they allocate. */
static CUresult exec_check(struct ck_emu_exec *exec, CUgraphInstantiateResult *why)
{
	*why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	if (!flatten_graph(exec->graph, exec->order))
		return CUDA_ERROR_INVALID_VALUE;
	*why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	if (!bodies_valid(exec->graph, false))
		return CUDA_ERROR_INVALID_VALUE;
	/* one instance at a time has the memory */
	if (!ck_emu_graph_memory_claim(exec->graph, true))
		return CUDA_ERROR_NOT_SUPPORTED;
	*why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return CUDA_SUCCESS;
}

/* Lock held. */
static CUresult exec_create(const struct ck_emu_graph *graph, uint64_t flags,
			    struct ck_emu_exec **out, CUgraphInstantiateResult *why)
{
	struct ck_emu_exec *exec;
	CUresult result;

	if (!ck_emu_conditions_used(graph->conditions)) {
		*why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		return CUDA_ERROR_INVALID_VALUE;
	}
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->graph = ck_emu_graph_copy(graph, false);
	if (!exec->graph) {
		free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->flags = flags;
	exec->count = node_count(exec->graph);
	exec->order = calloc(exec->count + 1, sizeof(struct ck_emu_node *));
	result = exec->order ? exec_check(exec, why) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		ck_emu_graph_end(exec->graph);
		free(exec->order);
		free(exec);
		return result;
	}
	exec->claimed = true;
	ck_emu_object_init(&exec->base, CK_EMU_EXEC, NULL, exec_free);
	*out = exec;
	return CUDA_SUCCESS;
}

/* *@why: the same in other words. */
static CUresult instantiate_graph(CUgraphExec *out, CUgraph handle, uint64_t flags,
				  CUgraphInstantiateResult *why)
{
	struct ck_emu_graph *graph;
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_capture_unsafe();

	*why = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (result == CUDA_SUCCESS)
		result = ck_emu_graph_begin(handle, &graph);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags & ~(uint64_t)FLAGS)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		/* kernels here launch no graphs; an empty one could not be launched anyway */
		result = graph->count ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	else
		result = exec_create(graph, flags, &exec, why);
	ck_emu_graph_unlock();
	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_object_publish(&exec->base);
	if (result == CUDA_SUCCESS)
		*out = (CUgraphExec)exec;
	else
		ck_emu_object_put(&exec->base);
	return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
				     unsigned long long flags)
{
	CUgraphInstantiateResult why;

	return instantiate_graph(phGraphExec, hGraph, flags, &why);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			    char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*logBuffer = '\0';
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
			       char *logBuffer, size_t bufferSize)
{
	return cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	instantiateParams->hErrNode_out = NULL;
	return instantiate_graph(phGraphExec, hGraph, instantiateParams->flags,
				 &instantiateParams->result_out);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_capture_unsafe();

	if (result == CUDA_SUCCESS)
		result = ck_emu_exec_begin(hGraphExec, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_retract(&exec->base);
	ck_emu_graph_unlock();
	ck_emu_object_put(&exec->base); /* launches that still run hold it */
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId)
{
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_exec_begin(hGraphExec, &exec);

	if (result != CUDA_SUCCESS)
		return result;
	if (graphId)
		*graphId = (unsigned int)exec->graph->id;
	ck_emu_graph_unlock();
	return graphId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_exec_begin(hGraphExec, &exec);

	if (result != CUDA_SUCCESS)
		return result;
	/* an upload is over with the call that asked for it */
	if (flags)
		*flags = exec->flags & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	ck_emu_graph_unlock();
	return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A node that can be switched off. Takes the lock, if it succeeds. */
static CUresult switch_begin(CUgraphExec handle, CUgraphNode node_handle, struct ck_emu_node **node)
{
	struct ck_emu_exec *exec;
	CUresult result = ck_emu_exec_begin(handle, &exec);

	if (result != CUDA_SUCCESS)
		return result;
	result = ck_emu_exec_node(exec, node_handle, node);
	if (result == CUDA_SUCCESS) {
		CUgraphNodeType type = (*node)->step->params.type;

		if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMSET &&
		    type != CU_GRAPH_NODE_TYPE_MEMCPY)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result != CUDA_SUCCESS)
		ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct ck_emu_node *node;
	CUresult result = switch_begin(hGraphExec, hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	node->disabled = !isEnabled;
	ck_emu_graph_unlock();
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	struct ck_emu_node *node;
	CUresult result = switch_begin(hGraphExec, hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (isEnabled)
		*isEnabled = !node->disabled;
	ck_emu_graph_unlock();
	return isEnabled ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
