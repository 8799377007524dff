/*
 * tests/unit/test_emu_exec.c - instances of graphs: flags, updates, conditional nodes, memory of
 * graphs, user objects.
 */
#include <pthread.h>

#include "tests/unit/emu_graph_fixture.h"

static CUDA_KERNEL_NODE_PARAMS kernel(CUfunction function, void **args)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = function,
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 1,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = args};
}

static void all_forms_of_instantiation_work(void **state)
{
	struct fixture *f = *state;
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
						.hUploadStream = f->stream,
						.result_out = CUDA_GRAPH_INSTANTIATE_ERROR};
	CUgraphNode error = (CUgraphNode)f;
	char log[8] = "junk";
	cuuint64_t flags;
	CUgraphExec exec;

	node_add(f, f->graph, f->add, 0, 1, NULL);
	ok(cuGraphInstantiate(&exec, f->graph, &error, log, sizeof(log)));
	assert_null(error);
	assert_string_equal(log, "");
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphInstantiateWithParams(&exec, f->graph, &params));
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
	ok(cuGraphUpload(exec, f->stream));
	ok(cuGraphLaunch_ptsz(exec, NULL));
	ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph,
				       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
	ok(cuGraphExecGetFlags(exec, &flags));
	assert_int_equal(flags, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	ok(cuGraphExecDestroy(exec));
	fails(cuGraphInstantiateWithFlags(&exec, f->graph, 64), INVALID_VALUE);
	fails(cuGraphInstantiateWithFlags(&exec, f->graph,
					  CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
	      NOT_SUPPORTED);
	assert_int_equal(word_read(f, 0), 1);
}

static void a_node_of_an_instance_is_changed_and_switched(void **state)
{
	struct fixture *f = *state;
	CUgraphNode node = node_add(f, f->graph, f->add, 0, 1, NULL), empty;
	uint32_t value = 10;
	void *args[] = {&f->words, &value};
	CUDA_KERNEL_NODE_PARAMS params = kernel(f->add, args);
	unsigned int enabled;
	CUgraphExec exec;

	ok(cuGraphAddEmptyNode(&empty, f->graph, NULL, 0));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	ok(cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 0), 10);
	ok(cuGraphNodeSetEnabled(exec, node, 0));
	ok(cuGraphNodeGetEnabled(exec, node, &enabled));
	assert_int_equal(enabled, 0);
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 0), 10);
	fails(cuGraphNodeSetEnabled(exec, empty, 0), INVALID_VALUE);
	fails(cuGraphExecKernelNodeSetParams_v2(exec, empty, &params), INVALID_VALUE);
	ok(cuGraphExecDestroy(exec));
	graph_run(f, f->graph); /* the graph itself is as it was */
	assert_int_equal(word_read(f, 0), 11);
}

static void a_launch_keeps_the_parameters_it_started_with(void **state)
{
	struct fixture *f = *state;
	CUdeviceptr flag = (CUdeviceptr)f->flag;
	void *spin_args[] = {&flag};
	CUDA_KERNEL_NODE_PARAMS params = kernel(f->spin, spin_args);
	uint32_t value = 100;
	void *args[] = {&f->words, &value};
	CUgraphNode spin, add;
	CUgraphExec exec;

	ok(cuGraphAddKernelNode_v2(&spin, f->graph, NULL, 0, &params));
	add = node_add(f, f->graph, f->add, 0, 1, spin);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	ok(cuGraphLaunch(exec, f->stream));
	params = kernel(f->add, args);
	ok(cuGraphExecKernelNodeSetParams_v2(exec, add, &params));
	__atomic_store_n(f->flag, 1, __ATOMIC_RELEASE);
	assert_int_equal(word_read(f, 0), 1);
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 0), 101);
	ok(cuGraphExecDestroy(exec));
}

