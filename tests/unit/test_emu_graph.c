/*
 * tests/unit/test_emu_graph.c - graphs of the emulated driver: nodes, edges, copies, and what
 * launches of them do.
 */
#include "tests/unit/emu_graph_fixture.h"

static void a_launch_runs_nodes_in_the_order_of_their_edges(void **state)
{
	struct fixture *f = *state;
	CUgraphNode add, store;
	CUgraphExec exec;

	add = node_add(f, f->graph, f->add, 0, 3, NULL);
	store = node_add(f, f->graph, f->store, 0, 10, NULL);
	ok(cuGraphAddDependencies(f->graph, &store, &add, 1));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	for (int i = 0; i < 2; i++) {
		ok(cuGraphLaunch(exec, f->stream));
		assert_int_equal(word_read(f, 0), 13);
	}
	ok(cuGraphExecDestroy(exec));
	fails(cuGraphExecDestroy(exec), INVALID_HANDLE);
	fails(cuGraphLaunch(exec, f->stream), INVALID_HANDLE);
}

static void edges_are_listed_changed_and_checked(void **state)
{
	struct fixture *f = *state;
	CUgraphNode a, b, c, twice[2], nodes[4], from[2], to[2];
	CUgraphEdgeData data[2];
	CUgraphExec exec;
	size_t count = 4;

	ok(cuGraphAddEmptyNode(&a, f->graph, NULL, 0));
	ok(cuGraphAddEmptyNode(&b, f->graph, &a, 1));
	ok(cuGraphAddEmptyNode(&c, f->graph, &b, 1));
	twice[0] = twice[1] = a;
	fails(cuGraphAddEmptyNode(nodes, f->graph, twice, 2), INVALID_VALUE);
	ok(cuGraphGetNodes(f->graph, nodes, &count));
	assert_int_equal(count, 3);
	assert_true(nodes[0] == a && nodes[1] == b && nodes[2] == c && !nodes[3]);
	count = 2;
	ok(cuGraphGetEdges_v2(f->graph, from, to, data, &count));
	assert_int_equal(count, 2);
	assert_true(from[0] == a && to[0] == b && from[1] == b && to[1] == c);
	ok(cuGraphGetRootNodes(f->graph, NULL, &count));
	assert_int_equal(count, 1);
	ok(cuGraphNodeGetDependencies(b, NULL, &count));
	assert_int_equal(count, 1);
	ok(cuGraphNodeGetDependentNodes_v2(c, NULL, NULL, &count));
	assert_int_equal(count, 0);
	fails(cuGraphAddDependencies(f->graph, &a, &b, 1), INVALID_VALUE);
	fails(cuGraphAddDependencies(f->graph, &a, &a, 1), INVALID_VALUE);
	/* a loop is found when the graph is instantiated */
	ok(cuGraphAddDependencies_v2(f->graph, &c, &a, NULL, 1));
	fails(cuGraphInstantiateWithFlags(&exec, f->graph, 0), INVALID_VALUE);
	ok(cuGraphRemoveDependencies(f->graph, &c, &a, 1));
	fails(cuGraphRemoveDependencies(f->graph, &c, &a, 1), INVALID_VALUE);
	ok(cuGraphDestroyNode(b));
	fails(cuGraphDestroyNode(b), INVALID_HANDLE);
	ok(cuGraphGetEdges(f->graph, NULL, NULL, &count));
	assert_int_equal(count, 0);
}

static void a_failed_list_of_edges_adds_none(void **state)
{
	struct fixture *f = *state;
	CUgraphNode a, b, from[2], to[2];
	size_t count;

	ok(cuGraphAddEmptyNode(&a, f->graph, NULL, 0));
	ok(cuGraphAddEmptyNode(&b, f->graph, NULL, 0));
	from[0] = to[1] = a;
	to[0] = from[1] = b;
	to[1] = (CUgraphNode)(uintptr_t)0x77;
	fails(cuGraphAddDependencies(f->graph, from, to, 2), INVALID_VALUE);
	ok(cuGraphGetEdges(f->graph, NULL, NULL, &count));
	assert_int_equal(count, 0);
}

