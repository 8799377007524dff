/*
 * tests/test_apps/graph_host_memory.cu - pageable host memory that one copy of a graph writes and a
 * later one of the same graph reads.
 *
 * usage: graph_host_memory [pieces | functions]
 *
 * pieces: it reads what two copies have written. functions: a function writes what a later copy of
 * the graph reads.
 */
#include <atomic>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

static const int N = 1024;
static const size_t BYTES = N * sizeof(int);

static int *from, *to, *host;	/* device, device, pageable */
static cudaStream_t stream;

__global__ void count(int *data, int first)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	data[i] = data[i] + first + i;
}

static bool device_has(const int *data, int n, int first, int times)
{
	int *copy = (int *)malloc(n * sizeof(int));
	bool same = true;

	CHECK(cudaMemcpy(copy, data, n * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		same = same && copy[i] == times * (first + i);
	free(copy);
	return same;
}

static void begin(void)
{
	CHECK(cudaMemset(from, 0, BYTES));
	CHECK(cudaMemset(to, 0xff, BYTES));
	memset(host, 0x55, BYTES);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	count<<<N / 128, 128, 0, stream>>>(from, 1);
}

static void launch(cudaGraphExec_t exec)
{
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static cudaGraphExec_t end(cudaGraph_t *kept = NULL)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	if (kept)
		*kept = graph;
	else
		CHECK(cudaGraphDestroy(graph));
	launch(exec);
	return exec;
}

static void down(int first, int n)
{
	CHECK(cudaMemcpyAsync(host + first, from + first, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
}

static void up(int at, int first, int n)
{
	CHECK(cudaMemcpyAsync(to + at, host + first, n * sizeof(int), cudaMemcpyHostToDevice, stream));
}

static void all_of_it(void)
{
	cudaGraphExec_t exec;

	begin();
	down(0, N);
	up(0, 0, N);
	exec = end();
	EXPECT(device_has(to, N, 1, 1) && host[5] == 6);
	launch(exec);
	EXPECT(device_has(to, N, 1, 2) && host[5] == 12);
	CHECK(cudaGraphExecDestroy(exec));
}

/* The node of @graph that copies to @to, and its parameters; NULL: there is none. */
static cudaGraphNode_t copy_to(cudaGraph_t graph, const void *to, cudaMemcpy3DParms *p)
{
	cudaGraphNode_t nodes[8];
	size_t n = 8;

	CHECK(cudaGraphGetNodes(graph, nodes, &n));
	for (size_t i = 0; i < n; i++) {
		cudaGraphNodeType type;

		CHECK(cudaGraphNodeGetType(nodes[i], &type));
		if (type != cudaGraphNodeTypeMemcpy)
			continue;
		CHECK(cudaGraphMemcpyNodeGetParams(nodes[i], p));
		if (p->dstPtr.ptr == to)
			return nodes[i];
	}
	return NULL;
}

/* Its node says which part. An edit makes it another part. */
static void a_part(void)
{
	cudaMemcpy3DParms p = {};
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	begin();
	down(0, N);
	up(0, N / 2, N / 4);
	exec = end(&graph);
	EXPECT(device_has(to, N / 4, 1 + N / 2, 1));
	node = copy_to(graph, to, &p);
	EXPECT(node != NULL && p.srcPtr.ptr == host + N / 2);
	CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, node, to, host + 3, N / 4 * sizeof(int),
						 cudaMemcpyHostToDevice));
	launch(exec);
	EXPECT(device_has(to, N / 4, 4, 2));
	CHECK(cudaGraphDestroy(graph));
	launch(exec);
	EXPECT(device_has(to, N / 4, 4, 3));
	CHECK(cudaGraphExecDestroy(exec));
}

/* Rows and planes in memory that another copy writes as one row. */
static void boxes_of_it(void)
{
	cudaMemcpy3DParms p = {}, q = {};
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	begin();
	down(16, N - 16);
	CHECK(cudaMemcpy2DAsync(to, 32, host + 20, 64, 32, 8, cudaMemcpyHostToDevice, stream));
	p.srcPtr = make_cudaPitchedPtr(host + 16, 64, 64, 4);
	p.srcPos = make_cudaPos(8, 1, 1);
	p.dstPtr = make_cudaPitchedPtr(to + N / 2, 16, 16, 2);
	p.extent = make_cudaExtent(16, 2, 2);
	p.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3DAsync(&p, stream));
	exec = end(&graph);
	for (int row = 0; row < 8; row++)
		EXPECT(device_has(to + 8 * row, 8, 21 + 16 * row, 1));
	for (int row = 0; row < 4; row++)
		EXPECT(device_has(to + N / 2 + 4 * row, 4, 16 + 16 * (4 * (1 + row / 2) + 1 + row % 2) + 3, 1));
	EXPECT(copy_to(graph, to, &q) != NULL &&
	       (char *)q.srcPtr.ptr + q.srcPos.y * q.srcPtr.pitch + q.srcPos.x == (char *)(host + 20));
	EXPECT(q.srcPtr.pitch == 64 && q.extent.width == 32 && q.extent.height == 8);
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphExecDestroy(exec));
}

