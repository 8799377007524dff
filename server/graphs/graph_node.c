/*
 * server/graphs/graph_node.c - nodes of graphs: decode parameters for the driver, and encode its
 * own.
 *
 * The encoding is CUgraphNodeParams with ids for handles, followed by the data that its pointers
 * refer to. No pointer from the client reaches the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/callback.h"
#include "server/graphs/graph.h"
#include "server/memory/memory.h"
#include "server/graphs/mirror.h"

/* Decoded parameters, and the data they point to. */
struct node {
	CUgraphNodeParams p;
	void *tail; /* a copy, because data in a message is unaligned */
	size_t tail_size;
	void *extra[5];
};

static CUresult context_find(struct cks_request *q, CUcontext *context)
{
	uint64_t id = (uintptr_t)*context;

	*context = NULL; /* means the current one */
	return id == 0 || cks_context_find(q, id, context) ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_CONTEXT;
}

/* For a kernel of a library, set the node's kernel; for a function of a module, its function. */
static CUresult take_kernel(struct cks_request *q, struct node *n)
{
	CUDA_KERNEL_NODE_PARAMS_v3 *k = &n->p.kernel;
	struct cks_object object;

	if (!cks_handles_find(q->session->handles, (uintptr_t)k->func,
			      CK_KIND_BIT(CK_KIND_FUNCTION) | CK_KIND_BIT(CK_KIND_KERNEL), &object))
		return CUDA_ERROR_INVALID_HANDLE;
	k->func = object.kind == CK_KIND_FUNCTION ? object.handle : NULL;
	k->kern = object.kind == CK_KIND_KERNEL ? object.handle : NULL;
	n->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
	n->extra[1] = n->tail;
	n->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
	n->extra[3] = &n->tail_size;
	n->extra[4] = CU_LAUNCH_PARAM_END;
	k->kernelParams = NULL;
	k->extra = n->tail_size > 0 ? n->extra : NULL;
	return context_find(q, &k->ctx);
}

