/*
 * tests/unit/test_server_graph.c - graphs on the server: names that go with their graph, parameters
 * of nodes that a client has made up, mirrors and their owners.
 */
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

static int prepare(void **state)
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

static int drop(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return fake.registered || fake.events;
}

static void make_graph(uint64_t id)
{
	CUgraph graph;

	graph_create(&graph, 0);
	assert_int_equal(cks_graph_put(&q, id, graph), CUDA_SUCCESS);
}

static CUresult add(uint64_t graph, const void *bytes, size_t size, ck_node_add_res *res)
{
	ck_node_add_args a = {.graph = graph};

	memset(res, 0, sizeof(*res));
	a.params.params_val = (char *)(uintptr_t)bytes;
	a.params.params_len = (u_int)size;
	return ck_serve_node_add(&q, &a, res);
}

/* A copy of 64 bytes from the client's memory, of this mirror, to the device; or back. */
static CUgraphNodeParams copy_of(uint64_t mirror, bool up)
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

static uint64_t add_copy_node(uint64_t graph, uint64_t mirror)
{
	CUgraphNodeParams p = copy_of(mirror, true);
	ck_node_add_res res;

	assert_int_equal(add(graph, &p, sizeof(p), &res), CUDA_SUCCESS);
	return res.node;
}

static void make_exec(uint64_t graph, uint64_t id, ck_graph_instantiate_res *res)
{
	ck_graph_instantiate_args a = {.exec = id, .graph = graph};

	memset(res, 0, sizeof(*res));
	assert_int_equal(ck_serve_graph_instantiate(&q, &a, res), CUDA_SUCCESS);
}

static u_int end(uint64_t object, uint64_t *first)
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

/* --- */