/* Of two copies into the same memory, the later one counts. */
static void the_newest(void)
{
	cudaGraphExec_t exec;

	begin();
	down(0, N);
	count<<<N / 128, 128, 0, stream>>>(from, 1);
	down(N / 4, N / 2);
	up(0, N / 2, N / 8);
	up(N / 2, 0, N / 4);
	exec = end();
	EXPECT(device_has(to, N / 8, 1 + N / 2, 2) && device_has(to + N / 2, N / 4, 1, 1));
	EXPECT(host[0] == 1 && host[N / 2] == 2 * (1 + N / 2));
	CHECK(cudaGraphExecDestroy(exec));
}

static void rows(void)
{
	cudaGraphExec_t exec;

	begin();
	CHECK(cudaMemcpy2DAsync(host, 64, from, 64, 32, BYTES / 64, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaMemcpy2DAsync(to, 64, host, 64, 32, BYTES / 64, cudaMemcpyHostToDevice, stream));
	/* rows of its own, between the others */
	CHECK(cudaMemcpy2DAsync(to + 8, 64, host + 8, 64, 32, BYTES / 64, cudaMemcpyHostToDevice, stream));
	exec = end();
	EXPECT(device_has(to, 8, 1, 1) && device_has(to + 16, 8, 17, 1) && host[8] == 0x55555555);
	CHECK(cudaMemcpy(host, to, BYTES, cudaMemcpyDeviceToHost));
	EXPECT(host[8] == 0x55555555 && host[N - 1] == 0x55555555 && host[N - 9] == N - 8);
	CHECK(cudaGraphExecDestroy(exec));
}

static void CUDART_CB negate(void *data)
{
	int *p = (int *)data;

	for (int i = 0; i < N; i++)
		p[i] = -p[i];
}

/* A function has the bytes of the copy before it, and its changes stay. */
static void before_a_function(void)
{
	cudaGraphExec_t exec;

	begin();
	down(0, N);
	CHECK(cudaLaunchHostFunc(stream, negate, host));
	exec = end();
	EXPECT(host[0] == -1 && host[N - 1] == -N);
	launch(exec);
	EXPECT(host[0] == -2 && host[N - 1] == -2 * N);
	CHECK(cudaGraphExecDestroy(exec));
}

static std::atomic<bool> gone;

static void CUDART_CB write_when_gone(void *data)
{
	while (!gone)
		;
	for (int i = 0; i < N; i++)
		((int *)data)[i] = 5 + i;
}

/* The driver reads @source at the launch if it is pageable, before the function has written it, and
 * after it if it is pinned (H200, driver 580). Graph and exec may be destroyed meanwhile. */
static void after_a_function(int *source, bool pinned, bool destroyed)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaLaunchHostFunc(stream, write_when_gone, source));
	CHECK(cudaMemcpyAsync(to, source, BYTES, cudaMemcpyHostToDevice, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaMemset(to, 0xff, BYTES));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < N; i++)
		source[i] = 9 + i;
	gone = false;
	CHECK(cudaGraphLaunch(exec, stream));
	if (destroyed)
		CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	gone = true;
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(device_has(to, N, pinned ? 5 : 9, 1) && source[0] == 5);
	if (destroyed)
		return;
	launch(exec);
	EXPECT(device_has(to, N, 5, 1));
	CHECK(cudaGraphExecDestroy(exec));
}

