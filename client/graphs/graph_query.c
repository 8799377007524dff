/*
 * client/graphs/graph_query.c - the structure of graphs: query nodes and edges, and change edges.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/graphs/graph.h"

/*
 * Return a list in CUDA's way. Without an array, return only the number. If the array is larger
 * than the list, clear the rest. *count is the number of entries written.
 */
static CUresult hand_out(struct ckc_graph *graph, const uint64_t *ids, size_t found,
			 CUgraphNode *out, size_t room)
{
	for (size_t i = 0; i < room; i++) {
		out[i] = i < found ? (CUgraphNode)ckc_graph_node(graph, ids[i]) : NULL;
		if (i < found && !out[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static void set_count(size_t *count, size_t found, bool listed)
{
	*count = !listed || found < *count ? found : *count;
}

/* Checks at the start of each call: the session, then the graph. */
static CUresult enter_graph(CUgraph handle, struct ckc_graph **graph)
{
	CUresult err = ckc_session_check();

	return err ? err : ckc_graph_from(handle, graph);
}

static CUresult list_nodes(CUgraph handle, unsigned int roots, CUgraphNode *out, size_t *count)
{
	struct ckc_graph *graph;
	uint64_t *ids = NULL;
	size_t found = 0;
	CUresult err = enter_graph(handle, &graph);

	if (err)
		return err;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!out && !roots && ckc_graph_count(graph, count))
		return CUDA_SUCCESS;
	err = ck_wire_graph_nodes(ckc_current_id(), graph->object.id, roots, &ids, &found);
	if (!err && out && *count == 0 &&
	    found > 0) /* as the driver: an array of no entries is a mistake */
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err && out)
		err = hand_out(graph, ids, found, out, *count);
	if (!err)
		set_count(count, found, out != NULL);
	free(ids);
	return err;
}

CK_EXPORT CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes_out, size_t *numNodes)
{
	return list_nodes(hGraph, 0, nodes_out, numNodes);
}

CK_EXPORT CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return list_nodes(hGraph, 1, rootNodes, numRootNodes);
}

/* Edges from a reply: all of a graph, or those of one node. */
struct edges {
	struct ckc_graph *graph;
	uint64_t node;
	unsigned int which;
	uint64_t *from, *to;
	size_t found;
	CUgraphEdgeData *data;
};

static CUresult query_edges(struct edges *e)
{
	ck_graph_edges_res r;
	CUresult err = ck_wire_graph_edges(&(ck_graph_edges_args){.head.ctx = ckc_current_id(),
								  .graph = e->graph->object.id,
								  .node = e->node,
								  .which = e->which},
					   &r);

	e->from = r.from.from_val;
	e->found = r.from.from_len;
	e->to = r.to.to_val;
	e->data = (void *)r.data.data_val;
	if (!err && (r.data.data_len != e->found * sizeof(*e->data) || r.to.to_len != e->found))
		err = CUDA_ERROR_UNKNOWN;
	return err;
}

/* Write the edges to the caller's arrays; NULL: not wanted. */
static CUresult write_edges(const struct edges *e, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *data, size_t *count)
{
	bool listed = from || to;
	CUresult err = CUDA_SUCCESS;

	if (listed && *count == 0 && e->found > 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (listed && !data && ckc_edges_hold_data(e->data, e->found))
		return CUDA_ERROR_LOSSY_QUERY;
	if (from)
		err = hand_out(e->graph, e->from, e->found, from, *count);
	if (!err && to)
		err = hand_out(e->graph, e->to, e->found, to, *count);
	if (err)
		return err;
	for (size_t i = 0; listed && data && i < *count; i++)
		data[i] = i < e->found ? e->data[i] : (CUgraphEdgeData){0};
	set_count(count, e->found, listed);
	return CUDA_SUCCESS;
}

static void free_edges(struct edges *e)
{
	free(e->from);
	free(e->to);
	free(e->data);
}

CK_EXPORT CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				      CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct edges e = {0};
	CUresult err = enter_graph(hGraph, &e.graph);

	if (err)
		return err;
	if (!numEdges || !from != !to || (edgeData && !from))
		return CUDA_ERROR_INVALID_VALUE;
	err = query_edges(&e);
	if (!err)
		err = write_edges(&e, from, to, edgeData, numEdges);
	free_edges(&e);
	return err;
}

CK_EXPORT CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				   size_t *numEdges)
{
	return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

/* Query the edges that end (@which 1) or begin (2) at a node, and return their other ends. */
static CUresult list_neighbours(CUgraphNode handle, unsigned int which, CUgraphNode *out,
				CUgraphEdgeData *data, size_t *count)
{
	struct edges e = {.which = which};
	struct ckc_node *node;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(handle, &node);
	if (!err && (!count || (data && !out)))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	e.graph = node->graph;
	e.node = node->object.id;
	err = query_edges(&e);
	if (!err)
		err = write_edges(&e, which == 1 ? out : NULL, which == 2 ? out : NULL, data,
				  count);
	free_edges(&e);
	return err;
}

CK_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
						 CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	return list_neighbours(hNode, 1, dependencies, edgeData, numDependencies);
}