static void garbage_handles_are_refused(void **state)
{
	struct fixture *f = *state;
	CUgraph graph = (CUgraph)f->stream;
	CUgraphNode node = (CUgraphNode)f->graph;
	CUgraphNodeType type;
	CUgraphExec exec;

	fails(cuGraphDestroy(graph), INVALID_HANDLE);
	fails(cuGraphDestroy(NULL), INVALID_VALUE);
	fails(cuGraphAddEmptyNode(&node, graph, NULL, 0), INVALID_HANDLE);
	fails(cuGraphNodeGetType((CUgraphNode)f->graph, &type), INVALID_HANDLE);
	fails(cuGraphInstantiateWithFlags(&exec, graph, 0), INVALID_HANDLE);
	fails(cuGraphLaunch((CUgraphExec)f->graph, f->stream), INVALID_HANDLE);
	fails(cuGraphLaunch(NULL, f->stream), INVALID_VALUE);
	fails(cuUserObjectRetain((CUuserObject)f->graph, 1), INVALID_HANDLE);
	fails(cuGraphAddChildGraphNode(&node, f->graph, NULL, 0, graph), INVALID_VALUE);
}

static void parameters_are_copied_when_a_node_is_made(void **state)
{
	struct fixture *f = *state;
	CUDA_KERNEL_NODE_PARAMS params;
	CUDA_KERNEL_NODE_PARAMS_v1 old;
	uint32_t value = 22;
	void *args[] = {NULL, &value};
	CUDA_MEMCPY3D copy;
	CUgraphNodeType type;
	CUgraphNode node = node_add(f, f->graph, f->store, 1, 21, NULL), bad;

	ok(cuGraphNodeGetType(node, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
	ok(cuGraphKernelNodeGetParams_v2(node, &params));
	assert_ptr_equal(params.func, f->store);
	assert_int_equal(*(uint32_t *)params.kernelParams[1], 21);
	ok(cuGraphKernelNodeGetParams(node, &old));
	assert_int_equal(*(CUdeviceptr *)old.kernelParams[0], word(f, 1));
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 1), 21);
	args[0] = old.kernelParams[0];
	old.kernelParams = args;
	ok(cuGraphKernelNodeSetParams(node, &old));
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 1), 22);
	/* what a node gives is its own, until it is changed */
	ok(cuGraphKernelNodeGetParams(node, &old));
	old.blockDimX = 5000;
	fails(cuGraphKernelNodeSetParams(node, &old), INVALID_VALUE);
	fails(cuGraphAddKernelNode(&bad, f->graph, NULL, 0, &old), INVALID_VALUE);
	old.func = (CUfunction)f->stream;
	fails(cuGraphAddKernelNode(&bad, f->graph, NULL, 0, &old), INVALID_HANDLE);
	fails(cuGraphMemcpyNodeGetParams(node, &copy), INVALID_VALUE);
}

static void copies_and_fills_read_host_memory_when_they_run(void **state)
{
	struct fixture *f = *state;
	CUDA_MEMSET_NODE_PARAMS fill = {word(f, 2), 0, 7, 4, 2, 1}, got;
	uint32_t source = 1, target = 0;
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = &source,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word(f, 2),
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUgraphNode a, b, c;

	ok(cuGraphAddMemsetNode(&a, f->graph, NULL, 0, &fill, f->context));
	ok(cuGraphAddMemcpyNode(&b, f->graph, &a, 1, &copy, f->context));
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = word(f, 2);
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = &target;
	ok(cuGraphAddMemcpyNode(&c, f->graph, &b, 1, &copy, f->context));
	source = 5;
	graph_run(f, f->graph);
	assert_int_equal(target, 5);
	assert_int_equal(word_read(f, 3), 7);
	ok(cuGraphMemsetNodeGetParams(a, &got));
	assert_memory_equal(&got, &fill, sizeof(got));
	fill.elementSize = 3;
	fails(cuGraphAddMemsetNode(&a, f->graph, NULL, 0, &fill, f->context), INVALID_VALUE);
	copy.srcDevice = 1;
	fails(cuGraphAddMemcpyNode(&a, f->graph, NULL, 0, &copy, f->context), INVALID_VALUE);
}

