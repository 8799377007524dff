/*
 * graph_modes - what the modes of a stream capture forbid, to which threads; captures that end in
 * the wrong place; captures into a graph that is there; conditions.
 */
#include <thread>

#include "check.h"

__global__ void add(int *data, int value)
{
	atomicAdd(data, value);
}

/* What cudaMalloc says in the calling thread. */
static cudaError_t try_malloc()
{
	void *p;
	cudaError_t err = cudaMalloc(&p, 4096);

	if (err == cudaSuccess) {
		cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

		CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
		CHECK(cudaFree(p));
		CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
	}
	(void)cudaGetLastError();
	return err;
}

static cudaError_t malloc_elsewhere(cudaStreamCaptureMode mode)
{
	cudaError_t err;

	std::thread([&] {
		CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
		err = try_malloc();
	}).join();
	return err;
}

/* Capture in MODE, call WHAT, and say how the capture ended. */
template <typename F> static cudaError_t capture(cudaStreamCaptureMode mode, F what)
{
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	cudaError_t err;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamBeginCapture(stream, mode));
	what(stream);
	err = cudaStreamEndCapture(stream, &graph);
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	(void)cudaGetLastError();
	CHECK(cudaStreamDestroy(stream));
	return err;
}

static void unsafe_calls()
{
	const cudaStreamCaptureMode global = cudaStreamCaptureModeGlobal;
	const cudaStreamCaptureMode local = cudaStreamCaptureModeThreadLocal;
	const cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
	const cudaError_t refused = cudaErrorStreamCaptureUnsupported;
	const cudaError_t lost = cudaErrorStreamCaptureInvalidated;

	EXPECT(capture(global, [&](cudaStream_t) { EXPECT(try_malloc() == refused); }) == lost);
	EXPECT(capture(local, [&](cudaStream_t) { EXPECT(try_malloc() == refused); }) == lost);
	EXPECT(capture(relaxed, [&](cudaStream_t) { EXPECT(!try_malloc()); }) == cudaSuccess);

	EXPECT(capture(global, [&](cudaStream_t) {
		EXPECT(malloc_elsewhere(global) == refused); }) == lost);
	EXPECT(capture(global, [&](cudaStream_t) {
		EXPECT(!malloc_elsewhere(local)); }) == cudaSuccess);
	EXPECT(capture(local, [&](cudaStream_t) {
		EXPECT(!malloc_elsewhere(global)); }) == cudaSuccess);

	/* as allocators of frameworks do it */
	EXPECT(capture(global, [&](cudaStream_t) {
		cudaStreamCaptureMode mode = relaxed;

		CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
		EXPECT(mode == global && !try_malloc());
		CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
		EXPECT(mode == relaxed);
	}) == cudaSuccess);
	printf("unsafe calls: refused to whom the mode says\n");
}

static void wrong_ends()
{
	cudaStream_t s, t;
	cudaEvent_t e, before;
	cudaGraph_t graph;
	cudaError_t err;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	std::thread([&] { err = cudaStreamEndCapture(s, &graph); }).join();
	EXPECT(err == cudaErrorStreamCaptureWrongThread);
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphDestroy(graph));

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	std::thread([&] { err = cudaStreamEndCapture(s, &graph); }).join();
	EXPECT(err == cudaSuccess);
	CHECK(cudaGraphDestroy(graph));

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CHECK(cudaEventRecord(e, s));
	CHECK(cudaStreamWaitEvent(t, e, 0));
	EXPECT(cudaStreamEndCapture(t, &graph) == cudaErrorStreamCaptureUnmatched);
	EXPECT(cudaStreamEndCapture(s, &graph) != cudaSuccess && graph == NULL);

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CHECK(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
	CHECK(cudaEventRecord(e, s));
	EXPECT(cudaStreamWaitEvent(t, e, 0) == cudaErrorStreamCaptureMerge);
	EXPECT(cudaStreamEndCapture(s, &graph) != cudaSuccess);
	EXPECT(cudaStreamEndCapture(t, &graph) != cudaSuccess);

	CHECK(cudaEventRecord(before, s));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaStreamWaitEvent(s, before, 0) == cudaErrorStreamCaptureIsolation);
	EXPECT(cudaStreamEndCapture(s, &graph) != cudaSuccess);

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CHECK(cudaEventRecord(e, s));
	EXPECT(cudaEventQuery(e) == cudaErrorCapturedEvent);
	(void)cudaStreamEndCapture(s, &graph);
	(void)cudaGetLastError();
	CHECK(cudaEventDestroy(e));
	CHECK(cudaEventDestroy(before));
	CHECK(cudaStreamDestroy(s));
	CHECK(cudaStreamDestroy(t));
	printf("wrong ends: thread, stream, merge, isolation\n");
}

