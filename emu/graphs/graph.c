/*
 * emu/graphs/graph.c - graphs and their nodes: ownership, copies, order.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/graphs/graph.h"
#include "emu/graphs/graph_run.h"
#include "emu/graphs/user_object.h"

static uint64_t last_id; /* of graphs and nodes */

static void graph_free(struct ck_emu_object *object)
{
	struct ck_emu_graph *graph = (struct ck_emu_graph *)object;

	free(graph->nodes);
	free(graph);
}

struct ck_emu_graph *ck_emu_graph_create(bool handle)
{
	struct ck_emu_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	ck_emu_object_init(&graph->base, CK_EMU_GRAPH, NULL, graph_free);
	graph->id = ++last_id;
	if (handle && ck_emu_object_publish(&graph->base) != CUDA_SUCCESS) {
		ck_emu_object_put(&graph->base);
		return NULL;
	}
	return graph;
}

void ck_emu_graph_end(struct ck_emu_graph *graph)
{
	ck_emu_object_retract(&graph->base);
	while (graph->count)
		ck_emu_node_end(graph->nodes[graph->count - 1]);
	ck_emu_keeps_drop(&graph->keeps);
	ck_emu_conditions_drop(&graph->conditions);
	ck_emu_object_put(&graph->base);
}

static void node_free(struct ck_emu_object *object)
{
	free(object);
}

/* Room for one more node: false when out of memory. */
static bool nodes_grow(struct ck_emu_graph *graph)
{
	size_t room = graph->room ? 2 * graph->room : 8;
	void *bigger;

	if (graph->count < graph->room)
		return true;
	bigger = realloc(graph->nodes, room * sizeof(struct ck_emu_node *));
	if (!bigger)
		return false;
	graph->nodes = bigger;
	graph->room = room;
	return true;
}

struct ck_emu_node *ck_emu_node_create(struct ck_emu_graph *graph, struct ck_emu_step *step,
				       bool handle)
{
	struct ck_emu_node *node = nodes_grow(graph) ? calloc(1, sizeof(*node)) : NULL;

	if (!node)
		return NULL;
	ck_emu_object_init(&node->base, CK_EMU_NODE, NULL, node_free);
	node->graph = graph;
	node->id = ++last_id;
	if (handle && ck_emu_object_publish(&node->base) != CUDA_SUCCESS) {
		ck_emu_object_put(&node->base);
		return NULL;
	}
	node->step = step;
	graph->nodes[graph->count++] = node;
	return node;
}

void ck_emu_node_end(struct ck_emu_node *node)
{
	struct ck_emu_graph *graph = node->graph;
	size_t i = graph->count - 1;

	ck_emu_object_retract(&node->base);
	ck_emu_edges_drop(node);
	while (graph->nodes[i] != node)
		i--;
	for (graph->count--; i < graph->count; i++)
		graph->nodes[i] = graph->nodes[i + 1];
	if (node->child)
		ck_emu_graph_end(node->child);
	for (unsigned int b = 0; node->bodies && b < node->step->params.conditional.size; b++) {
		if (node->bodies[b])
			ck_emu_graph_end(node->bodies[b]);
	}
	if (node->bodies && !node->origin) /* copies share it */
		ck_emu_condition_use(node->step->condition, false);
	free(node->bodies);
	ck_emu_step_put(node->step);
	node->graph = NULL;
	ck_emu_object_put(&node->base);
}

/* --- copies --- */

static bool bodies_copy(struct ck_emu_node *to, const struct ck_emu_node *from, bool handles)
{
	unsigned int size = from->step->params.conditional.size;

	to->bodies = calloc(size, sizeof(struct ck_emu_graph *));
	for (unsigned int i = 0; to->bodies && i < size; i++) {
		to->bodies[i] = ck_emu_graph_copy(from->bodies[i], handles);
		if (!to->bodies[i])
			return false;
		to->bodies[i]->parent = to;
	}
	return to->bodies != NULL;
}

static bool node_copy(struct ck_emu_graph *graph, const struct ck_emu_node *from, bool handles)
{
	struct ck_emu_node *to = ck_emu_node_create(graph, from->step, handles);

	if (!to)
		return false;
	ck_emu_step_ref(from->step);
	to->origin = from->id;
	to->disabled = from->disabled;
	if (from->child) {
		to->child = ck_emu_graph_copy(from->child, handles);
		if (!to->child)
			return false;
		to->child->parent = to;
	}
	return !from->bodies || bodies_copy(to, from, handles);
}

/* The edges into node @i of @from, between the nodes at the same places of @to. */
static bool edges_copy(const struct ck_emu_graph *from, struct ck_emu_graph *to, size_t i)
{
	const struct ck_emu_edges *in = &from->nodes[i]->in;

	for (size_t e = 0; e < in->count; e++) {
		struct ck_emu_node *before = to->nodes[in->list[e].node->waits];

		if (ck_emu_edge_add(before, to->nodes[i], &in->list[e].data) < 0)
			return false;
	}
	return true;
}