struct host_call {
	int calls;
	CUresult inside;
};

static void host_function(void *data)
{
	struct host_call *call = data;

	call->calls++;
	call->inside = cuCtxSynchronize();
}

static void a_host_node_calls_its_function_which_may_not_call_the_driver(void **state)
{
	struct fixture *f = *state;
	struct host_call call = {0};
	CUDA_HOST_NODE_PARAMS params = {host_function, &call}, got, none = {0};
	CUgraphNode node;

	ok(cuGraphAddHostNode(&node, f->graph, NULL, 0, &params));
	fails(cuGraphAddHostNode(&node, f->graph, NULL, 0, &none), INVALID_VALUE);
	ok(cuGraphHostNodeGetParams(node, &got));
	assert_ptr_equal(got.userData, &call);
	graph_run(f, f->graph);
	assert_int_equal(call.calls, 1);
	assert_int_equal(call.inside, CUDA_ERROR_NOT_PERMITTED);
}

static void a_launch_returns_before_its_nodes_are_done(void **state)
{
	struct fixture *f = *state;
	CUDA_KERNEL_NODE_PARAMS params = {0};
	CUdeviceptr p = (CUdeviceptr)f->flag;
	void *args[] = {&p};
	CUgraphNode node;
	CUgraphExec exec;

	params.func = f->spin;
	params.gridDimX = params.gridDimY = params.gridDimZ = 1;
	params.blockDimX = params.blockDimY = params.blockDimZ = 1;
	params.kernelParams = args;
	ok(cuGraphAddKernelNode_v2(&node, f->graph, NULL, 0, &params));
	node_add(f, f->graph, f->add, 0, 1, node);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	ok(cuGraphLaunch(exec, f->stream));
	fails(cuStreamQuery(f->stream), NOT_READY);
	/* the same instance in another stream waits for its turn */
	ok(cuGraphLaunch(exec, f->other));
	ok(cuGraphExecDestroy(exec));
	usleep(10000);
	fails(cuStreamQuery(f->other), NOT_READY);
	__atomic_store_n(f->flag, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(f->other));
	assert_int_equal(word_read(f, 0), 2);
}

static void event_nodes_record_and_wait(void **state)
{
	struct fixture *f = *state;
	CUgraphNode add, record, wait;
	CUevent event, got;
	CUgraphExec exec;

	ok(cuEventCreate(&event, 0));
	add = node_add(f, f->graph, f->add, 0, 1, NULL);
	ok(cuGraphAddEventRecordNode(&record, f->graph, &add, 1, event));
	fails(cuGraphAddEventRecordNode(&wait, f->graph, NULL, 0, (CUevent)f->stream),
	      INVALID_HANDLE);
	ok(cuGraphEventRecordNodeGetEvent(record, &got));
	assert_ptr_equal(got, event);
	fails(cuGraphEventWaitNodeGetEvent(record, &got), INVALID_VALUE);
	ok(cuGraphAddEventWaitNode(&wait, f->graph, &record, 1, event));
	node_add(f, f->graph, f->add, 0, 2, wait);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuEventSynchronize(event));
	ok(cuStreamWaitEvent(f->other, event, 0));
	ok(cuStreamSynchronize(f->other));
	assert_int_equal(word_read(f, 0), 3);
	ok(cuGraphExecDestroy(exec));
	ok(cuEventDestroy_v2(event));
}

