/*
 * client/graphs/graph.c - creation and destruction of graphs and nodes; see graph.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/graphs/graph.h"
#include "client/objects/capture.h"
#include "client/objects/capture_list.h"
#include "client/graphs/state.h"
#include "client/copy/mirror.h"

static struct ck_mutex *lists_lock(void)
{
	return &ckc_client_current()->graphs->lists_lock;
}

CUresult ckc_graph_from(CUgraph handle, struct ckc_graph **graph)
{
	*graph = ckc_object_check(handle, CK_OBJECT_GRAPH);
	return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ckc_node_from(CUgraphNode handle, struct ckc_node **node)
{
	*node = ckc_object_check(handle, CK_OBJECT_NODE);
	return *node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ckc_exec_from(CUgraphExec handle, struct ckc_exec **exec)
{
	*exec = ckc_object_check(handle, CK_OBJECT_EXEC);
	return *exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ckc_node_ids(const CUgraphNode *nodes, size_t count, uint64_t **ids)
{
	*ids = NULL;
	if (count == 0)
		return CUDA_SUCCESS;
	if (!nodes || count > CK_IDS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*ids = malloc(count * sizeof(**ids));
	if (!*ids)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		if (ckc_node_id(nodes[i], &(*ids)[i])) {
			free(*ids);
			*ids = NULL;
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return CUDA_SUCCESS;
}

uint64_t ckc_current_id(void)
{
	struct ckc_context *context = ckc_context_current();

	return context ? context->object.id : 0;
}

void ckc_graph_counted(struct ckc_graph *graph, size_t nodes)
{
	ck_lock(lists_lock());
	graph->count = nodes;
	graph->counted = true;
	ck_unlock(lists_lock());
}

void ckc_graph_change(struct ckc_graph *graph)
{
	ck_lock(lists_lock());
	graph->counted = false;
	ck_unlock(lists_lock());
}

bool ckc_graph_count(struct ckc_graph *graph, size_t *nodes)
{
	bool counted;

	ck_lock(lists_lock());
	counted = graph->counted;
	*nodes = graph->count;
	ck_unlock(lists_lock());
	return counted;
}

/* A node that is new here may be one that was added. */
struct ckc_node *ckc_graph_node(struct ckc_graph *graph, uint64_t id)
{
	struct ckc_node *node = ckc_object_named(CK_OBJECT_NODE, id);

	ck_lock(lists_lock());
	if (node && !node->graph) {
		graph->counted = false;
		node->graph = graph;
		node->next = graph->nodes;
		if (graph->nodes)
			graph->nodes->prev = node;
		graph->nodes = node;
	}
	ck_unlock(lists_lock());
	return node;
}

struct ckc_graph *ckc_node_graph(struct ckc_node *node, uint64_t id)
{
	struct ckc_graph *graph = ckc_object_named(CK_OBJECT_GRAPH, id);

	ck_lock(lists_lock());
	if (graph && !graph->inside) {
		graph->inside = node;
		graph->next = node->inner;
		node->inner = graph;
	}
	ck_unlock(lists_lock());
	return graph;
}

CUresult ckc_graph_handles(struct ckc_graph *graph, const uint64_t *ids, size_t count,
			   CUgraphNode **nodes)
{
	CUgraphNode *more = realloc(*nodes, (count + 1) * sizeof(*more));

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*nodes = more;
	for (size_t i = 0; i < count; i++) {
		more[i] = (CUgraphNode)ckc_graph_node(graph, ids[i]);
		if (!more[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static void forget_graph(struct ckc_graph *graph);

static void forget_inner(struct ckc_node *node)
{
	struct ckc_graph *graph;

	while ((graph = node->inner) != NULL) {
		node->inner = graph->next;
		forget_graph(graph);
	}
}

static void forget_node(struct ckc_node *node)
{
	if (node->graph)
		node->graph->counted = false;
	if (node->prev)
		node->prev->next = node->next;
	else if (node->graph)
		node->graph->nodes = node->next;
	if (node->next)
		node->next->prev = node->prev;
	forget_inner(node);
	free(node->kept);
	ckc_object_free(node);
}

static void forget_graph(struct ckc_graph *graph)
{
	while (graph->nodes)
		forget_node(graph->nodes);
	ckc_object_free(graph);
}

void ckc_graph_gone(uint64_t id)
{
	struct ckc_graph *graph = ckc_object_by_id(CK_OBJECT_GRAPH, id);

	if (!graph)
		return;
	ck_lock(lists_lock());
	forget_graph(graph);
	ck_unlock(lists_lock());
}

void ckc_node_empty(struct ckc_node *node)
{
	ck_lock(lists_lock());
	forget_inner(node);
	ck_unlock(lists_lock());
}

bool ckc_edges_hold_data(const CUgraphEdgeData *edges, size_t count)
{
	static const CUgraphEdgeData none;

	for (size_t i = 0; i < count; i++) {
		if (memcmp(&edges[i], &none, sizeof(none)) != 0)
			return true;
	}
	return false;
}

CK_EXPORT CUresult cuGraphDestroy(CUgraph hGraph)
{
	struct ckc_graph *graph;
	uint64_t id;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_graph_from(hGraph, &graph);
	if (err)
		return err;
	if (graph->inside) /* it is destroyed with its node */
		return CUDA_ERROR_INVALID_VALUE;
	id = graph->object.id;
	if (ckc_captures_any() && ckc_capture_fills(id))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(lists_lock());
	forget_graph(graph);
	ck_unlock(lists_lock());
	return ckc_mirrors_any() ? ckc_mirror_owner_end(id)
				 : ck_wire_cuGraphDestroy(ckc_current_id(), id);
}

CK_EXPORT CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	struct ckc_node *node;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(hNode, &node);
	if (!err)
		err = ck_wire_cuGraphDestroyNode(ckc_current_id(), node->object.id);
	if (err)
		return err;
	ck_lock(lists_lock());
	forget_node(node);
	ck_unlock(lists_lock());
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct ckc_node *node;
	uint64_t id = 0;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(hNode, &node);
	if (!err && !phGraph)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ck_wire_cuGraphChildGraphNodeGetGraph(ckc_current_id(), node->object.id, &id);
	if (err)
		return err;
	*phGraph = (CUgraph)ckc_node_graph(node, id);
	return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CK_EXPORT CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct ckc_node *node;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(hNode, &node);
	if (!err && !phGraph)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		*phGraph = (CUgraph)node->graph;
	return err;
}

CK_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
					  CUgraph hClonedGraph)
{
	struct ckc_graph *graph;
	struct ckc_node *node;
	uint64_t id = 0;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_node_from(hOriginalNode, &node);
	if (!err)
		err = ckc_graph_from(hClonedGraph, &graph);
	if (!err && !phNode)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ck_wire_cuGraphNodeFindInClone(ckc_current_id(), &id, node->object.id,
						     graph->object.id);
	if (err)
		return err;
	*phNode = (CUgraphNode)ckc_graph_node(graph, id);
	return *phNode ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
