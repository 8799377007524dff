/*
 * emu/graphs/graph_edge.c - the edges of graphs, and the calls that list nodes and edges.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/graphs/graph.h"

static int list_add(struct ck_emu_edges *edges, struct ck_emu_node *node,
		    const CUgraphEdgeData *data)
{
	if (edges->count == edges->room) {
		size_t room = edges->room ? 2 * edges->room : 4;
		void *bigger = realloc(edges->list, room * sizeof(*edges->list));

		if (!bigger)
			return -ENOMEM;
		edges->list = bigger;
		edges->room = room;
	}
	edges->list[edges->count] = (struct ck_emu_edge){.node = node};
	if (data)
		edges->list[edges->count].data = *data;
	edges->count++;
	return 0;
}

/* The place of a node in a list; its count: not there. */
static size_t list_find(const struct ck_emu_edges *edges, const struct ck_emu_node *node)
{
	size_t i = 0;

	while (i < edges->count && edges->list[i].node != node)
		i++;
	return i;
}

static void list_remove(struct ck_emu_edges *edges, const struct ck_emu_node *node)
{
	size_t i = list_find(edges, node);

	edges->count--;
	memmove(&edges->list[i], &edges->list[i + 1], (edges->count - i) * sizeof(*edges->list));
}

int ck_emu_edge_add(struct ck_emu_node *from, struct ck_emu_node *to, const CUgraphEdgeData *data)
{
	if (list_find(&to->in, from) < to->in.count)
		return -EEXIST;
	if (list_add(&to->in, from, data) < 0)
		return -ENOMEM;
	if (list_add(&from->out, to, data) < 0) {
		to->in.count--;
		return -ENOMEM;
	}
	return 0;
}

static void remove_edge(struct ck_emu_node *from, struct ck_emu_node *to)
{
	if (list_find(&to->in, from) == to->in.count)
		return;
	list_remove(&to->in, from);
	list_remove(&from->out, to);
}

void ck_emu_edges_drop(struct ck_emu_node *node)
{
	for (size_t i = 0; i < node->in.count; i++)
		list_remove(&node->in.list[i].node->out, node);
	for (size_t i = 0; i < node->out.count; i++)
		list_remove(&node->out.list[i].node->in, node);
	free(node->in.list);
	free(node->out.list);
	node->in = node->out = (struct ck_emu_edges){0};
}

/*
 * The edges of a driver without programmatic launches in graphs: plain ones, and those of kernels.
 */
static bool data_valid(const CUgraphEdgeData *data, const struct ck_emu_node *from)
{
	static const unsigned char zero[sizeof(data->reserved)];
	bool kernel = from->step->params.type == CU_GRAPH_NODE_TYPE_KERNEL;

	return memcmp(data->reserved, zero, sizeof(zero)) == 0 && !data->to_port &&
	       data->type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
	       data->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER &&
	       (kernel || (!data->from_port && !data->type)) && (data->from_port || !data->type);
}