static void a_child_graph_is_a_copy_that_runs_in_its_nodes_place(void **state)
{
	struct fixture *f = *state;
	CUgraphNode child, found, inner;
	CUgraph sub, got, clone;

	ok(cuGraphCreate(&sub, 0));
	inner = node_add(f, sub, f->store, 0, 5, NULL);
	ok(cuGraphAddChildGraphNode(&child, f->graph, NULL, 0, sub));
	node_add(f, f->graph, f->add, 0, 1, child);
	ok(cuGraphClone(&clone, sub));
	ok(cuGraphNodeFindInClone(&found, inner, clone));
	fails(cuGraphNodeFindInClone(&found, child, clone), INVALID_VALUE);
	ok(cuGraphDestroy(clone));
	ok(cuGraphDestroy(sub));
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 0), 6);
	ok(cuGraphChildGraphNodeGetGraph(child, &got));
	assert_ptr_not_equal(got, sub);
	fails(cuGraphDestroy(got), INVALID_VALUE); /* it is the node's */
	node_add(f, got, f->add, 0, 100, NULL);
	ok(cuGraphDestroyNode(child));
	fails(cuGraphDestroy(got), INVALID_HANDLE);
}

static void kernel_nodes_have_attributes(void **state)
{
	struct fixture *f = *state;
	CUgraphNode a = node_add(f, f->graph, f->nothing, 0, 0, NULL);
	CUgraphNode b = node_add(f, f->graph, f->nothing, 0, 0, NULL), empty;
	CUkernelNodeAttrValue value = {.priority = -2};

	ok(cuGraphAddEmptyNode(&empty, f->graph, NULL, 0));
	ok(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	ok(cuGraphKernelNodeCopyAttributes(b, a));
	memset(&value, 0, sizeof(value));
	ok(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	assert_int_equal(value.priority, -2);
	ok(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	assert_int_equal(value.cooperative, 0);
	fails(cuGraphKernelNodeGetAttribute(b, (CUkernelNodeAttrID)99, &value), INVALID_VALUE);
	fails(cuGraphKernelNodeSetAttribute(empty, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
	      INVALID_VALUE);
	graph_run(f, f->graph);
}

static void a_graph_is_printed_as_text(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/cricket-dot-XXXXXX", text[4096] = "";
	int fd = mkstemp(path);
	CUgraphNode a = node_add(f, f->graph, f->store, 0, 5, NULL);

	assert_true(fd >= 0);
	node_add(f, f->graph, f->add, 0, 1, a);
	ok(cuGraphDebugDotPrint(f->graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	unlink(path);
	assert_memory_equal(text, "digraph dot {\n", 14);
	assert_non_null(strstr(text, "KERNEL"));
	assert_non_null(strstr(text, " -> "));
	fails(cuGraphDebugDotPrint(f->graph, "/dev/null/x", 0), OPERATING_SYSTEM);
	fails(cuGraphDebugDotPrint(f->graph, NULL, 0), INVALID_VALUE);
}

static void external_semaphores_are_refused(void **state)
{
	struct fixture *f = *state;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT};
	CUgraphNode node;

	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &params), NOT_SUPPORTED);
	params.type = (CUgraphNodeType)77;
	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &params), INVALID_VALUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_launch_runs_nodes_in_the_order_of_their_edges),
		TEST(edges_are_listed_changed_and_checked),
		TEST(a_failed_list_of_edges_adds_none),
		TEST(garbage_handles_are_refused),
		TEST(parameters_are_copied_when_a_node_is_made),
		TEST(copies_and_fills_read_host_memory_when_they_run),
		TEST(a_host_node_calls_its_function_which_may_not_call_the_driver),
		TEST(a_launch_returns_before_its_nodes_are_done),
		TEST(event_nodes_record_and_wait),
		TEST(a_child_graph_is_a_copy_that_runs_in_its_nodes_place),
		TEST(kernel_nodes_have_attributes),
		TEST(a_graph_is_printed_as_text),
		TEST(external_semaphores_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