static void pinned_sources(void)
{
	int *pinned, *registered = (int *)aligned_alloc(4096, BYTES);

	CHECK(cudaMallocHost(&pinned, BYTES));
	CHECK(cudaHostRegister(registered, BYTES, cudaHostRegisterDefault));
	for (int destroyed = 0; destroyed < 2; destroyed++) {
		after_a_function(pinned, true, destroyed);
		after_a_function(registered, true, destroyed);
	}
	CHECK(cudaHostUnregister(registered));
	CHECK(cudaFreeHost(pinned));
	free(registered);
}

/* The source of a copy is freed after the launch; a function of another graph runs later. */
static void after_the_source(bool pinned, bool destroyed)
{
	cudaGraphExec_t first, second;
	int *source = (int *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pinned)
		CHECK(cudaHostRegister(source, BYTES, cudaHostRegisterDefault));
	memset(source, 1, BYTES);
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaLaunchHostFunc(stream, negate, host));
	CHECK(cudaMemcpyAsync(to, source, BYTES, cudaMemcpyHostToDevice, stream));
	first = end();
	if (pinned)
		CHECK(cudaHostUnregister(source));
	munmap(source, BYTES);
	if (destroyed)
		CHECK(cudaGraphExecDestroy(first));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaLaunchHostFunc(stream, negate, host));
	second = end();
	if (!destroyed)
		CHECK(cudaGraphExecDestroy(first));
	CHECK(cudaGraphExecDestroy(second));
}

static void nodes_and_clones(void)
{
	cudaGraphNode_t first, second;
	cudaGraph_t graph, clone;
	cudaGraphExec_t exec;

	CHECK(cudaMemset(from, 0, BYTES));
	count<<<N / 128, 128>>>(from, 7);
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNode1D(&first, graph, NULL, 0, host, from, BYTES, cudaMemcpyDeviceToHost));
	CHECK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, to, host, BYTES, cudaMemcpyHostToDevice));
	CHECK(cudaGraphClone(&clone, graph));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphInstantiate(&exec, clone, 0));
	CHECK(cudaGraphDestroy(clone));
	memset(host, 0, BYTES);
	launch(exec);
	EXPECT(device_has(to, N, 7, 1));
	CHECK(cudaGraphExecDestroy(exec));
}

/* What no copy of the graph has written is the program's. */
static void two_graphs(void)
{
	cudaGraphExec_t one, two;

	begin();
	down(0, N);
	one = end();
	begin();
	up(0, 0, N);
	two = end();
	for (int round = 2; round < 5; round++) {
		CHECK(cudaMemset(from, 0, BYTES));
		launch(one);
		EXPECT(host[3] == 4);
		host[3] = round;
		launch(two);
		CHECK(cudaMemcpy(host, to, 4 * sizeof(int), cudaMemcpyDeviceToHost));
		EXPECT(host[2] == 3 && host[3] == round);
	}
	CHECK(cudaGraphExecDestroy(one));
	CHECK(cudaGraphExecDestroy(two));
}

/* Over Cricket the launch may fail, but not with other bytes. */
static void what_two_have_written(void)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaError_t err;

	begin();
	down(0, N / 2);
	down(N / 2, N / 2);
	up(0, 0, N);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	err = cudaGraphLaunch(exec, stream);
	CHECK(cudaStreamSynchronize(stream));
	printf("two pieces: %s\n", err == cudaSuccess && device_has(to, N, 1, 1) ? "right" : cudaGetErrorName(err));
	(void)cudaGetLastError();
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	host = (int *)malloc(BYTES);
	CHECK(cudaMalloc(&from, BYTES));
	CHECK(cudaMalloc(&to, BYTES));
	CHECK(cudaStreamCreate(&stream));
	if (argc > 1 && strcmp(argv[1], "pieces") == 0) {
		what_two_have_written();
		return 0;
	}
	if (argc > 1) {
		after_a_function(host, false, false);
		after_a_function(host, false, true);
		printf("host memory within a graph: read at the launch\n");
		return 0;
	}
	all_of_it();
	a_part();
	boxes_of_it();
	the_newest();
	rows();
	before_a_function();
	pinned_sources();
	for (int i = 0; i < 4; i++)
		after_the_source(i & 1, i & 2);
	nodes_and_clones();
	two_graphs();
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(from));
	CHECK(cudaFree(to));
	free(host);
	printf("host memory within a graph: later copies read what earlier ones wrote\n");
	return 0;
}