CUresult ck_emu_edges_check(const struct ck_emu_graph *graph, const CUgraphNode *nodes,
			    const CUgraphEdgeData *data, size_t count)
{
	if (count && !nodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		const struct ck_emu_node *node = ck_emu_node_find(nodes[i]);

		if (!node || node->graph != graph || (data && !data_valid(&data[i], node)))
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t j = 0; j < i; j++) {
			if (nodes[j] == nodes[i])
				return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return CUDA_SUCCESS;
}

/* --- changing edges --- */

/* The two ends of edge @i, if it may be one of @graph. */
static bool ends_find(const struct ck_emu_graph *graph, CUgraphNode from, CUgraphNode to,
		      struct ck_emu_node **before, struct ck_emu_node **after)
{
	*before = ck_emu_node_find(from);
	*after = ck_emu_node_find(to);
	return *before && *after && *before != *after && (*before)->graph == graph &&
	       (*after)->graph == graph;
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	struct ck_emu_node *before, *after;
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);
	size_t i = 0;
	int error = 0;

	if (result != CUDA_SUCCESS)
		return result;
	if (numDependencies && (!from || !to))
		error = -EINVAL;
	for (; !error && i < numDependencies; i++) {
		const CUgraphEdgeData *data = edgeData ? &edgeData[i] : NULL;

		if (!ends_find(graph, from[i], to[i], &before, &after) ||
		    (data && !data_valid(data, before)))
			error = -EINVAL;
		else
			error = ck_emu_edge_add(before, after, data);
	}
	/* all or none: the failing one was counted, and is not there */
	while (error && i > 0 && --i > 0)
		remove_edge(ck_emu_node_find(from[i - 1]), ck_emu_node_find(to[i - 1]));
	ck_emu_graph_unlock();
	if (error)
		return error == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				size_t numDependencies)
{
	return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

/* True when all of these are edges of @graph, with the data given. */
static bool edges_are(const struct ck_emu_graph *graph, const CUgraphNode *from,
		      const CUgraphNode *to, const CUgraphEdgeData *data, size_t count)
{
	static const CUgraphEdgeData plain;
	struct ck_emu_node *before, *after;

	for (size_t i = 0; i < count; i++) {
		size_t at;

		if (!ends_find(graph, from[i], to[i], &before, &after))
			return false;
		at = list_find(&after->in, before);
		if (at == after->in.count ||
		    memcmp(&after->in.list[at].data, data ? &data[i] : &plain, sizeof(plain)) != 0)
			return false;
	}
	return true;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
				      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
				      size_t numDependencies)
{
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	if (numDependencies &&
	    (!from || !to || !edges_are(graph, from, to, edgeData, numDependencies)))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (ck_emu_graph_has_memory(graph))
		result = CUDA_ERROR_NOT_SUPPORTED; /* its place decides its memory
						    */
	for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++)
		remove_edge(ck_emu_node_find(from[i]), ck_emu_node_find(to[i]));
	ck_emu_graph_unlock();
	return result;
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t numDependencies)
{
	return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

/* --- lists --- */

/*
 * Lists are given as CUDA gives them: with no room, their length; else as much as fits, the rest
 * zero, and the number given.
 */
struct out {
	CUgraphNode *first, *second;
	CUgraphEdgeData *data;
	size_t room, count;
	bool lossy; /* there was edge data, and no place for it */
};

static void out_add(struct out *out, const struct ck_emu_node *first,
		    const struct ck_emu_node *second, const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;

	if (out->first && out->count < out->room) {
		out->first[out->count] = (CUgraphNode)first;
		if (out->second)
			out->second[out->count] = (CUgraphNode)second;
		if (out->data)
			out->data[out->count] = *data;
		else if (data && memcmp(data, &plain, sizeof(plain)) != 0)
			out->lossy = true;
	}
	out->count++;
}

static CUresult out_end(struct out *out, size_t *count)
{
	size_t given = ck_min(out->count, out->room);

	if (!out->first) {
		*count = out->count;
		return CUDA_SUCCESS;
	}
	if (out->room == 0 && out->count > 0)
		return CUDA_ERROR_INVALID_VALUE;
	memset(out->first + given, 0, (out->room - given) * sizeof(*out->first));
	if (out->second)
		memset(out->second + given, 0, (out->room - given) * sizeof(*out->second));
	*count = given;
	return out->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

static CUresult nodes_list(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct out out = {.first = nodes, .room = nodes && count ? *count : 0};
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(handle, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < graph->count; i++) {
		if (!roots || !graph->nodes[i]->in.count)
			out_add(&out, graph->nodes[i], NULL, NULL);
	}
	ck_emu_graph_unlock();
	return count ? out_end(&out, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return nodes_list(hGraph, nodes, numNodes, false);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return nodes_list(hGraph, rootNodes, numRootNodes, true);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct out out = {.first = from,
			  .second = to,
			  .data = edgeData,
			  .room = from && numEdges ? *numEdges : 0};
	struct ck_emu_graph *graph;
	CUresult result = ck_emu_graph_begin(hGraph, &graph);

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < graph->count; i++) {
		const struct ck_emu_edges *edges = &graph->nodes[i]->out;

		for (size_t e = 0; e < edges->count; e++)
			out_add(&out, graph->nodes[i], edges->list[e].node, &edges->list[e].data);
	}
	ck_emu_graph_unlock();
	if (!numEdges || !from != !to || (edgeData && !from))
		return CUDA_ERROR_INVALID_VALUE;
	return out_end(&out, numEdges);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

static CUresult neighbours_list(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
				size_t *count, bool before)
{
	struct out out = {.first = nodes, .data = data, .room = nodes && count ? *count : 0};
	struct ck_emu_node *node;
	CUresult result = ck_emu_node_begin(handle, &node);
	const struct ck_emu_edges *edges;

	if (result != CUDA_SUCCESS)
		return result;
	edges = before ? &node->in : &node->out;
	for (size_t i = 0; i < edges->count; i++)
		out_add(&out, edges->list[i].node, NULL, &edges->list[i].data);
	ck_emu_graph_unlock();
	return count && (nodes || !data) ? out_end(&out, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
				       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	return neighbours_list(hNode, dependencies, edgeData, numDependencies, true);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
				    size_t *numDependencies)
{
	return neighbours_list(hNode, dependencies, NULL, numDependencies, true);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
					 CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	return neighbours_list(hNode, dependentNodes, edgeData, numDependentNodes, false);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
				      size_t *numDependentNodes)
{
	return neighbours_list(hNode, dependentNodes, NULL, numDependentNodes, false);
}
