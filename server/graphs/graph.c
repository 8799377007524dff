/*
 * server/graphs/graph.c - creation, destruction and structure of graphs; see graph.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/graphs/graph.h"
#include "server/graphs/mirror.h"
#include "util/util.h"

#define CK_DOT_PIECE (512u << 10) /* bytes of a printed graph per reply */

CUresult cks_nodes_find(struct cks_request *q, const uint64_t *ids, size_t count,
			CUgraphNode **nodes)
{
	*nodes = NULL;
	if (count == 0)
		return CUDA_SUCCESS;
	*nodes = calloc(count, sizeof(**nodes));
	if (!*nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		if (!cks_node_find(q, ids[i], &(*nodes)[i])) {
			free(*nodes);
			*nodes = NULL;
			return CUDA_ERROR_INVALID_HANDLE;
		}
	}
	return CUDA_SUCCESS;
}

CUresult cks_nodes_name(struct cks_request *q, uint64_t graph, const CUgraphNode *nodes,
			size_t count, uint64_t **ids)
{
	CUresult err = CUDA_SUCCESS;

	if (count > CK_IDS_MAX)
		return CUDA_ERROR_NOT_SUPPORTED; /* more than fits in a reply */
	*ids = calloc(count + 1, sizeof(**ids));
	if (!*ids)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count && !err; i++) {
		if (nodes[i])
			err = cks_handle_name(q, CK_KIND_NODE, nodes[i], graph, &(*ids)[i]);
	}
	return err;
}

CUresult cks_edges_check(const void *bytes, size_t size, size_t count,
			 const CUgraphEdgeData **edges)
{
	*edges = size > 0 ? bytes : NULL;
	_Static_assert(_Alignof(CUgraphEdgeData) == 1, "it may lie anywhere in a message");
	return size == 0 || size == count * sizeof(**edges) ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
}