/* Nodes go into a graph of the program's, behind nodes of it; and behind others on demand. */
static void into_a_graph(int *data)
{
	cudaStream_t s;
	cudaGraph_t graph, same, seen;
	cudaGraphNode_t first, nodes[4], to[4];
	cudaGraphExec_t exec;
	cudaStreamCaptureStatus status;
	const cudaGraphNode_t *after;
	const cudaGraphEdgeData *edges;
	size_t count;
	int host;

	CHECK(cudaMemset(data, 0, sizeof(int)));
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddEmptyNode(&first, graph, NULL, 0));
	CHECK(cudaStreamBeginCaptureToGraph(s, graph, &first, NULL, 1,
					    cudaStreamCaptureModeThreadLocal));
	add<<<1, 1, 0, s>>>(data, 1);
	CHECK(cudaStreamGetCaptureInfo(s, &status, NULL, &seen, &after, &edges, &count));
	EXPECT(status == cudaStreamCaptureStatusActive && seen == graph && count == 1);
	EXPECT(after[0] != first);
	CHECK(cudaStreamUpdateCaptureDependencies(s, &first, NULL, 1,
						  cudaStreamSetCaptureDependencies));
	add<<<1, 1, 0, s>>>(data, 2);
	CHECK(cudaStreamEndCapture(s, &same));
	EXPECT(same == graph);
	count = 4;
	CHECK(cudaGraphGetEdges(graph, nodes, to, NULL, &count));
	EXPECT(count == 2 && nodes[0] == first && nodes[1] == first);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaMemcpyAsync(&host, data, sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamSynchronize(s));
	EXPECT(host == 3);

	/* a launch in a capture is a node, too */
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamEndCapture(s, &same));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphInstantiate(&exec, same, 0));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemcpy(&host, data, sizeof(int), cudaMemcpyDeviceToHost));
	EXPECT(host == 9);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(same));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(s));
	printf("into a graph: behind its nodes, and launches in it\n");
}

/* A body that runs because its condition is set from the start, and one that does not. */
static void conditions(int *data)
{
	for (unsigned int set = 0; set < 2; set++) {
		cudaGraph_t graph;
		cudaGraphNode_t node, inside;
		cudaGraphConditionalHandle handle;
		cudaGraphNodeParams p = {}, k = {};
		cudaGraphExec_t exec;
		int value = 5, host;
		void *args[] = { &data, &value };

		CHECK(cudaMemset(data, 0, sizeof(int)));
		CHECK(cudaGraphCreate(&graph, 0));
		CHECK(cudaGraphConditionalHandleCreate(&handle, graph, set,
						       cudaGraphCondAssignDefault));
		p.type = cudaGraphNodeTypeConditional;
		p.conditional.handle = handle;
		p.conditional.type = cudaGraphCondTypeIf;
		p.conditional.size = 1;
		CHECK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &p));
		EXPECT(p.conditional.phGraph_out && p.conditional.phGraph_out[0]);
		k.type = cudaGraphNodeTypeKernel;
		k.kernel.func = (void *)add;
		k.kernel.gridDim = dim3(1);
		k.kernel.blockDim = dim3(2);
		k.kernel.kernelParams = args;
		CHECK(cudaGraphAddNode(&inside, p.conditional.phGraph_out[0], NULL, NULL, 0, &k));
		CHECK(cudaGraphInstantiate(&exec, graph, 0));
		CHECK(cudaGraphLaunch(exec, 0));
		CHECK(cudaMemcpy(&host, data, sizeof(int), cudaMemcpyDeviceToHost));
		EXPECT(host == (set ? 10 : 0));
		CHECK(cudaGraphExecDestroy(exec));
		CHECK(cudaGraphDestroy(graph));
	}
	printf("conditions: a body runs when its condition is set\n");
}

int main()
{
	int *data;

	CHECK(cudaMalloc(&data, sizeof(int)));
	unsafe_calls();
	wrong_ends();
	into_a_graph(data);
	conditions(data);
	CHECK(cudaFree(data));
	return 0;
}
