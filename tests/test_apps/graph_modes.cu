/*
 * graph_modes - what the modes of a stream capture forbid, to which threads; what calls do to a
 * capture; captures that end in the wrong place; captures into a graph that is there; conditions.
 * What is expected was seen with a GPU.
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

/* Call WHAT in captures of all modes: it says SAYS, and is unsafe, harmful in any, or fine. */
enum harm { FINE, UNSAFE, HARMFUL };

template <typename F> static void during(const char *name, cudaError_t says, enum harm harm, F what)
{
	const cudaStreamCaptureMode modes[] = { cudaStreamCaptureModeGlobal,
						cudaStreamCaptureModeThreadLocal,
						cudaStreamCaptureModeRelaxed };

	for (cudaStreamCaptureMode mode : modes) {
		bool safe = harm == UNSAFE && mode == cudaStreamCaptureModeRelaxed;
		bool lost = harm == HARMFUL || (harm == UNSAFE && !safe);
		cudaError_t said = cudaErrorUnknown;
		cudaError_t end = capture(mode, [&](cudaStream_t s) { said = what(s); });

		if (said != (safe ? cudaSuccess : says) ||
		    end != (lost ? cudaErrorStreamCaptureInvalidated : cudaSuccess))
			printf("%s in mode %d: %s, then %s\n", name, (int)mode,
			       cudaGetErrorName(said), cudaGetErrorName(end));
	}
}

static void harm(int *data)
{
	const cudaError_t refused = cudaErrorStreamCaptureUnsupported;
	const unsigned int external = cudaEventRecordExternal;
	cudaStream_t other;
	cudaEvent_t e, never;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	void *pinned;
	float ms;

	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&e));
	CHECK(cudaEventCreate(&never));
	CHECK(cudaEventRecord(e, other));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaDeviceSynchronize());

	during("stream sync", refused, UNSAFE, [&](cudaStream_t) {
		return cudaStreamSynchronize(other); });
	during("stream query", refused, UNSAFE, [&](cudaStream_t) {
		return cudaStreamQuery(other); });
	during("legacy sync", refused, UNSAFE, [&](cudaStream_t) {
		return cudaStreamSynchronize(0); });
	during("event query", refused, UNSAFE, [&](cudaStream_t) { return cudaEventQuery(e); });
	during("event sync", refused, UNSAFE, [&](cudaStream_t) {
		return cudaEventSynchronize(e); });
	during("pinning", refused, UNSAFE, [&](cudaStream_t) {
		cudaError_t err = cudaMallocHost(&pinned, 4096);

		return err ? err : cudaFreeHost(pinned); });
	during("limit", refused, UNSAFE, [&](cudaStream_t) {
		return cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20); });
	during("instantiation", refused, UNSAFE, [&](cudaStream_t) {
		cudaGraphExec_t x;
		cudaError_t err = cudaGraphInstantiate(&x, graph, 0);

		return err ? err : cudaGraphExecDestroy(x); });

	during("self sync", refused, HARMFUL, [&](cudaStream_t s) {
		return cudaStreamSynchronize(s); });
	during("launch of a graph", refused, HARMFUL, [&](cudaStream_t s) {
		return cudaGraphLaunch(exec, s); });
	during("upload", refused, HARMFUL, [&](cudaStream_t s) {
		return cudaGraphUpload(exec, s); });
	during("captured event", cudaErrorCapturedEvent, HARMFUL, [&](cudaStream_t s) {
		cudaEvent_t mark;
		cudaError_t err;

		CHECK(cudaEventCreate(&mark));
		CHECK(cudaEventRecord(mark, s));
		err = cudaEventQuery(mark);
		CHECK(cudaEventDestroy(mark));
		return err; });
	during("isolation", cudaErrorStreamCaptureIsolation, HARMFUL, [&](cudaStream_t s) {
		return cudaStreamWaitEvent(s, e, 0); });

	during("launch elsewhere", cudaSuccess, FINE, [&](cudaStream_t) {
		return cudaGraphLaunch(exec, other); });
	during("copy", cudaSuccess, FINE, [&](cudaStream_t) {
		int host;

		return cudaMemcpy(&host, data, sizeof(host), cudaMemcpyDeviceToHost); });
	during("time", cudaErrorInvalidResourceHandle, FINE, [&](cudaStream_t s) {
		cudaEvent_t mark;
		cudaError_t err;

		CHECK(cudaEventCreate(&mark));
		CHECK(cudaEventRecord(mark, s));
		err = cudaEventElapsedTime(&ms, e, mark);
		CHECK(cudaEventDestroy(mark));
		/* a driver of 580 has been seen to say either */
		return err == cudaErrorCapturedEvent ? cudaErrorInvalidResourceHandle : err; });
	during("no record", cudaSuccess, FINE, [&](cudaStream_t s) {
		return cudaStreamWaitEvent(s, never, 0); });
	during("external record", cudaErrorIllegalState, FINE, [&](cudaStream_t) {
		return cudaEventRecordWithFlags(never, other, external); });
	during("fork that goes", cudaSuccess, FINE, [&](cudaStream_t s) {
		cudaStream_t fork;
		cudaEvent_t mark;

		CHECK(cudaStreamCreateWithFlags(&fork, cudaStreamNonBlocking));
		CHECK(cudaEventCreate(&mark));
		CHECK(cudaEventRecord(mark, s));
		CHECK(cudaStreamWaitEvent(fork, mark, 0));
		CHECK(cudaEventDestroy(mark));
		return cudaStreamDestroy(fork); });

	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaEventDestroy(e));
	CHECK(cudaEventDestroy(never));
	CHECK(cudaStreamDestroy(other));
	printf("harm: done by what is unsafe or waits for the capture\n");
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
	EXPECT(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState && graph == NULL);
	(void)cudaGetLastError();

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

	/* one at a time */
	CHECK(cudaStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaStreamBeginCaptureToGraph(cudaStreamPerThread, graph, NULL, NULL, 0,
					     cudaStreamCaptureModeRelaxed) ==
	       cudaErrorIllegalState);
	CHECK(cudaStreamEndCapture(s, &same));
	(void)cudaGetLastError();
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(s));
	printf("into a graph: behind its nodes\n");
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
	harm(data);
	wrong_ends();
	into_a_graph(data);
	conditions(data);
	CHECK(cudaFree(data));
	return 0;
}
