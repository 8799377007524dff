/*
 * graphs - CUDA graphs by the runtime: captured and built by hand, every kind of node, launched,
 * updated, cloned, edited; copies from and to the host's memory at every launch; wrong calls.
 */
#include <cstring>
#include <unistd.h>
#include <vector>

#include "check.h"

static const int N = 1000;

__global__ void add(int *data, int value, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] += value;
}

__global__ void multiply(int *data, int value, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		data[i] *= value;
}

__global__ void sum(int *out, const int *a, const int *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = a[i] + b[i];
}

static int *device_ints(int n = N)
{
	int *p;

	CHECK(cudaMalloc(&p, n * sizeof(int)));
	CHECK(cudaMemset(p, 0, n * sizeof(int)));
	return p;
}

/* Every one of @n ints at @p on the device is @value. */
static bool all_are(const int *p, int value, int n = N)
{
	std::vector<int> host(n);

	CHECK(cudaMemcpy(host.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int x : host) {
		if (x != value) {
			fprintf(stderr, "%d in place of %d\n", x, value);
			return false;
		}
	}
	return true;
}

/* What torch.cuda.graph does: capture in relaxed calls of one stream, instantiate, launch often. */
static void capture_of_one_stream()
{
	int *data = device_ints();
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaStreamCaptureStatus status;
	unsigned long long id = 0;
	size_t count = 0;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamIsCapturing(stream, &status));
	EXPECT(status == cudaStreamCaptureStatusNone);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
	EXPECT(status == cudaStreamCaptureStatusActive && id != 0);
	add<<<8, 128, 0, stream>>>(data, 3, N);
	multiply<<<8, 128, 0, stream>>>(data, 2, N);
	CHECK(cudaMemsetAsync(data + N - 1, 0, sizeof(int), stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaStreamIsCapturing(stream, &status));
	EXPECT(status == cudaStreamCaptureStatusNone);
	EXPECT(all_are(data, 0));	/* nothing has run */
	CHECK(cudaGraphGetNodes(graph, NULL, &count));
	EXPECT(count == 3);

	cudaGraphNode_t root;
	cudaKernelNodeParams k = {};

	count = 1;
	CHECK(cudaGraphGetRootNodes(graph, &root, &count));
	CHECK(cudaGraphKernelNodeGetParams(root, &k));
	EXPECT(k.func == (void *)add && k.gridDim.x == 8 && k.blockDim.x == 128);
	EXPECT(*(int **)k.kernelParams[0] == data && *(int *)k.kernelParams[1] == 3 &&
	       *(int *)k.kernelParams[2] == N);
	CHECK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
	CHECK(cudaGraphDestroy(graph));
	for (int i = 0; i < 3; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(all_are(data, 42, N - 1));	/* ((0 + 3) * 2 + 3) * 2 ... */
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(data));
	printf("capture of one stream: 3 launches of 3 nodes\n");
}

/* Two streams joined by events are one graph. */
static void capture_across_streams()
{
	int *a = device_ints(), *b = device_ints(), *c = device_ints();
	cudaStream_t s, t;
	cudaEvent_t fork, join;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaStreamCaptureStatus status;
	size_t nodes = 0, roots = 0, edges = 0;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamCreate(&t));
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	add<<<8, 128, 0, s>>>(a, 1, N);
	CHECK(cudaEventRecord(fork, s));
	CHECK(cudaStreamWaitEvent(t, fork, 0));
	CHECK(cudaStreamIsCapturing(t, &status));
	EXPECT(status == cudaStreamCaptureStatusActive);
	add<<<8, 128, 0, t>>>(b, 10, N);
	add<<<8, 128, 0, s>>>(a, 1, N);
	CHECK(cudaEventRecord(join, t));
	CHECK(cudaStreamWaitEvent(s, join, 0));
	sum<<<8, 128, 0, s>>>(c, a, b, N);
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaStreamIsCapturing(t, &status));
	EXPECT(status == cudaStreamCaptureStatusNone);
	CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
	CHECK(cudaGraphGetRootNodes(graph, NULL, &roots));
	CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
	EXPECT(nodes == 4 && roots == 1 && edges == 4);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	EXPECT(all_are(c, 24));
	printf("capture across streams: %zu nodes, %zu root, %zu edges\n", nodes, roots, edges);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaEventDestroy(fork));
	CHECK(cudaEventDestroy(join));
	CHECK(cudaStreamDestroy(s));
	CHECK(cudaStreamDestroy(t));
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(c));
}