static void an_update_needs_the_same_shape(void **state)
{
	struct fixture *f = *state;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, empty;
	CUgraphExec exec;
	CUgraph other;

	ok(cuGraphCreate(&other, 0));
	node_add(f, f->graph, f->store, 0, 1, NULL);
	node_add(f, other, f->store, 0, 2, NULL);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	ok(cuGraphExecUpdate_v2(exec, other, &info));
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 0), 2);
	ok(cuGraphAddEmptyNode(&empty, other, NULL, 0));
	fails(cuGraphExecUpdate_v2(exec, other, &info), GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	ok(cuGraphDestroy(other));
	ok(cuGraphCreate(&other, 0));
	ok(cuGraphAddEmptyNode(&empty, other, NULL, 0));
	fails(cuGraphExecUpdate(exec, other, &node, &info.result), GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	assert_ptr_equal(node, empty);
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 0), 2);
	ok(cuGraphDestroy(other));
	ok(cuGraphExecDestroy(exec));
}

static void copies_of_an_instance_keep_their_kind(void **state)
{
	struct fixture *f = *state;
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = word(f, 0),
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word(f, 1),
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUgraphNode node;
	CUgraphExec exec;

	ok(cuMemsetD32Async(word(f, 2), 9, 1, f->stream));
	ok(cuGraphAddMemcpyNode(&node, f->graph, NULL, 0, &copy, f->context));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	copy.srcDevice = word(f, 2);
	ok(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, f->context));
	ok(cuGraphLaunch(exec, f->stream));
	assert_int_equal(word_read(f, 1), 9);
	copy.Height = 2;
	copy.srcPitch = copy.dstPitch = 8;
	fails(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, f->context), INVALID_VALUE);
	copy.Height = 1;
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = f->flag;
	fails(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, f->context), INVALID_VALUE);
	ok(cuGraphExecDestroy(exec));
}

/* --- conditional nodes --- */

static CUgraphNodeParams condition(struct fixture *f, CUgraphConditionalNodeType type,
				   unsigned int size, unsigned int start)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

	ok(cuGraphConditionalHandleCreate(&params.conditional.handle, f->graph, f->context, start,
					  CU_GRAPH_COND_ASSIGN_DEFAULT));
	params.conditional.type = type;
	params.conditional.size = size;
	params.conditional.ctx = f->context;
	return params;
}

static void a_condition_chooses_what_runs(void **state)
{
	struct fixture *f = *state;
	CUgraphNodeParams yes = condition(f, CU_GRAPH_COND_TYPE_IF, 1, 1);
	CUgraphNodeParams no = condition(f, CU_GRAPH_COND_TYPE_IF, 2, 0);
	CUgraphNodeParams third = condition(f, CU_GRAPH_COND_TYPE_SWITCH, 3, 2);
	CUgraphNodeParams none = condition(f, CU_GRAPH_COND_TYPE_SWITCH, 3, 3);
	CUgraphNode node;

	ok(cuGraphAddNode(&node, f->graph, NULL, 0, &yes));
	ok(cuGraphAddNode(&node, f->graph, &node, 1, &no));
	ok(cuGraphAddNode_v2(&node, f->graph, &node, NULL, 1, &third));
	ok(cuGraphAddNode(&node, f->graph, &node, 1, &none));
	node_add(f, yes.conditional.phGraph_out[0], f->add, 0, 1, NULL);
	node_add(f, no.conditional.phGraph_out[0], f->add, 0, 10, NULL);
	node_add(f, no.conditional.phGraph_out[1], f->add, 0, 100, NULL);
	for (uint32_t i = 0; i < 3; i++) {
		node_add(f, third.conditional.phGraph_out[i], f->add, 0, 1000 * i, NULL);
		node_add(f, none.conditional.phGraph_out[i], f->add, 0, 10000, NULL);
	}
	graph_run(f, f->graph);
	assert_int_equal(word_read(f, 0), 2101);
	fails(cuGraphDestroy(yes.conditional.phGraph_out[0]), INVALID_VALUE);
	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &yes), INVALID_VALUE); /* it has a node */
	yes.conditional.size = 3;
	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &yes), INVALID_VALUE);
	yes.conditional.size = 1;
	yes.conditional.ctx = NULL;
	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &yes), INVALID_CONTEXT);
	yes.conditional.ctx = f->context;
	yes.conditional.handle = 123456;
	fails(cuGraphAddNode(&node, f->graph, NULL, 0, &yes), INVALID_VALUE);
}

