/*
 * tests/unit/server_graph_fake.h - a session whose driver keeps graphs: nodes with the parameters
 * that they were given.
 */
#ifndef CK_TESTS_UNIT_SERVER_GRAPH_FAKE_H
#define CK_TESTS_UNIT_SERVER_GRAPH_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cricket.h"
#include "gen/handlers.h"
#include "server/graphs/mirror_list.h"
#include "server/memory/pinned.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"
#include "util/page.h"

#define NODES 16

/* A graph of the driver below: nodes are kept with the parameters that they were given. */
struct CUgraph_st {
	struct fake_node {
		CUgraphNodeParams p;
		struct CUgraph_st *graph;
	} nodes[NODES];
	size_t count;
};

static struct cks_session *session;
static struct cks_request q;
static unsigned int graphs, execs, launches;
static unsigned char kernel_block[8];
static size_t kernel_size;

static CUresult graph_create(CUgraph *out, unsigned int flags)
{
	(void)flags;
	*out = calloc(1, sizeof(**out));
	graphs++;
	return CUDA_SUCCESS;
}

static void (*beside_destroy)(void); /* what another thread does meanwhile, once */

static CUresult graph_destroy(CUgraph graph)
{
	void (*run)(void) = beside_destroy;

	beside_destroy = NULL;
	if (run)
		run();
	free(graph);
	graphs--;
	return CUDA_SUCCESS;
}

static CUresult graph_clone(CUgraph *out, CUgraph from)
{
	graph_create(out, 0);
	**out = *from;
	return CUDA_SUCCESS;
}

static CUresult add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
			 const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p)
{
	struct fake_node *node = &graph->nodes[graph->count++];

	(void)after;
	(void)edges;
	(void)count;
	node->p = *p;
	node->graph = graph;
	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL && p->kernel.extra) {
		kernel_size = *(size_t *)p->kernel.extra[3];
		memcpy(kernel_block, p->kernel.extra[1],
		       kernel_size < sizeof(kernel_block) ? kernel_size : sizeof(kernel_block));
	}
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

static CUresult exec_set(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
	(void)exec;
	(void)node;
	return p->type == CU_GRAPH_NODE_TYPE_MEMCPY && p->memcpy.flags == 99
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	for (size_t i = 0; nodes && i < *count && i < graph->count; i++)
		nodes[i] = (CUgraphNode)&graph->nodes[i];
	*count = graph->count;
	return CUDA_SUCCESS;
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *type)
{
	*type = ((struct fake_node *)node)->p.type;
	return CUDA_SUCCESS;
}

static CUresult get_copy(CUgraphNode node, CUDA_MEMCPY3D *copy)
{
	*copy = ((struct fake_node *)node)->p.memcpy.copyParams;
	return CUDA_SUCCESS;
}

static CUresult get_child(CUgraphNode node, CUgraph *graph)
{
	*graph = ((struct fake_node *)node)->p.graph.graph;
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	(void)graph;
	p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	*exec = malloc(1);
	execs++;
	return CUDA_SUCCESS;
}

static CUresult exec_destroy(CUgraphExec exec)
{
	free(exec);
	execs--;
	return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream stream)
{
	(void)exec;
	(void)stream;
	launches++;
	return CUDA_SUCCESS;
}

static inline int prepare(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuGraphCreate = graph_create;
	ck_driver.cuGraphDestroy = graph_destroy;
	ck_driver.cuGraphClone = graph_clone;
	ck_driver.cuGraphAddNode_v2 = add_node;
	ck_driver.cuGraphExecNodeSetParams = exec_set;
	ck_driver.cuGraphGetNodes = get_nodes;
	ck_driver.cuGraphNodeGetType = get_type;
	ck_driver.cuGraphMemcpyNodeGetParams = get_copy;
	ck_driver.cuGraphChildGraphNodeGetGraph = get_child;
	ck_driver.cuGraphInstantiateWithParams = instantiate;
	ck_driver.cuGraphExecDestroy = exec_destroy;
	ck_driver.cuGraphLaunch = launch;
	graphs = execs = launches = 0;
	session = session_without_client();
	q = (struct cks_request){.session = session};
	return 0;
}

static inline int drop(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return fake.registered || fake.events;
}

static inline void make_graph(uint64_t id)
{
	CUgraph graph;

	graph_create(&graph, 0);
	assert_int_equal(cks_graph_put(&q, id, graph), CUDA_SUCCESS);
}

static inline CUresult add(uint64_t graph, const void *bytes, size_t size, ck_node_add_res *res)
{
	ck_node_add_args a = {.graph = graph};

	memset(res, 0, sizeof(*res));
	a.params.params_val = (char *)(uintptr_t)bytes;
	a.params.params_len = (u_int)size;
	return ck_serve_node_add(&q, &a, res);
}

/* A copy of 64 bytes from the client's memory, of this mirror, to the device; or back. */
static inline CUgraphNodeParams copy_of(uint64_t mirror, bool up)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	CUDA_MEMCPY3D *c = &p.memcpy.copyParams;

	*c = (CUDA_MEMCPY3D){.WidthInBytes = 64, .Height = 1, .Depth = 1};
	c->srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	c->dstMemoryType = up ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	c->srcDevice = c->dstDevice = 0x70000000;
	c->srcHost = up ? (void *)(uintptr_t)mirror : NULL;
	c->dstHost = up ? NULL : (void *)(uintptr_t)mirror;
	return p;
}

static inline uint64_t add_copy_node(uint64_t graph, uint64_t mirror)
{
	CUgraphNodeParams p = copy_of(mirror, true);
	ck_node_add_res res;

	assert_int_equal(add(graph, &p, sizeof(p), &res), CUDA_SUCCESS);
	return res.node;
}

static inline void make_exec(uint64_t graph, uint64_t id, ck_graph_instantiate_res *res)
{
	ck_graph_instantiate_args a = {.exec = id, .graph = graph};

	memset(res, 0, sizeof(*res));
	assert_int_equal(ck_serve_graph_instantiate(&q, &a, res), CUDA_SUCCESS);
}

static inline u_int end(uint64_t object, uint64_t *first)
{
	ck_graph_end_args a = {.object = object};
	ck_graph_end_res res = {0};
	u_int gone;

	assert_int_equal(ck_serve_graph_end(&q, &a, &res), CUDA_SUCCESS);
	gone = res.gone.gone_len;
	*first = gone ? res.gone.gone_val[0] : 0;
	free(res.gone.gone_val);
	return gone;
}

#endif