/* A fork that is not joined, and a legacy stream that would have to wait: the capture is lost. */
static void captures_that_fail()
{
	int *data = device_ints();
	cudaStream_t s, t, free_stream;
	cudaEvent_t event;
	cudaGraph_t graph = (cudaGraph_t)1;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	EXPECT(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState);
	EXPECT(cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed) ==
	       cudaErrorStreamCaptureUnsupported);

	CHECK(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
	CHECK(cudaEventRecord(event, t));
	CHECK(cudaStreamWaitEvent(s, event, 0));
	add<<<1, 1, 0, s>>>(data, 1, 1);
	EXPECT(cudaStreamEndCapture(t, &graph) == cudaErrorStreamCaptureUnjoined);
	EXPECT(graph == NULL);

	CHECK(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaStreamSynchronize(t) == cudaErrorStreamCaptureUnsupported);
	EXPECT(cudaStreamEndCapture(t, &graph) == cudaErrorStreamCaptureInvalidated);
	EXPECT(graph == NULL);

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	EXPECT(cudaMemsetAsync(data, 0, 4, 0) == cudaErrorStreamCaptureImplicit);
	EXPECT(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);

	/* what was lost leaves nothing behind */
	(void)cudaGetLastError();
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<1, 1, 0, s>>>(data, 1, 1);
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphDestroy(graph));
	EXPECT(all_are(data, 0));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(s));
	CHECK(cudaStreamDestroy(t));
	CHECK(cudaStreamDestroy(free_stream));
	CHECK(cudaFree(data));
	printf("captures that fail: unjoined, waited for, implicit\n");
}

/* Host memory in a graph is read, and written, at every launch. */
static void copies_of_host_memory()
{
	int *data = device_ints(), *in, *out;
	cudaStream_t stream;
	cudaGraph_t graph, clone;
	cudaGraphExec_t exec;

	CHECK(cudaMallocHost(&in, N * sizeof(int)));
	CHECK(cudaMallocHost(&out, N * sizeof(int)));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaMemcpyAsync(data, in, N * sizeof(int), cudaMemcpyHostToDevice, stream));
	multiply<<<8, 128, 0, stream>>>(data, 3, N);
	CHECK(cudaMemcpyAsync(out, data, N * sizeof(int), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));

	cudaGraphNode_t root;
	cudaMemcpy3DParms p = {};
	size_t count = 1;

	CHECK(cudaGraphGetRootNodes(graph, &root, &count));
	CHECK(cudaGraphMemcpyNodeGetParams(root, &p));
	EXPECT(p.srcPtr.ptr == in && p.dstPtr.ptr == data && p.extent.width == N * sizeof(int));
	CHECK(cudaGraphClone(&clone, graph));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphInstantiate(&exec, clone, 0));
	CHECK(cudaGraphDestroy(clone));
	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < N; i++)
			in[i] = round * i;
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		for (int i = 0; i < N; i++)
			EXPECT(out[i] == 3 * round * i);
	}
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFreeHost(in));
	CHECK(cudaFreeHost(out));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(data));
	printf("copies of host memory: at every launch\n");
}

/* A function between copies sees what those before it have brought, and those after it take what
 * it has written. */
struct seen {
	int *from, *to;
	long total;
};

static void CUDART_CB add_up(void *data)
{
	seen *s = (seen *)data;

	s->total = 0;
	for (int i = 0; i < N; i++)
		s->total += s->from[i];
	for (int i = 0; i < N; i++)
		s->to[i] = s->from[i] + 1;
}

static void functions_between_copies()
{
	int *data = device_ints();
	seen s;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaMallocHost(&s.from, N * sizeof(int)));
	CHECK(cudaMallocHost(&s.to, N * sizeof(int)));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	add<<<8, 128, 0, stream>>>(data, 5, N);
	CHECK(cudaMemcpyAsync(s.from, data, N * sizeof(int), cudaMemcpyDefault, stream));
	CHECK(cudaLaunchHostFunc(stream, add_up, &s));
	CHECK(cudaMemcpyAsync(data, s.to, N * sizeof(int), cudaMemcpyDefault, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(s.total == 5L * N);
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(s.total == 11L * N && all_are(data, 12));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaFreeHost(s.from));
	CHECK(cudaFreeHost(s.to));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(data));
	printf("functions between copies: see and are seen\n");
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, void (*kernel)(int *, int, int), int *data,
				   int value, const cudaGraphNode_t *after, size_t count)
{
	int n = N;
	void *args[] = { &data, &value, &n };
	cudaKernelNodeParams p = {};
	cudaGraphNode_t node;

	p.func = (void *)kernel;
	p.gridDim = dim3(8);
	p.blockDim = dim3(128);
	p.kernelParams = args;
	CHECK(cudaGraphAddKernelNode(&node, graph, after, count, &p));
	return node;
}

