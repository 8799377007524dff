/*
 * tests/unit/test_server_mirror.c - memory for the copies in graphs: mirrors and their owners.
 */
#include "tests/unit/server_graph_fake.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