static void bodies_and_conditions_are_checked_when_instantiated(void **state)
{
	struct fixture *f = *state;
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUDA_HOST_NODE_PARAMS host = {(CUhostFn)free, NULL};
	CUgraphNodeParams yes = condition(f, CU_GRAPH_COND_TYPE_IF, 1, 1);
	CUgraphNode node, inner;
	CUgraphExec exec;
	CUgraph clone;

	fails(cuGraphInstantiateWithParams(&exec, f->graph, &params), INVALID_VALUE);
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	ok(cuGraphAddNode(&node, f->graph, NULL, 0, &yes));
	fails(cuGraphClone(&clone, f->graph), NOT_SUPPORTED);
	ok(cuGraphAddHostNode(&inner, yes.conditional.phGraph_out[0], NULL, 0, &host));
	fails(cuGraphInstantiateWithParams(&exec, f->graph, &params), INVALID_VALUE);
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
	ok(cuGraphDestroyNode(inner));
	ok(cuGraphInstantiateWithParams(&exec, f->graph, &params));
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroyNode(node));
	ok(cuGraphAddNode(&node, f->graph, NULL, 0, &yes));
}

static void a_loop_ends_when_a_kernel_says_so(void **state)
{
	struct fixture *f = *state;
	CUgraphNodeParams loop = condition(f, CU_GRAPH_COND_TYPE_WHILE, 1, 1);
	void *args[] = {&f->words, &loop.conditional.handle};
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode node, inner;
	CUfunction count;
	CUmodule module;
	CUgraphExec exec;

	ok(cuModuleLoadData(&module, condition_kernels));
	ok(cuModuleGetFunction(&count, module, "count"));
	params = kernel(count, args);
	ok(cuGraphAddNode(&node, f->graph, NULL, 0, &loop));
	inner = node_add(f, loop.conditional.phGraph_out[0], f->add, 1, 3, NULL);
	ok(cuGraphAddKernelNode_v2(&node, loop.conditional.phGraph_out[0], &inner, 1, &params));
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	for (int i = 0; i < 2; i++) {
		ok(cuMemsetD32Async(f->words, 5, 1, f->stream));
		ok(cuGraphLaunch(exec, f->stream));
	}
	assert_int_equal(word_read(f, 1), 30);
	ok(cuGraphExecDestroy(exec));
	ok(cuModuleUnload(module));
}

/* --- memory --- */

/* What memory of graphs is counted in. */
#define PIECE ((uint64_t)2 << 20)

static CUdeviceptr memory_node(CUgraph graph, size_t size, CUgraphNode *node)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = size};

	ok(cuGraphAddMemAllocNode(node, graph, NULL, 0, &params));
	return params.dptr;
}

static uint64_t memory_used(CUgraphMem_attribute attribute)
{
	cuuint64_t value = 1;

	ok(cuDeviceGetGraphMemAttribute(0, attribute, &value));
	return value;
}

static void memory_that_a_graph_leaves_is_freed_before_the_next_launch(void **state)
{
	struct fixture *f = *state;
	CUgraphNode alloc, fill;
	CUdeviceptr address = memory_node(f->graph, 64, &alloc);
	CUDA_MEMSET_NODE_PARAMS params = {address, 0, 5, 4, 16, 1};
	CUgraphExec exec, second;
	uint32_t value;
	CUgraph clone;

	ok(cuGraphAddMemsetNode(&fill, f->graph, &alloc, 1, &params, f->context));
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	fails(cuGraphInstantiateWithFlags(&second, f->graph, 0), NOT_SUPPORTED);
	fails(cuGraphClone(&clone, f->graph), NOT_SUPPORTED);
	fails(cuGraphDestroyNode(alloc), NOT_SUPPORTED);
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuMemcpyDtoHAsync_v2(&value, address + 60, 4, f->stream));
	assert_int_equal(value, 5);
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), PIECE);
	fails(cuGraphLaunch(exec, f->stream), INVALID_VALUE);
	ok(cuMemFree_v2(address));
	fails(cuMemFree_v2(address), INVALID_VALUE);
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuMemFree_v2(address));
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph,
				       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphExecDestroy(exec));
	ok(cuMemFree_v2(address));
}