static void CUDART_CB count_up(void *data)
{
	++*(int *)data;
}

/* Nodes by hand: empty, memset, copy, kernel, function, child; asked back, and changed. */
static void nodes_by_hand()
{
	int *data = device_ints(), *copy = device_ints(), host[4] = { 7, 7, 7, 7 }, calls = 0;
	cudaGraph_t graph, child, inner;
	cudaGraphNode_t empty, fill, twice, copied, called, inside, found[8];
	cudaGraphExec_t exec;
	cudaMemsetParams m = {};
	cudaHostNodeParams h = { count_up, &calls }, h_back = {};
	cudaKernelNodeParams k = {};
	cudaGraphNodeType type;
	size_t count;

	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
	m.dst = data;
	m.value = 5;
	m.elementSize = 4;
	m.width = N;
	m.height = 1;
	CHECK(cudaGraphAddMemsetNode(&fill, graph, &empty, 1, &m));
	twice = kernel_node(graph, multiply, data, 2, &fill, 1);
	CHECK(cudaGraphAddMemcpyNode1D(&copied, graph, &twice, 1, copy, data, N * sizeof(int),
				       cudaMemcpyDeviceToDevice));
	CHECK(cudaGraphCreate(&child, 0));
	kernel_node(child, add, copy, 1, NULL, 0);
	CHECK(cudaGraphAddChildGraphNode(&inside, graph, &copied, 1, child));
	CHECK(cudaGraphDestroy(child));
	CHECK(cudaGraphAddHostNode(&called, graph, NULL, 0, &h));
	CHECK(cudaGraphAddDependencies(graph, &called, &inside, NULL, 1));
	EXPECT(cudaGraphAddDependencies(graph, &inside, &called, NULL, 1) != cudaSuccess ||
	       cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess);	/* a circle */
	(void)cudaGetLastError();
	(void)cudaGraphRemoveDependencies(graph, &inside, &called, NULL, 1);
	(void)cudaGetLastError();

	CHECK(cudaGraphNodeGetType(inside, &type));
	EXPECT(type == cudaGraphNodeTypeGraph);
	CHECK(cudaGraphChildGraphNodeGetGraph(inside, &inner));
	CHECK(cudaGraphGetNodes(inner, NULL, &count));
	EXPECT(count == 1);
	CHECK(cudaGraphKernelNodeGetParams(twice, &k));
	EXPECT(k.func == (void *)multiply && k.gridDim.x == 8 && k.blockDim.x == 128);
	EXPECT(*(int **)k.kernelParams[0] == data && *(int *)k.kernelParams[1] == 2);
	CHECK(cudaGraphHostNodeGetParams(called, &h_back));
	EXPECT(h_back.fn == count_up && h_back.userData == &calls);
	CHECK(cudaGraphMemsetNodeGetParams(fill, &m));
	EXPECT(m.dst == data && m.value == 5 && m.width == (size_t)N);
	count = 8;
	CHECK(cudaGraphNodeGetDependencies(inside, found, NULL, &count));
	EXPECT(count == 2 && (found[0] == copied || found[1] == copied));
	CHECK(cudaGraphNodeGetDependentNodes(twice, NULL, NULL, &count));
	EXPECT(count == 1);

	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 10) && all_are(copy, 11) && calls == 1);

	/* the exec alone: another factor, another value, no function */
	int value = 3, n = N;
	void *args[] = { &data, &value, &n };

	k.kernelParams = args;
	CHECK(cudaGraphExecKernelNodeSetParams(exec, twice, &k));
	m.value = 6;
	CHECK(cudaGraphExecMemsetNodeSetParams(exec, fill, &m));
	CHECK(cudaGraphNodeSetEnabled(exec, twice, 1));
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 18) && all_are(copy, 19) && calls == 2);
	CHECK(cudaGraphNodeSetEnabled(exec, twice, 0));
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 6) && calls == 3);

	/* the copy from the host's memory in place of the device's, in the exec and read each
	 * time */
	CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, copied, copy, data, N * sizeof(int),
						 cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy(host, copy, sizeof(host), cudaMemcpyDeviceToHost));
	EXPECT(host[0] == 7 && host[3] == 7);
	CHECK(cudaGraphExecDestroy(exec));

	/* a node that goes takes its edges with it */
	CHECK(cudaGraphDestroyNode(called));
	CHECK(cudaGraphNodeGetDependencies(inside, NULL, NULL, &count));
	EXPECT(count == 1);
	if (driver_looks()) {
		EXPECT(cudaGraphNodeGetType(called, &type) != cudaSuccess);
		(void)cudaGetLastError();
	}
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaFree(data));
	CHECK(cudaFree(copy));
	printf("nodes by hand: 6 kinds, asked back and changed\n");
}