CK_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					      size_t *numDependencies)
{
	return list_neighbours(hNode, 1, dependencies, NULL, numDependencies);
}

CK_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
						   CUgraphEdgeData *edgeData,
						   size_t *numDependentNodes)
{
	return list_neighbours(hNode, 2, dependentNodes, edgeData, numDependentNodes);
}

CK_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
						size_t *numDependentNodes)
{
	return list_neighbours(hNode, 2, dependentNodes, NULL, numDependentNodes);
}

#define LINKS_MAX ((size_t)32768) /* edges per message, which has room for 40000 */

/* Send the edges in pieces. If one piece fails, undo those before it: CUDA changes all edges or
 * none. */
static CUresult link_ids(uint64_t graph, unsigned int cut, const uint64_t *from, const uint64_t *to,
			 const CUgraphEdgeData *data, size_t count)
{
	const size_t at = ck_min(count, LINKS_MAX);
	ck_graph_link_args a = {
		.head.ctx = ckc_current_id(),
		.graph = graph,
		.cut = cut,
		.from = CK_LIST(from, at),
		.to = CK_LIST(to, at),
		.data = CK_LIST(data, data ? at * sizeof(*data) : 0),
	};
	ck_graph_link_res r;
	CUresult err = ck_wire_graph_link(&a, &r);

	if (err || at == count)
		return err;
	err = link_ids(graph, cut, from + at, to + at, data ? data + at : NULL, count - at);
	a.cut = !cut;
	if (err)
		ck_wire_graph_link(&a, &r);
	return err;
}

static CUresult link_nodes(CUgraph handle, unsigned int cut, const CUgraphNode *from,
			   const CUgraphNode *to, const CUgraphEdgeData *data, size_t count)
{
	uint64_t *from_ids = NULL, *to_ids = NULL;
	struct ckc_graph *graph;
	CUresult err = enter_graph(handle, &graph);

	if (err)
		return err;
	err = ckc_node_ids(from, count, &from_ids);
	if (!err)
		err = ckc_node_ids(to, count, &to_ids);
	if (!err && count > 0)
		err = link_ids(graph->object.id, cut, from_ids, to_ids, data, count);
	free(from_ids);
	free(to_ids);
	return err;
}

CK_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					     const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					     size_t numDependencies)
{
	return link_nodes(hGraph, 0, from, to, edgeData, numDependencies);
}

CK_EXPORT CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
					  const CUgraphNode *to, size_t numDependencies)
{
	return link_nodes(hGraph, 0, from, to, NULL, numDependencies);
}

CK_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
						const CUgraphNode *to,
						const CUgraphEdgeData *edgeData,
						size_t numDependencies)
{
	return link_nodes(hGraph, 1, from, to, edgeData, numDependencies);
}

CK_EXPORT CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
					     const CUgraphNode *to, size_t numDependencies)
{
	return link_nodes(hGraph, 1, from, to, NULL, numDependencies);
}

/* The server produces the text; the file is the application's, so it is written here. */
static CUresult write_dot(struct ckc_graph *graph, unsigned int flags, FILE *file)
{
	size_t at = 0, size;
	CUresult err;
	void *text;

	do {
		text = NULL;
		size = 0;
		err = ck_wire_graph_dot(ckc_current_id(), graph->object.id, flags, at, &text,
					&size);
		if (!err && size > 0 && fwrite(text, 1, size, file) != size)
			err = CUDA_ERROR_OPERATING_SYSTEM;
		free(text);
		at += size;
	} while (!err && size > 0);
	return err;
}

CK_EXPORT CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	struct ckc_graph *graph;
	CUresult err = enter_graph(hGraph, &graph);
	FILE *file;

	if (err)
		return err;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	file = fopen(path, "we");
	if (!file)
		return CUDA_ERROR_OPERATING_SYSTEM;
	err = write_dot(graph, flags, file);
	if (fclose(file) != 0 && !err)
		err = CUDA_ERROR_OPERATING_SYSTEM;
	return err;
}

/* All attributes have 64 bits; the driver refuses unknown ones. */
static CUresult access_memory_attr(CUdevice device, CUgraphMem_attribute attr, bool set,
				   cuuint64_t *value)
{
	int ordinal;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(device, &ordinal);
	if (!err && !value)
		err = CUDA_ERROR_INVALID_VALUE;
	return err ? err
		   : ck_wire_graph_memory(ckc_current_id(), ordinal, attr, set, set ? *value : 0,
					  set ? NULL : value);
}

CK_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
						void *value)
{
	return access_memory_attr(device, attr, false, value);
}

CK_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
						void *value)
{
	return access_memory_attr(device, attr, true, value);
}