static CUresult take_host(struct cks_request *q, CUDA_HOST_NODE_PARAMS_v2 *h)
{
	h->userData = cks_host_call_keep(q->session, (uintptr_t)h->userData);
	h->fn = cks_host_call_run;
	return h->userData ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take_graph(struct cks_request *q, CUDA_CHILD_GRAPH_NODE_PARAMS *g)
{
	uint64_t id = (uintptr_t)g->graph;

	return cks_graph_find(q, id, &g->graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult take_event(struct cks_request *q, CUevent *event)
{
	uint64_t id = (uintptr_t)*event;

	return cks_event_find(q, id, event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult take_alloc(struct node *n)
{
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 *a = &n->p.alloc;

	if (a->accessDescCount != n->tail_size / sizeof(*a->accessDescs) ||
	    n->tail_size % sizeof(*a->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	if (!cks_pool_allowed(&a->poolProps))
		return CUDA_ERROR_NOT_SUPPORTED;
	a->accessDescs = a->accessDescCount ? n->tail : NULL;
	a->poolProps.win32SecurityAttributes = NULL;
	return CUDA_SUCCESS;
}

static CUresult take_memory_ops(struct cks_request *q, struct node *n)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *m = &n->p.memOp;

	if (m->count != n->tail_size / sizeof(*m->paramArray) ||
	    n->tail_size % sizeof(*m->paramArray))
		return CUDA_ERROR_INVALID_VALUE;
	m->paramArray = n->tail;
	return context_find(q, &m->ctx);
}

/* @owner: owner of the mirrors that a copy needs. */
static CUresult take_type(struct cks_request *q, struct node *n, uint64_t owner)
{
	CUgraphNodeParams *p = &n->p;
	CUresult err;

	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return take_kernel(q, n);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		err = context_find(q, &p->memcpy.copyCtx);
		return err ? err : cks_mirror_copy(q, &p->memcpy.copyParams, owner);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return context_find(q, &p->memset.ctx);
	case CU_GRAPH_NODE_TYPE_HOST:
		return take_host(q, &p->host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return take_graph(q, &p->graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return take_event(q, &p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return take_event(q, &p->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return take_alloc(n);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return take_memory_ops(q, n);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		p->conditional.phGraph_out = NULL;
		return context_find(q, &p->conditional.ctx);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult decode_node(struct cks_request *q, const char *bytes, size_t size, uint64_t owner,
			    struct node *n)
{
	*n = (struct node){0};
	if (size < sizeof(n->p))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&n->p, bytes, sizeof(n->p));
	n->tail_size = size - sizeof(n->p);
	n->tail = malloc(n->tail_size + 1);
	if (!n->tail)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(n->tail, bytes + sizeof(n->p), n->tail_size);
	return take_type(q, n, owner);
}

static CUresult drive_add(CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
			  size_t count, CUgraphNodeParams *p, CUgraphNode *node)
{
	if (ck_driver.cuGraphAddNode_v2)
		return ck_driver.cuGraphAddNode_v2(node, graph, nodes, edges, count, p);
	if (ck_driver.cuGraphAddNode && !edges)
		return ck_driver.cuGraphAddNode(node, graph, nodes, count, p);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Assign ids to the bodies of a conditional node, as its children. */
static CUresult name_bodies(struct cks_request *q, uint64_t node,
			    const CUDA_CONDITIONAL_NODE_PARAMS *c, ck_node_add_res *res)
{
	CUresult err = CUDA_SUCCESS;

	if (!c->phGraph_out || c->size > CK_IDS_MAX)
		return CUDA_ERROR_UNKNOWN;
	res->graphs.graphs_val = calloc(c->size + 1, sizeof(uint64_t));
	if (!res->graphs.graphs_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->graphs.graphs_len = c->size;
	for (unsigned int i = 0; i < c->size && !err; i++)
		err = cks_handle_name(q, CK_KIND_GRAPH, c->phGraph_out[i], node,
				      &res->graphs.graphs_val[i]);
	return err;
}

/* The new node shares the mirrors of its child graph; a moved child becomes part of the node. */
static CUresult note_child(struct cks_request *q, const ck_node_add_args *a, uint64_t node,
			   uint64_t child, bool moved)
{
	CUresult err = cks_mirrors_share(q->session->mirrors, cks_graph_root(q, child),
					 cks_graph_root(q, a->graph));

	return err || !moved ? err : cks_handles_adopt(q->session->handles, child, node);
}

static CUresult note_added(struct cks_request *q, const ck_node_add_args *a, const struct node *n,
			   ck_node_add_res *res)
{
	CUgraphNodeParams sent;

	memcpy(&sent, a->params.params_val, sizeof(sent));
	switch (n->p.type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		res->address = n->p.alloc.dptr;
		cks_memory_graph(q->session->memory, res->address, n->p.alloc.bytesize);
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return name_bodies(q, res->node, &n->p.conditional, res);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return note_child(q, a, res->node, (uintptr_t)sent.graph.graph,
				  n->p.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
	default:
		return CUDA_SUCCESS;
	}
}

CUresult ck_serve_node_add(struct cks_request *q, ck_node_add_args *a, ck_node_add_res *res)
{
	const size_t count = a->dependencies.dependencies_len;
	const CUgraphEdgeData *edges;
	CUgraphNode *nodes = NULL, node = NULL;
	struct node n = {0};
	CUgraph graph;
	CUresult err;

	if (!cks_graph_find(q, a->graph, &graph))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_edges_check(a->edges.edges_val, a->edges.edges_len, count, &edges);
	if (!err)
		err = cks_nodes_find(q, a->dependencies.dependencies_val, count, &nodes);
	if (!err)
		err = decode_node(q, a->params.params_val, a->params.params_len,
				  cks_graph_root(q, a->graph), &n);
	if (!err)
		err = drive_add(graph, nodes, edges, count, &n.p, &node);
	if (!err)
		err = cks_handle_name(q, CK_KIND_NODE, node, a->graph, &res->node);
	if (!err)
		err = note_added(q, a, &n, res);
	free(nodes);
	free(n.tail);
	return err;
}

static CUresult drive_set(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
	if (exec)
		return ck_driver.cuGraphExecNodeSetParams
			       ? ck_driver.cuGraphExecNodeSetParams(exec, node, p)
			       : CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuGraphNodeSetParams ? ck_driver.cuGraphNodeSetParams(node, p)
					      : CUDA_ERROR_NOT_SUPPORTED;
}

/* Report the mirrors that an exec's copies use now. For a child graph, walk through it. */
static CUresult tell_mirrors(struct cks_request *q, const ck_node_set_args *a, const struct node *n,
			     CUgraphNode node, bool done, ck_node_set_res *res)
{
	struct cks_told told = {0};
	CUresult err = CUDA_SUCCESS;

	cks_mirrors_wait(q->session->mirrors, a->exec);
	if (n->p.type == CU_GRAPH_NODE_TYPE_MEMCPY)
		err = cks_mirrors_edit(q, a->exec, node, done, &told);
	else if (n->p.type == CU_GRAPH_NODE_TYPE_GRAPH)
		err = cks_mirrors_edit_child(q, a->exec, node, done ? n->p.graph.graph : NULL,
					     &told);
	res->mirrors.mirrors_val = told.ids;
	res->mirrors.mirrors_len = told.count;
	res->gone.gone_val = told.gone;
	res->gone.gone_len = told.gone_count;
	return err;
}

/* A child graph ends when its node gets another one. */
static void end_child(struct cks_handles *handles, uint64_t child, bool ended)
{
	if (child && ended)
		cks_handles_remove(handles, child);
	else if (child)
		cks_handles_ending(handles, child, false);
}

/* The child graph that node @id of a graph has, which may end. */
static uint64_t find_child(struct cks_handles *handles, uint64_t id)
{
	size_t count;
	uint64_t *ids = cks_handles_children(handles, id, CK_KIND_GRAPH, &count);
	uint64_t child = count ? ids[0] : 0;

	free(ids);
	if (child)
		cks_handles_ending(handles, child, true);
	return child;
}

CUresult ck_serve_node_set(struct cks_request *q, ck_node_set_args *a, ck_node_set_res *res)
{
	CUgraphExec exec = NULL;
	struct node n = {0};
	CUgraphNode node;
	uint64_t owner, child = 0;
	CUresult err, told = CUDA_SUCCESS;

	if (!cks_node_find(q, a->node, &node) || (a->exec && !cks_exec_find(q, a->exec, &exec)))
		return CUDA_ERROR_INVALID_HANDLE;
	owner = exec ? a->exec : cks_graph_root(q, a->node);
	err = decode_node(q, a->params.params_val, a->params.params_len, owner, &n);
	if (!exec && n.p.type == CU_GRAPH_NODE_TYPE_GRAPH)
		child = find_child(q->session->handles, a->node);
	if (!err)
		err = drive_set(exec, node, &n.p);
	end_child(q->session->handles, child, !err);
	if (exec && (n.p.type == CU_GRAPH_NODE_TYPE_MEMCPY || n.p.type == CU_GRAPH_NODE_TYPE_GRAPH))
		told = tell_mirrors(q, a, &n, node, !err, res);
	free(n.tail);
	return err ? err : told;
}

CUresult ck_serve_cuGraphDestroyNode(struct cks_request *q, cuGraphDestroyNode_args *a,
				     cuGraphDestroyNode_res *res)
{
	struct cks_handles *handles = q->session->handles;
	CUgraphNode node;
	CUresult err;

	(void)res;
	if (!ck_driver.cuGraphDestroyNode)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_node_find(q, a->hNode, &node))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_handles_ending(handles, a->hNode, true);
	err = ck_driver.cuGraphDestroyNode(node);
	if (err)
		cks_handles_ending(handles, a->hNode, false);
	else
		cks_handles_remove(handles, a->hNode);
	return err;
}