static void a_free_node_ends_what_an_allocation_node_began(void **state)
{
	struct fixture *f = *state;
	CUgraphNode alloc, node;
	CUdeviceptr address = memory_node(f->graph, 4096, &alloc), got;
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	cuuint64_t zero = 0, one = 1;
	CUgraphExec exec;

	ok(cuGraphAddMemFreeNode(&node, f->graph, &alloc, 1, address));
	ok(cuGraphMemFreeNodeGetParams(node, &got));
	assert_int_equal(got, address);
	ok(cuGraphMemAllocNodeGetParams(alloc, &params));
	assert_int_equal(params.bytesize, 4096);
	fails(cuGraphAddMemFreeNode(&node, f->graph, NULL, 0, f->words), INVALID_VALUE);
	fails(cuGraphRemoveDependencies(f->graph, &alloc, &node, 1), NOT_SUPPORTED);
	ok(cuGraphInstantiateWithFlags(&exec, f->graph, 0));
	for (int i = 0; i < 3; i++)
		ok(cuGraphLaunch(exec, f->stream));
	ok(cuStreamSynchronize(f->stream));
	/* the instance keeps what it has used, until that is trimmed */
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), PIECE);
	assert_true(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= PIECE);
	fails(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one),
	      INVALID_VALUE);
	fails(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero),
	      INVALID_VALUE);
	ok(cuDeviceGraphMemTrim(0));
	fails(cuDeviceGraphMemTrim(99), INVALID_DEVICE);
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	assert_true(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= PIECE);
	ok(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
	assert_int_equal(memory_used(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
	ok(cuGraphExecDestroy(exec));
}

/* --- user objects --- */

static size_t free_memory(void)
{
	size_t free, total;

	ok(cuMemGetInfo_v2(&free, &total));
	return free;
}

/* As on a GPU: a capture or a node takes addresses, the first launch or upload takes memory, and
 * trimming returns it. */
static void memory_of_a_graph_is_taken_when_it_is_launched(void **state)
{
	struct fixture *f = *state;
	size_t before = free_memory(), size = before / 4 * 3, left;
	CUdeviceptr full, address;
	CUgraphExec exec;
	CUgraph graph;

	ok(cuMemAlloc_v2(&full, size));
	left = free_memory();
	ok(cuStreamBeginCapture_v2(f->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemAllocAsync(&address, size, f->stream));
	ok(cuMemsetD8Async(address, 7, 16, f->stream));
	ok(cuMemFreeAsync(address, f->stream));
	ok(cuStreamEndCapture(f->stream, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	assert_int_equal(free_memory(), left);
	fails(cuGraphUpload(exec, f->stream), OUT_OF_MEMORY);
	fails(cuGraphLaunch(exec, f->stream), OUT_OF_MEMORY);
	assert_int_equal(free_memory(), left);
	ok(cuMemFree_v2(full));
	ok(cuGraphUpload(exec, f->stream));
	left = free_memory();
	assert_in_range(left, before - size - PIECE, before - size);
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuStreamSynchronize(f->stream));
	assert_int_equal(free_memory(), left);
	ok(cuGraphExecDestroy(exec));
	assert_int_equal(free_memory(), left); /* another graph may use it */
	ok(cuDeviceGraphMemTrim(0));
	assert_int_equal(free_memory(), before);
	ok(cuGraphDestroy(graph));
}

static void the_memory_of_graphs_ends_with_its_context(void **state)
{
	struct fixture *f = *state;
	size_t before = free_memory();
	CUcontext context;
	CUgraphExec exec;
	CUgraphNode alloc;
	CUdeviceptr address;
	CUgraph graph;

	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuGraphCreate(&graph, 0));
	address = memory_node(graph, 8 * PIECE, &alloc);
	assert_int_not_equal(address, 0);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	assert_true(free_memory() <= before - 8 * PIECE);
	ok(cuCtxDestroy_v2(context));
	ok(cuCtxSetCurrent(f->context));
	assert_int_equal(free_memory(), before);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	assert_int_equal(free_memory(), before);
}

static void count_up(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_RELEASE);
}

static void a_user_object_goes_with_its_last_reference(void **state)
{
	struct fixture *f = *state;
	CUgraph graph, clone;
	CUuserObject object;
	int gone = 0;

	fails(cuUserObjectCreate(&object, &gone, count_up, 1, 0), INVALID_VALUE);
	fails(cuUserObjectCreate(&object, &gone, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
	      INVALID_VALUE);
	ok(cuUserObjectCreate(&object, &gone, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuUserObjectRetain(object, 2));
	ok(cuUserObjectRelease(object, 2));
	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	fails(cuGraphReleaseUserObject(graph, object, 2), INVALID_VALUE);
	ok(cuGraphClone(&clone, graph));
	ok(cuGraphDestroy(graph));
	assert_int_equal(gone, 0);
	ok(cuGraphReleaseUserObject(clone, object, 1));
	assert_int_equal(gone, 1);
	fails(cuUserObjectRelease(object, 1), INVALID_HANDLE);
	ok(cuGraphDestroy(clone));
	(void)f;
}

static void a_running_launch_keeps_user_objects(void **state)
{
	struct fixture *f = *state;
	CUdeviceptr flag = (CUdeviceptr)f->flag;
	void *args[] = {&flag};
	CUDA_KERNEL_NODE_PARAMS params = kernel(f->spin, args);
	CUuserObject object;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;
	int gone = 0;

	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	ok(cuUserObjectCreate(&object, &gone, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ok(cuGraphLaunch(exec, f->stream));
	ok(cuGraphExecDestroy(exec));
	assert_int_equal(__atomic_load_n(&gone, __ATOMIC_ACQUIRE), 0);
	__atomic_store_n(f->flag, 1, __ATOMIC_RELEASE);
	ok(cuStreamSynchronize(f->stream));
	assert_int_equal(__atomic_load_n(&gone, __ATOMIC_ACQUIRE), 1);
}

/* --- threads --- */

#define THREADS 4
#define ROUNDS 20

struct worker {
	struct fixture *f;
	int index, failures;
};

/* Capture, instantiate, launch, update and destroy, in a stream and a word of its own. */
static CUresult round_run(struct worker *worker, CUstream stream, int round)
{
	CUdeviceptr p = word(worker->f, worker->index);
	uint32_t one = 1;
	void *args[] = {&p, &one};
	CUgraphExecUpdateResultInfo info;
	CUgraph graph = NULL, clone = NULL;
	CUgraphExec exec = NULL;
	CUresult result = cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);

	result |= cuLaunchKernel(worker->f->add, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
	result |= cuStreamEndCapture(stream, &graph);
	result |= cuGraphInstantiateWithFlags(&exec, graph, 0);
	result |= cuGraphLaunch(exec, stream);
	result |= cuGraphClone(&clone, graph);
	result |= cuGraphExecUpdate_v2(exec, clone, &info);
	result |= cuGraphLaunch(exec, stream);
	result |= cuGraphExecDestroy(exec);
	result |= cuGraphDestroy(graph);
	result |= cuGraphDestroy(clone);
	return round % 5 ? result : result | cuStreamSynchronize(stream);
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	CUstream stream;

	worker->failures += cuCtxSetCurrent(worker->f->context) != CUDA_SUCCESS;
	worker->failures += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
	for (int i = 0; i < ROUNDS; i++)
		worker->failures += round_run(worker, stream, i) != CUDA_SUCCESS;
	worker->failures += cuStreamSynchronize(stream) != CUDA_SUCCESS;
	worker->failures += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
	return NULL;
}

static void many_threads_capture_and_launch(void **state)
{
	struct worker workers[THREADS];
	struct fixture *f = *state;
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){f, i, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, worker_run, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].failures, 0);
		assert_int_equal(word_read(f, i), 2 * ROUNDS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_forms_of_instantiation_work),
		TEST(a_node_of_an_instance_is_changed_and_switched),
		TEST(a_launch_keeps_the_parameters_it_started_with),
		TEST(an_update_needs_the_same_shape),
		TEST(copies_of_an_instance_keep_their_kind),
		TEST(a_condition_chooses_what_runs),
		TEST(bodies_and_conditions_are_checked_when_instantiated),
		TEST(a_loop_ends_when_a_kernel_says_so),
		TEST(memory_that_a_graph_leaves_is_freed_before_the_next_launch),
		TEST(a_free_node_ends_what_an_allocation_node_began),
		TEST(memory_of_a_graph_is_taken_when_it_is_launched),
		TEST(the_memory_of_graphs_ends_with_its_context),
		TEST(a_user_object_goes_with_its_last_reference),
		TEST(a_running_launch_keeps_user_objects),
		TEST(many_threads_capture_and_launch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
