/*
 * tests/unit/test_server_graph.c - graphs on the server: names that go with their graph, parameters
 * of nodes that a client has made up.
 */
#include "tests/unit/server_graph_fake.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