/* A whole graph in place of another one. */
static void updates()
{
	int *data = device_ints();
	cudaGraphExecUpdateResultInfo info = {};
	cudaGraph_t first, second, other;
	cudaGraphNode_t a, b, in_clone;
	cudaGraphExec_t exec;
	cudaGraph_t clone;
	int host[N], back[N];

	CHECK(cudaGraphCreate(&first, 0));
	a = kernel_node(first, add, data, 1, NULL, 0);
	CHECK(cudaGraphInstantiate(&exec, first, 0));
	CHECK(cudaGraphCreate(&second, 0));
	kernel_node(second, add, data, 100, NULL, 0);
	CHECK(cudaGraphExecUpdate(exec, second, &info));
	EXPECT(info.result == cudaGraphExecUpdateSuccess);
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 100));

	CHECK(cudaGraphCreate(&other, 0));
	b = kernel_node(other, add, data, 1, NULL, 0);
	kernel_node(other, add, data, 1, &b, 1);
	EXPECT(cudaGraphExecUpdate(exec, other, &info) == cudaErrorGraphExecUpdateFailure);
	EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
	(void)cudaGetLastError();
	CHECK(cudaGraphClone(&clone, first));
	CHECK(cudaGraphNodeFindInClone(&in_clone, a, clone));
	EXPECT(in_clone != a);
	EXPECT(cudaGraphNodeFindInClone(&in_clone, b, clone) != cudaSuccess);
	(void)cudaGetLastError();
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(clone));
	CHECK(cudaGraphDestroy(first));
	CHECK(cudaGraphDestroy(second));
	CHECK(cudaGraphDestroy(other));

	/* the host's side of a copy, changed in the exec */
	CHECK(cudaGraphCreate(&first, 0));
	CHECK(cudaGraphAddMemcpyNode1D(&a, first, NULL, 0, data, host, sizeof(host),
				       cudaMemcpyHostToDevice));
	CHECK(cudaGraphInstantiate(&exec, first, 0));
	for (int i = 0; i < N; i++)
		host[i] = 1, back[i] = 2;
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 1));
	CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, a, data, back, sizeof(back),
						 cudaMemcpyHostToDevice));
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 2));
	for (int i = 0; i < N; i++)
		back[i] = 3;
	CHECK(cudaGraphLaunch(exec, 0));
	CHECK(cudaDeviceSynchronize());
	EXPECT(all_are(data, 3));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(first));
	CHECK(cudaFree(data));
	printf("updates: taken, refused for another shape, a copy's memory\n");
}

/* Events as nodes, and memory that a graph gets and gives back. */
static void events_and_memory()
{
	cudaGraph_t graph;
	cudaGraphNode_t record, alloc, use, free_node;
	cudaMemAllocNodeParams m = {};
	cudaGraphExec_t exec;
	cudaEvent_t event, back;
	cudaStream_t stream;
	int *out = device_ints();

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&event));
	CHECK(cudaGraphCreate(&graph, 0));
	m.poolProps.allocType = cudaMemAllocationTypePinned;
	m.poolProps.location.type = cudaMemLocationTypeDevice;
	m.bytesize = N * sizeof(int);
	CHECK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &m));
	EXPECT(m.dptr != NULL);
	CHECK(cudaGraphAddMemsetNode(&use, graph, &alloc, 1, [&] {
		static cudaMemsetParams s;
		s.dst = m.dptr;
		s.value = 9;
		s.elementSize = 4;
		s.width = N;
		s.height = 1;
		return &s;
	}()));
	CHECK(cudaGraphAddMemcpyNode1D(&use, graph, &use, 1, out, m.dptr, N * sizeof(int),
				       cudaMemcpyDeviceToDevice));
	CHECK(cudaGraphAddMemFreeNode(&free_node, graph, &use, 1, m.dptr));
	CHECK(cudaGraphAddEventRecordNode(&record, graph, &free_node, 1, event));
	CHECK(cudaGraphEventRecordNodeGetEvent(record, &back));
	EXPECT(back == event);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaEventSynchronize(event));
	EXPECT(all_are(out, 9));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(out));
	printf("events and memory: nodes of a graph\n");
}