static void nodes_go_with_their_graph(void **state)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	cuGraphDestroy_args a = {.hGraph = 20};
	ck_node_add_res res;
	CUgraphNode node;

	(void)state;
	make_graph(20);
	assert_int_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	assert_true(cks_node_find(&q, res.node, &node));
	assert_int_equal(ck_serve_cuGraphDestroy(&q, &a, NULL), CUDA_SUCCESS);
	assert_false(cks_node_find(&q, res.node, &node));
	assert_int_equal(graphs, 0);
	assert_int_equal(ck_serve_cuGraphDestroy(&q, &a, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void a_graph_inside_another_is_not_destroyed_alone(void **state)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	cuGraphDestroy_args a = {.hGraph = 21};
	ck_node_add_res res;
	uint64_t first;

	(void)state;
	make_graph(20);
	make_graph(21);
	p.graph.graph = (CUgraph)(uintptr_t)21;
	p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	assert_int_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	assert_int_equal(ck_serve_cuGraphDestroy(&q, &a, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(graphs, 2);
	graph_destroy(cks_handles_get(session->handles, 21, CK_KIND_GRAPH));
	end(20, &first);
	assert_null(cks_handles_get(session->handles, 21, CK_KIND_GRAPH));
}

static void parameters_that_are_made_up_are_refused(void **state)
{
	static const CUgraphNodeType with_ids[] = {
		CU_GRAPH_NODE_TYPE_KERNEL,
		CU_GRAPH_NODE_TYPE_MEMCPY,
		CU_GRAPH_NODE_TYPE_GRAPH,
		CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
		CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
		(CUgraphNodeType)14,
		(CUgraphNodeType)-1,
	};
	CUgraphNodeParams p;
	ck_node_add_res res;
	CUgraph graph;
	uint64_t first;

	(void)state;
	make_graph(20);
	memset(&p, 0, sizeof(p));
	for (size_t size = 0; size < sizeof(p); size += 17)
		assert_int_not_equal(add(20, &p, size, &res), CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(with_ids) / sizeof(with_ids[0]); i++) {
		memset(&p, 0x5a, sizeof(p)); /* no id, no size, no pointer is one */
		p.type = with_ids[i];
		assert_int_not_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	}
	p.type = CU_GRAPH_NODE_TYPE_EMPTY;
	assert_int_not_equal(add(99, &p, sizeof(p), &res), CUDA_SUCCESS);
	graph = cks_handles_get(session->handles, 20, CK_KIND_GRAPH);
	assert_int_equal(graph->count, 0);
	end(20, &first);
}

static void arrays_are_as_long_as_the_structure_says(void **state)
{
	struct {
		CUgraphNodeParams p;
		CUmemAccessDesc access[2];
	} m = {.p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	ck_node_add_res res;
	CUgraph graph;
	uint64_t first;

	(void)state;
	make_graph(20);
	m.p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	m.p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_HOST; /* of the server */
	m.p.alloc.accessDescCount = 2;
	assert_int_equal(add(20, &m, sizeof(m), &res), CUDA_ERROR_NOT_SUPPORTED);
	m.p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	m.p.alloc.accessDescCount = 3;
	assert_int_equal(add(20, &m, sizeof(m), &res), CUDA_ERROR_INVALID_VALUE);
	m.p.alloc.accessDescCount = 2;
	assert_int_equal(add(20, &m, sizeof(m) - 1, &res), CUDA_ERROR_INVALID_VALUE);
	m.p.alloc.accessDescs = (const CUmemAccessDesc *)8; /* the client's pointers do not count */
	assert_int_equal(add(20, &m, sizeof(m), &res), CUDA_SUCCESS);
	graph = cks_handles_get(session->handles, 20, CK_KIND_GRAPH);
	assert_ptr_not_equal(graph->nodes[0].p.alloc.accessDescs, (void *)8);
	memset(&m.p, 0, sizeof(m.p));
	m.p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	m.p.memOp.count = 1u << 31;
	assert_int_equal(add(20, &m, sizeof(m), &res), CUDA_ERROR_INVALID_VALUE);
	end(20, &first);
}

static void a_kernels_parameters_arrive_as_they_were_packed(void **state)
{
	struct {
		CUgraphNodeParams p;
		unsigned char block[8];
	} m = {.p.type = CU_GRAPH_NODE_TYPE_KERNEL, .block = {1, 2, 3, 4, 5, 6, 7, 8}};
	ck_node_add_res res;
	CUgraph graph;
	uint64_t first;
	int function;

	(void)state;
	make_graph(20);
	assert_int_equal(cks_handles_put(session->handles, 30, CK_KIND_KERNEL, 0, &function), 0);
	m.p.kernel.func = (CUfunction)(uintptr_t)30;
	m.p.kernel.kernelParams = (void **)8;
	assert_int_equal(add(20, &m, sizeof(m), &res), CUDA_SUCCESS);
	assert_int_equal(kernel_size, 8);
	assert_memory_equal(kernel_block, m.block, 8);
	graph = cks_handles_get(session->handles, 20, CK_KIND_GRAPH);
	assert_null(graph->nodes[0].p.kernel.func);
	assert_ptr_equal(graph->nodes[0].p.kernel.kern, &function);
	assert_null(graph->nodes[0].p.kernel.kernelParams);
	end(20, &first);
}

static void edges_need_as_many_ids(void **state)
{
	uint64_t ids[2] = {77, 78};
	ck_graph_link_args a = {.graph = 20};
	ck_graph_link_res res;
	uint64_t first;

	(void)state;
	make_graph(20);
	a.from.from_val = a.to.to_val = ids;
	a.from.from_len = 2;
	a.to.to_len = 1;
	assert_int_equal(ck_serve_graph_link(&q, &a, &res), CUDA_ERROR_INVALID_VALUE);
	a.to.to_len = 2;
	assert_int_equal(ck_serve_graph_link(&q, &a, &res), CUDA_ERROR_INVALID_HANDLE);
	a.data.data_len = 3;
	assert_int_equal(ck_serve_graph_link(&q, &a, &res), CUDA_ERROR_INVALID_VALUE);
	end(20, &first);
}

/* --- mirrors */

static void the_copy_uses_memory_of_the_servers_own(void **state)
{
	struct cks_mirror *m;
	CUgraph graph;
	uint64_t first;

	(void)state;
	make_graph(20);
	add_copy_node(20, 5);
	m = cks_mirror_of(session->mirrors, 5);
	assert_non_null(m);
	graph = cks_handles_get(session->handles, 20, CK_KIND_GRAPH);
	assert_ptr_equal(graph->nodes[0].p.memcpy.copyParams.srcHost, m->host);
	assert_int_equal(end(20, &first), 1);
	assert_int_equal(first, 5);
	assert_null(cks_mirror_of(session->mirrors, 5));
}

static void a_mirror_goes_with_the_last_of_its_owners(void **state)
{
	cuGraphClone_args clone = {.phGraphClone = 21, .originalGraph = 20};
	ck_graph_instantiate_res res;
	cuGraphClone_res cloned;
	uint64_t first;

	(void)state;
	make_graph(20);
	add_copy_node(20, 5);
	assert_int_equal(ck_serve_cuGraphClone(&q, &clone, &cloned), CUDA_SUCCESS);
	assert_int_equal(end(20, &first), 0);
	make_exec(21, 40, &res);
	assert_int_equal(res.mirrors.mirrors_len, 1);
	assert_int_equal(res.mirrors.mirrors_val[0], 5);
	free(res.mirrors.mirrors_val);
	assert_int_equal(end(21, &first), 0);
	assert_non_null(cks_mirror_of(session->mirrors, 5));
	assert_int_equal(end(40, &first), 1);
	assert_int_equal(first, 5);
	assert_int_equal(execs, 0);
}

static uint64_t captured; /* the server's id of a graph that a stream is captured into */
static uint64_t awaited;  /* the id that it has to have, or 0 */

static void capture_a_copy(void)
{
	static uint64_t mirror = 5;
	CUgraph graph;

	captured = 0;
	graph_create(&graph, 0);
	do { /* an id is used again when others have been */
		if (captured)
			cks_handle_remove(&q, captured);
		assert_int_equal(cks_handle_name(&q, CK_KIND_GRAPH, graph, 0, &captured),
				 CUDA_SUCCESS);
	} while (awaited && captured != awaited);
	add_copy_node(captured, mirror++);
}

static void a_graph_with_the_id_of_one_that_ends_keeps_its_mirrors(void **state)
{
	ck_graph_instantiate_res res;
	uint64_t first;

	(void)state;
	awaited = 0;
	capture_a_copy();
	awaited = captured;
	beside_destroy = capture_a_copy;
	assert_int_equal(end(awaited, &first), 1);
	assert_int_equal(captured, awaited);
	make_exec(captured, 40, &res);
	assert_int_equal(res.mirrors.mirrors_len, 1);
	free(res.mirrors.mirrors_val);
	assert_int_equal(end(captured, &first), 0);
	assert_int_equal(end(40, &first), 1);
}

static CUcontext pushed;

static CUresult push(CUcontext context)
{
	pushed = fake_current;
	fake_current = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *popped)
{
	*popped = fake_current;
	fake_current = pushed;
	return CUDA_SUCCESS;
}

/* Where a graph ends no context need be current, and nothing is waited for. */
static void what_is_pinned_is_used_again_and_goes_with_its_context(void **state)
{
	static int context;
	unsigned char *host;
	uint64_t first;

	(void)state;
	ck_driver.cuCtxPushCurrent_v2 = push;
	ck_driver.cuCtxPopCurrent_v2 = pop;
	cks_handles_put(session->handles, 3, CK_KIND_CONTEXT, 0, &context);
	for (uint64_t round = 0; round < 2; round++) {
		q.ctx = 3;
		fake_current = (CUcontext)&context;
		make_graph(20);
		add_copy_node(20, 5 + round);
		assert_ptr_equal(round ? host : cks_mirror_of(session->mirrors, 5)->host,
				 cks_mirror_of(session->mirrors, 5 + round)->host);
		host = cks_mirror_of(session->mirrors, 5 + round)->host;
		q.ctx = 0;
		fake_current = NULL;
		assert_int_equal(end(20, &first), 1);
		assert_int_equal(fake.registered, 1);
	}
	cks_mirrors_drop_context(session->mirrors, 4);
	assert_int_equal(fake.registered, 1);
	cks_mirrors_drop_context(session->mirrors, 3);
	assert_int_equal(fake.registered, 0);
	assert_null(fake_current);
	fake.registered_in = NULL;
}

/* A graph may go while its launch runs: what that reads is not filled anew meanwhile. */
static void memory_of_a_running_launch_is_not_used_again(void **state)
{
	cuGraphLaunch_args launched = {.hGraphExec = 40};
	ck_graph_instantiate_res exec;
	unsigned char *host[3];
	uint64_t first;

	(void)state;
	for (uint64_t round = 0; round < 3; round++) {
		make_graph(20);
		add_copy_node(20, 5 + round);
		host[round] = cks_mirror_of(session->mirrors, 5 + round)->host;
		make_exec(20, 40, &exec);
		free(exec.mirrors.mirrors_val);
		assert_int_equal(ck_serve_cuGraphLaunch(&q, &launched, NULL), CUDA_SUCCESS);
		fake.running = round == 0;
		end(20, &first);
		assert_int_equal(end(40, &first), 1);
		if (round == 1)
			fake.running = false;
	}
	assert_ptr_not_equal(host[0], host[1]);
	assert_true(host[2] == host[0] || host[2] == host[1]);
}

static CUresult add_copy_of(uint64_t graph, uint64_t mirror, size_t size)
{
	CUgraphNodeParams p = copy_of(mirror, true);
	ck_node_add_res res;

	p.memcpy.copyParams.WidthInBytes = size;
	return add(graph, &p, sizeof(p), &res);
}

static CUresult (*unregister_host)(void *p);
static void (*beside_unregister)(void); /* what another thread does meanwhile, once */

static CUresult unregister(void *p)
{
	void (*run)(void) = beside_unregister;

	beside_unregister = NULL;
	if (run)
		run();
	return unregister_host(p);
}

static void end_owner(void)
{
	cks_mirrors_owner_gone(session->mirrors, 21, NULL, NULL);
}

/* Memory that is kept goes without the lock. */
static void an_owner_may_end_while_memory_of_others_is_freed(void **state)
{
	uint64_t first;

	(void)state;
	unregister_host = ck_driver.cuMemHostUnregister;
	ck_driver.cuMemHostUnregister = unregister;
	make_graph(20);
	make_graph(21);
	/* too much to keep */
	assert_int_equal(add_copy_of(20, 5, (size_t)300 << 20), CUDA_SUCCESS);
	assert_int_equal(add_copy_of(21, 6, 64), CUDA_SUCCESS);
	assert_int_equal(end(20, &first), 1);
	beside_unregister = end_owner;
	assert_int_equal(add_copy_of(21, 7, 64), CUDA_SUCCESS);
	assert_null(beside_unregister);
	assert_non_null(cks_mirror_of(session->mirrors, 7));
	assert_int_equal(end(21, &first), 1);
	assert_int_equal(first, 7);
}

static void mirrors_are_within_the_limit_of_pinned_memory(void **state)
{
	const size_t page = ck_page();
	uint64_t first;

	(void)state;
	cks_pinned_bound(session->pinned, 2 * page);
	make_graph(20);
	make_graph(21);
	assert_int_equal(add_copy_of(20, 5, (size_t)1 << 36), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(add_copy_of(20, 5, 64), CUDA_SUCCESS);
	assert_int_equal(add_copy_of(20, 6, 64), CUDA_SUCCESS);
	assert_int_equal(add_copy_of(21, 7, 64), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(end(20, &first), 2);
	assert_int_equal(add_copy_of(21, 7, 2 * page), CUDA_SUCCESS); /* what was kept has gone */
	assert_int_equal(add_copy_of(21, 8, 64), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(end(21, &first), 1);
}

static void an_exec_has_the_mirrors_of_its_children(void **state)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	ck_graph_instantiate_res exec;
	ck_node_add_res res;
	uint64_t first;

	(void)state;
	make_graph(20);
	make_graph(21);
	add_copy_node(21, 6);
	p.graph.graph = (CUgraph)(uintptr_t)21;
	assert_int_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	make_exec(20, 40, &exec);
	assert_int_equal(exec.mirrors.mirrors_len, 1);
	assert_int_equal(exec.mirrors.mirrors_val[0], 6);
	free(exec.mirrors.mirrors_val);
	end(40, &first);
	end(20, &first);
	assert_int_equal(end(21, &first), 1);
}

static void change(uint64_t node, uint64_t mirror, int flags, CUresult expected,
		   ck_node_set_res *res)
{
	CUgraphNodeParams p = copy_of(mirror, true);
	ck_node_set_args a = {.node = node, .exec = 40};

	p.memcpy.flags = flags;
	a.params.params_val = (char *)&p;
	a.params.params_len = sizeof(p);
	memset(res, 0, sizeof(*res));
	assert_int_equal(ck_serve_node_set(&q, &a, res), expected);
}

static void a_copy_that_changes_in_an_exec_changes_its_mirror(void **state)
{
	ck_graph_instantiate_res exec;
	ck_node_set_res res;
	uint64_t node, first;

	(void)state;
	make_graph(20);
	node = add_copy_node(20, 5);
	make_exec(20, 40, &exec);
	free(exec.mirrors.mirrors_val);

	change(node, 7, 0, CUDA_SUCCESS, &res);
	assert_int_equal(res.mirrors.mirrors_len, 1);
	assert_int_equal(res.mirrors.mirrors_val[0], 7);
	assert_int_equal(res.gone.gone_len, 0); /* the graph has the old one */
	free(res.mirrors.mirrors_val);
	free(res.gone.gone_val);

	change(node, 8, 99, CUDA_ERROR_INVALID_VALUE, &res);
	assert_int_equal(res.mirrors.mirrors_len, 1);
	assert_int_equal(res.mirrors.mirrors_val[0], 7);
	assert_int_equal(res.gone.gone_len, 1);
	assert_int_equal(res.gone.gone_val[0], 8);
	free(res.mirrors.mirrors_val);
	free(res.gone.gone_val);

	change(node, 9, 0, CUDA_SUCCESS, &res);
	assert_int_equal(res.mirrors.mirrors_val[0], 9);
	assert_int_equal(res.gone.gone_len, 1);
	assert_int_equal(res.gone.gone_val[0], 7);
	free(res.mirrors.mirrors_val);
	free(res.gone.gone_val);
	assert_int_equal(end(40, &first), 1);
	assert_int_equal(end(20, &first), 1);
}

static void ids_and_sizes_of_mirrors_are_checked(void **state)
{
	CUgraphNodeParams p = copy_of(0, true);
	ck_mirror_aside_args aside = {.mirror = 5, .offset = 60, .size = 5};
	ck_mirror_aside_res back = {0};
	ck_node_add_res res;
	uint64_t first;

	(void)state;
	make_graph(20);
	assert_int_not_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS); /* no mirror is 0 */
	add_copy_node(20, 5);
	p = copy_of(5, true);
	assert_int_not_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS); /* it is taken */
	p = copy_of(6, true);
	p.memcpy.copyParams.Height = (size_t)1 << 60;
	assert_int_not_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	p = copy_of(6, true);
	p.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_UNIFIED; /* would be a pointer */
	assert_int_not_equal(add(20, &p, sizeof(p), &res), CUDA_SUCCESS);
	assert_int_equal(ck_serve_mirror_aside(&q, &aside, &back), CUDA_ERROR_INVALID_VALUE);
	aside.size = 4;
	assert_int_equal(ck_serve_mirror_aside(&q, &aside, &back), CUDA_SUCCESS);
	assert_int_equal(back.back.back_len, 4);
	free(back.back.back_val);
	aside = (struct ck_mirror_aside_args){.mirror = 5, .offset = UINT64_MAX};
	aside.data.data_val = (char *)&p;
	aside.data.data_len = 2;
	assert_int_equal(ck_serve_mirror_aside(&q, &aside, &back), CUDA_ERROR_INVALID_VALUE);
	end(20, &first);
}

static void a_launch_with_mirrors_can_be_waited_for(void **state)
{
	cuGraphLaunch_args a = {.hGraphExec = 40};
	ck_graph_instantiate_res exec;
	uint64_t first;

	(void)state;
	make_graph(20);
	add_copy_node(20, 5);
	make_exec(20, 40, &exec);
	free(exec.mirrors.mirrors_val);
	assert_int_equal(ck_serve_cuGraphLaunch(&q, &a, NULL), CUDA_SUCCESS);
	assert_int_equal(launches, 1);
	assert_int_equal(fake.events, 1);
	fake.wait_error = CUDA_ERROR_LAUNCH_FAILED;
	assert_int_equal(cks_mirrors_wait(session->mirrors, 40), CUDA_ERROR_LAUNCH_FAILED);
	fake.wait_error = CUDA_SUCCESS;
	assert_int_equal(cks_mirrors_wait(session->mirrors, 40), CUDA_SUCCESS);
	end(40, &first);
	end(20, &first);
	assert_int_equal(fake.events, 0);
}

static CUresult set_node(CUgraphNode node, CUgraphNodeParams *p)
{
	(void)node;
	return p->graph.graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The driver may give its nodes' handles to other nodes from then on. */
static void the_child_graph_that_a_node_had_ends_with_its_nodes(void **state)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	ck_node_set_args a = {.params = {sizeof(p), (char *)&p}};
	static int child, inner, node;
	uint64_t graph, within, newer;
	ck_node_set_res res = {0};

	(void)state;
	ck_driver.cuGraphNodeSetParams = set_node;
	make_graph(20);
	make_graph(21);
	assert_int_equal(cks_handle_name(&q, CK_KIND_NODE, &node, 20, &a.node), CUDA_SUCCESS);
	assert_int_equal(cks_handle_name(&q, CK_KIND_GRAPH, &child, a.node, &graph), CUDA_SUCCESS);
	assert_int_equal(cks_handle_name(&q, CK_KIND_NODE, &inner, graph, &within), CUDA_SUCCESS);
	p.graph.graph = (CUgraph)(uintptr_t)21;
	assert_int_equal(ck_serve_node_set(&q, &a, &res), CUDA_SUCCESS);
	assert_null(cks_handles_get(session->handles, graph, CK_KIND_GRAPH));
	assert_null(cks_handles_get(session->handles, within, CK_KIND_NODE));
	assert_int_equal(cks_handle_name(&q, CK_KIND_NODE, &inner, 21, &newer), CUDA_SUCCESS);
	assert_int_equal(cks_graph_root(&q, newer), 21);
	end(20, &newer);
	end(21, &newer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nodes_go_with_their_graph, prepare, drop),
		cmocka_unit_test_setup_teardown(a_graph_inside_another_is_not_destroyed_alone,
						prepare, drop),
		cmocka_unit_test_setup_teardown(parameters_that_are_made_up_are_refused, prepare,
						drop),
		cmocka_unit_test_setup_teardown(arrays_are_as_long_as_the_structure_says, prepare,
						drop),
		cmocka_unit_test_setup_teardown(a_kernels_parameters_arrive_as_they_were_packed,
						prepare, drop),
		cmocka_unit_test_setup_teardown(the_child_graph_that_a_node_had_ends_with_its_nodes,
						prepare, drop),
		cmocka_unit_test_setup_teardown(edges_need_as_many_ids, prepare, drop),
		cmocka_unit_test_setup_teardown(the_copy_uses_memory_of_the_servers_own, prepare,
						drop),
		cmocka_unit_test_setup_teardown(a_mirror_goes_with_the_last_of_its_owners, prepare,
						drop),
		cmocka_unit_test_setup_teardown(
			a_graph_with_the_id_of_one_that_ends_keeps_its_mirrors, prepare, drop),
		cmocka_unit_test_setup_teardown(
			what_is_pinned_is_used_again_and_goes_with_its_context, prepare, drop),
		cmocka_unit_test_setup_teardown(memory_of_a_running_launch_is_not_used_again,
						prepare, drop),
		cmocka_unit_test_setup_teardown(an_owner_may_end_while_memory_of_others_is_freed,
						prepare, drop),
		cmocka_unit_test_setup_teardown(mirrors_are_within_the_limit_of_pinned_memory,
						prepare, drop),
		cmocka_unit_test_setup_teardown(an_exec_has_the_mirrors_of_its_children, prepare,
						drop),
		cmocka_unit_test_setup_teardown(a_copy_that_changes_in_an_exec_changes_its_mirror,
						prepare, drop),
		cmocka_unit_test_setup_teardown(ids_and_sizes_of_mirrors_are_checked, prepare,
						drop),
		cmocka_unit_test_setup_teardown(a_launch_with_mirrors_can_be_waited_for, prepare,
						drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