struct ck_emu_graph *ck_emu_graph_copy(const struct ck_emu_graph *graph, bool handles)
{
	struct ck_emu_graph *copy = ck_emu_graph_create(handles);
	bool whole = copy != NULL;

	for (size_t i = 0; whole && i < graph->count; i++) {
		graph->nodes[i]->waits = i; /* here: its place */
		whole = node_copy(copy, graph->nodes[i], handles);
	}
	for (size_t i = 0; whole && i < graph->count; i++)
		whole = edges_copy(graph, copy, i);
	if (whole)
		whole = ck_emu_keeps_copy(&copy->keeps, graph->keeps);
	if (whole) {
		copy->origin = graph->id;
		return copy;
	}
	if (copy)
		ck_emu_graph_end(copy);
	return NULL;
}

bool ck_emu_graph_has_memory(const struct ck_emu_graph *graph)
{
	for (size_t i = 0; i < graph->count; i++) {
		if (graph->nodes[i]->step->memory)
			return true;
	}
	return false; /* none is below: such a graph is never a child */
}

struct ck_emu_node *ck_emu_graph_copy_of(const struct ck_emu_graph *graph, uint64_t origin,
					 bool deep)
{
	struct ck_emu_node *found = NULL;

	for (size_t i = 0; !found && i < graph->count; i++) {
		struct ck_emu_node *node = graph->nodes[i];

		if (node->origin == origin)
			found = node;
		if (!found && deep && node->child)
			found = ck_emu_graph_copy_of(node->child, origin, deep);
		for (unsigned int b = 0;
		     !found && deep && node->bodies && b < node->step->params.conditional.size; b++)
			found = ck_emu_graph_copy_of(node->bodies[b], origin, deep);
	}
	return found;
}

bool ck_emu_graph_order(const struct ck_emu_graph *graph, struct ck_emu_node **order)
{
	size_t count = 0;

	for (size_t i = 0; i < graph->count; i++) {
		graph->nodes[i]->waits = graph->nodes[i]->in.count;
		if (!graph->nodes[i]->waits)
			order[count++] = graph->nodes[i];
	}
	for (size_t next = 0; next < count; next++) {
		const struct ck_emu_edges *out = &order[next]->out;

		for (size_t e = 0; e < out->count; e++) {
			if (--out->list[e].node->waits == 0)
				order[count++] = out->list[e].node;
		}
	}
	return count == graph->count;
}

/* --- calls --- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_graph *graph;

	if (result != CUDA_SUCCESS)
		return result;
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	ck_emu_graph_lock();
	graph = ck_emu_graph_create(true);
	ck_emu_graph_unlock();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = (CUgraph)graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	/* a child or body goes with its node, and a capture needs its graph */
	if (graph->parent || graph->captures)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		ck_emu_graph_end(graph);
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct ck_emu_graph *graph, *copy;
	CUresult result = ck_emu_graph_begin(originalGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_graph_has_memory(graph) || graph->conditions) {
		result = CUDA_ERROR_NOT_SUPPORTED;
		goto unlock;
	}
	copy = phGraphClone ? ck_emu_graph_copy(graph, true) : NULL;
	if (copy)
		*phGraphClone = (CUgraph)copy;
	else
		result = phGraphClone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
unlock:
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
				CUgraph hClonedGraph)
{
	struct ck_emu_node *node, *found = NULL;
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_node_begin(hOriginalNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	graph = ck_emu_graph_find(hClonedGraph);
	if (graph && phNode)
		found = ck_emu_graph_copy_of(graph, node->id, false);
	if (found)
		*phNode = (CUgraphNode)found;
	ck_emu_graph_unlock();
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	/* the address of an allocation is fixed, so its nodes stay for as long as their graph */
	if (node->step->memory)
		result = CUDA_ERROR_NOT_SUPPORTED;
	else
		ck_emu_node_end(node);
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphGetId(CUgraph hGraph, unsigned int *graphId)
{
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	if (graphId)
		*graphId = (unsigned int)graph->id;
	ck_emu_graph_unlock();
	return graphId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (toolsNodeId)
		*toolsNodeId = node->id;
	ck_emu_graph_unlock();
	return toolsNodeId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId)
{
	unsigned long long id = 0;
	CUresult result = nodeId ? cuGraphNodeGetToolsId(hNode, &id) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*nodeId = (unsigned int)id;
	return result;
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (phGraph)
		*phGraph = (CUgraph)node->graph;
	ck_emu_graph_unlock();
	return phGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(hNode, &node);

	if (result != CUDA_SUCCESS)
		return result;
	if (type)
		*type = node->step->params.type;
	ck_emu_graph_unlock();
	return type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