CUresult cks_graph_nodes(CUgraph graph, CUgraphNode **nodes, size_t *count)
{
	CUresult err;

	*nodes = NULL;
	*count = 0;
	if (!ck_driver.cuGraphGetNodes)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuGraphGetNodes(graph, NULL, count);
	if (err || *count == 0)
		return err;
	*nodes = calloc(*count, sizeof(**nodes));
	if (!*nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return ck_driver.cuGraphGetNodes(graph, *nodes, count);
}

static CUresult get_roots(CUgraph graph, CUgraphNode **nodes, size_t *count)
{
	CUresult err;

	if (!ck_driver.cuGraphGetRootNodes)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuGraphGetRootNodes(graph, NULL, count);
	if (err || *count == 0)
		return err;
	*nodes = calloc(*count, sizeof(**nodes));
	if (!*nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return ck_driver.cuGraphGetRootNodes(graph, *nodes, count);
}

CUresult ck_serve_graph_nodes(struct cks_request *q, ck_graph_nodes_args *a,
			      ck_graph_nodes_res *res)
{
	CUgraphNode *nodes = NULL;
	CUgraph graph;
	size_t count = 0;
	CUresult err;

	if (!cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	err = a->roots ? get_roots(graph, &nodes, &count) : cks_graph_nodes(graph, &nodes, &count);
	if (!err)
		err = cks_nodes_name(q, a->graph, nodes, count, &res->nodes.nodes_val);
	if (!err)
		res->nodes.nodes_len = (u_int)count;
	free(nodes);
	return err;
}

/* Edges of a graph, or of one of its nodes: .which as in the message. */
struct edges {
	CUgraph graph;
	CUgraphNode node;
	unsigned int which;
	CUgraphNode *from, *to;
	CUgraphEdgeData *data;
	size_t count;
};

static CUresult edges_ask(struct edges *e)
{
	switch (e->which) {
	case 0:
		if (ck_driver.cuGraphGetEdges_v2)
			return ck_driver.cuGraphGetEdges_v2(e->graph, e->from, e->to, e->data,
							    &e->count);
		return ck_driver.cuGraphGetEdges
			       ? ck_driver.cuGraphGetEdges(e->graph, e->from, e->to, &e->count)
			       : CUDA_ERROR_NOT_SUPPORTED;
	case 1:
		if (ck_driver.cuGraphNodeGetDependencies_v2)
			return ck_driver.cuGraphNodeGetDependencies_v2(e->node, e->from, e->data,
								       &e->count);
		return ck_driver.cuGraphNodeGetDependencies
			       ? ck_driver.cuGraphNodeGetDependencies(e->node, e->from, &e->count)
			       : CUDA_ERROR_NOT_SUPPORTED;
	case 2:
		if (ck_driver.cuGraphNodeGetDependentNodes_v2)
			return ck_driver.cuGraphNodeGetDependentNodes_v2(e->node, e->to, e->data,
									 &e->count);
		return ck_driver.cuGraphNodeGetDependentNodes
			       ? ck_driver.cuGraphNodeGetDependentNodes(e->node, e->to, &e->count)
			       : CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult edges_get(struct edges *e)
{
	CUresult err = edges_ask(e);

	if (err || e->count == 0)
		return err;
	e->from = calloc(e->count, sizeof(*e->from));
	e->to = calloc(e->count, sizeof(*e->to));
	e->data = calloc(e->count, sizeof(*e->data));
	if (!e->from || !e->to || !e->data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return edges_ask(e);
}

CUresult ck_serve_graph_edges(struct cks_request *q, ck_graph_edges_args *a,
			      ck_graph_edges_res *res)
{
	struct edges e = {.which = a->which};
	CUresult err;

	if (!cks_graph_find(q, a->graph, &e.graph) ||
	    (a->which && !cks_node_find(q, a->node, &e.node)))
		return CUDA_ERROR_INVALID_HANDLE;
	err = edges_get(&e);
	if (!err)
		err = cks_nodes_name(q, a->graph, e.from, e.count, &res->from.from_val);
	if (!err)
		err = cks_nodes_name(q, a->graph, e.to, e.count, &res->to.to_val);
	if (!err) {
		res->from.from_len = res->to.to_len = (u_int)e.count;
		res->data.data_len = (u_int)(e.count * sizeof(*e.data));
		res->data.data_val = (char *)e.data;
		e.data = NULL;
	}
	free(e.from);
	free(e.to);
	free(e.data);
	return err;
}

static CUresult change_edges(CUgraph graph, bool cut, const struct edges *e)
{
	if (cut && ck_driver.cuGraphRemoveDependencies_v2)
		return ck_driver.cuGraphRemoveDependencies_v2(graph, e->from, e->to, e->data,
							      e->count);
	if (!cut && ck_driver.cuGraphAddDependencies_v2)
		return ck_driver.cuGraphAddDependencies_v2(graph, e->from, e->to, e->data,
							   e->count);
	if (e->data)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (cut && ck_driver.cuGraphRemoveDependencies)
		return ck_driver.cuGraphRemoveDependencies(graph, e->from, e->to, e->count);
	if (!cut && ck_driver.cuGraphAddDependencies)
		return ck_driver.cuGraphAddDependencies(graph, e->from, e->to, e->count);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_graph_link(struct cks_request *q, ck_graph_link_args *a, ck_graph_link_res *res)
{
	struct edges e = {.count = a->from.from_len};
	const CUgraphEdgeData *data;
	CUgraph graph;
	CUresult err;

	(void)res;
	if (a->from.from_len != a->to.to_len)
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_edges_check(a->data.data_val, a->data.data_len, e.count, &data);
	e.data = (CUgraphEdgeData *)(uintptr_t)data;
	if (!err)
		err = cks_nodes_find(q, a->from.from_val, e.count, &e.from);
	if (!err)
		err = cks_nodes_find(q, a->to.to_val, e.count, &e.to);
	if (!err)
		err = change_edges(graph, a->cut != 0, &e);
	free(e.from);
	free(e.to);
	return err;
}

CUresult ck_serve_cuGraphClone(struct cks_request *q, cuGraphClone_args *a, cuGraphClone_res *res)
{
	CUgraph original, clone = NULL;
	CUresult err;

	(void)res;
	if (!ck_driver.cuGraphClone || !ck_driver.cuGraphDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, a->originalGraph, &original))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuGraphClone(&clone, original);
	if (err)
		return err;
	err = cks_graph_put(q, a->phGraphClone, clone);
	if (err)
		ck_driver.cuGraphDestroy(clone);
	else
		err = cks_mirrors_share(q->session->mirrors, cks_graph_root(q, a->originalGraph),
					a->phGraphClone);
	return err;
}

/* Destroy only a graph that is in no other: the driver would keep a dangling reference. Its mirrors
 * end first: once the id is removed, it may be that of another thread's new graph. */
static CUresult destroy_graph(struct cks_request *q, uint64_t id, uint64_t **gone, u_int *count)
{
	CUgraph graph;

	if (!ck_driver.cuGraphDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, id, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	if (cks_graph_root(q, id) != id)
		return CUDA_ERROR_INVALID_VALUE;
	cks_mirrors_owner_gone(q->session->mirrors, id, gone, count);
	cks_handle_remove(q, id);
	return ck_driver.cuGraphDestroy(graph);
}

CUresult ck_serve_cuGraphDestroy(struct cks_request *q, cuGraphDestroy_args *a, void *res)
{
	(void)res;
	return destroy_graph(q, a->hGraph, NULL, NULL);
}

/* The same for a graph or an exec with mirrors; reports the mirrors that end with it. */
CUresult ck_serve_graph_end(struct cks_request *q, ck_graph_end_args *a, ck_graph_end_res *res)
{
	CUgraphExec exec;
	uint64_t **gone = &res->gone.gone_val;
	u_int *count = &res->gone.gone_len;

	return cks_exec_find(q, a->object, &exec) ? cks_exec_end(q, a->object, gone, count)
						  : destroy_graph(q, a->object, gone, count);
}

CUresult ck_serve_cuGraphChildGraphNodeGetGraph(struct cks_request *q,
						cuGraphChildGraphNodeGetGraph_args *a,
						cuGraphChildGraphNodeGetGraph_res *res)
{
	CUgraphNode node;
	CUgraph graph = NULL;
	CUresult err;

	if (!ck_driver.cuGraphChildGraphNodeGetGraph)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_node_find(q, a->hNode, &node))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuGraphChildGraphNodeGetGraph(node, &graph);
	return err ? err : cks_handle_name(q, CK_KIND_GRAPH, graph, a->hNode, &res->phGraph);
}

CUresult ck_serve_cuGraphNodeFindInClone(struct cks_request *q, cuGraphNodeFindInClone_args *a,
					 cuGraphNodeFindInClone_res *res)
{
	CUgraphNode original, found = NULL;
	CUgraph clone;
	CUresult err;

	if (!ck_driver.cuGraphNodeFindInClone)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_node_find(q, a->hOriginalNode, &original) ||
	    !cks_graph_find(q, a->hClonedGraph, &clone))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuGraphNodeFindInClone(&found, original, clone);
	return err ? err : cks_handle_name(q, CK_KIND_NODE, found, a->hClonedGraph, &res->phNode);
}

/* Refuse attributes that contain a pointer: they do not apply to nodes. */
CUresult ck_serve_cuGraphKernelNodeSetAttribute(struct cks_request *q,
						cuGraphKernelNodeSetAttribute_args *a,
						cuGraphKernelNodeSetAttribute_res *res)
{
	CUstreamAttrValue value;
	CUgraphNode node;

	(void)res;
	if (!ck_driver.cuGraphKernelNodeSetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_node_find(q, a->hNode, &node))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->attr == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
	    a->attr == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&value, a->value, sizeof(value));
	return ck_driver.cuGraphKernelNodeSetAttribute(node, (CUlaunchAttributeID)a->attr, &value);
}

/* Read part of the file @fd into a reply. */
static CUresult read_piece(int fd, size_t offset, ck_graph_dot_res *res)
{
	char *text = malloc(CK_DOT_PIECE);
	ssize_t n;

	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	n = pread(fd, text, CK_DOT_PIECE, (off_t)offset);
	if (n < 0) {
		free(text);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	res->text.text_val = text;
	res->text.text_len = (u_int)n;
	return CUDA_SUCCESS;
}

/* The driver writes to an unnamed file; the client never chooses where the server writes. */
CUresult ck_serve_graph_dot(struct cks_request *q, ck_graph_dot_args *a, ck_graph_dot_res *res)
{
	char path[64];
	CUgraph graph;
	CUresult err;
	int fd;

	if (!ck_driver.cuGraphDebugDotPrint)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->offset > INT64_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("graph", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = ck_driver.cuGraphDebugDotPrint(graph, path, a->flags);
	if (!err)
		err = read_piece(fd, a->offset, res);
	close(fd);
	return err;
}

CUresult ck_serve_graph_memory(struct cks_request *q, ck_graph_memory_args *a,
			       ck_graph_memory_res *res)
{
	cuuint64_t value = a->value;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	(void)q;
	if (a->set && ck_driver.cuDeviceSetGraphMemAttribute)
		err = ck_driver.cuDeviceSetGraphMemAttribute(a->device,
							     (CUgraphMem_attribute)a->attr, &value);
	else if (!a->set && ck_driver.cuDeviceGetGraphMemAttribute)
		err = ck_driver.cuDeviceGetGraphMemAttribute(a->device,
							     (CUgraphMem_attribute)a->attr, &value);
	res->result = value;
	return err;
}