/* What a graph leaves allocated the program frees, after every launch. */
static void memory_that_is_left()
{
	cudaGraph_t graph;
	cudaGraphNode_t alloc, use;
	cudaMemAllocNodeParams m = {};
	cudaMemsetParams s = {};
	cudaGraphExec_t exec;
	cudaStream_t stream;
	int out = 0;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaGraphCreate(&graph, 0));
	m.poolProps.allocType = cudaMemAllocationTypePinned;
	m.poolProps.location.type = cudaMemLocationTypeDevice;
	m.bytesize = N * sizeof(int);
	CHECK(cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &m));
	s.dst = m.dptr;
	s.value = 9;
	s.elementSize = 4;
	s.width = N;
	s.height = 1;
	CHECK(cudaGraphAddMemsetNode(&use, graph, &alloc, 1, &s));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 4; i++) {
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaMemcpyAsync(&out, m.dptr, sizeof(int), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaStreamSynchronize(stream));
		EXPECT(out == 9);
		CHECK(i % 2 ? cudaFree(m.dptr) : cudaFreeAsync(m.dptr, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
	printf("memory that is left: freed after each launch\n");
}

static void as_text()
{
	char path[] = "/tmp/graphs-XXXXXX", text[256] = "";
	int *data = device_ints(), fd = mkstemp(path);
	cudaGraph_t graph;
	FILE *file;

	EXPECT(fd >= 0);
	close(fd);
	CHECK(cudaGraphCreate(&graph, 0));
	kernel_node(graph, add, data, 1, NULL, 0);
	CHECK(cudaGraphDebugDotPrint(graph, path, 0));
	file = fopen(path, "r");
	EXPECT(file && fgets(text, sizeof(text), file) && strncmp(text, "digraph", 7) == 0);
	fclose(file);
	unlink(path);
	EXPECT(cudaGraphDebugDotPrint(graph, "/nowhere/at/all", 0) != cudaSuccess);
	(void)cudaGetLastError();
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaFree(data));
	printf("as text: a file of the program's\n");
}

/* Captures without end leave nothing behind; what is none is refused. */
static void many_and_none()
{
	int *data = device_ints();
	cudaStream_t stream;
	cudaGraphExec_t exec = NULL;
	cudaGraph_t graph;
	cudaGraphNode_t none = (cudaGraphNode_t)data;
	cudaGraphNodeType type;

	CHECK(cudaStreamCreate(&stream));
	for (int i = 0; i < 300; i++) {
		cudaGraphExecUpdateResultInfo info;
		int host[2] = { i, i };

		CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		CHECK(cudaMemcpyAsync(data, host, sizeof(host), cudaMemcpyHostToDevice, stream));
		add<<<1, 2, 0, stream>>>(data, 1, 2);
		CHECK(cudaStreamEndCapture(stream, &graph));
		if (!exec)
			CHECK(cudaGraphInstantiate(&exec, graph, 0));
		else
			CHECK(cudaGraphExecUpdate(exec, graph, &info));
		CHECK(cudaGraphDestroy(graph));
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		EXPECT(all_are(data, i + 1, 2));
	}
	CHECK(cudaGraphExecDestroy(exec));
	if (driver_looks()) {
		EXPECT(cudaGraphNodeGetType(none, &type) != cudaSuccess);
		EXPECT(cudaGraphDestroy((cudaGraph_t)none) != cudaSuccess);
		EXPECT(cudaGraphLaunch(NULL, stream) != cudaSuccess);
	}
	(void)cudaGetLastError();
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(data));
	printf("many: 300 captures into one exec; none: refused\n");
}

int main()
{
	capture_of_one_stream();
	capture_across_streams();
	captures_that_fail();
	copies_of_host_memory();
	functions_between_copies();
	nodes_by_hand();
	updates();
	events_and_memory();
	memory_that_is_left();
	as_text();
	many_and_none();
	return 0;
}
