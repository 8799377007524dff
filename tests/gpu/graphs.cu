/*
 * tests/gpu/graphs.cu - CUDA graphs: captured and built by hand, host nodes, fork and join,
 * updates.
 */
#include "check.h"

#define N 1000

__global__ void add(int *x, int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		x[i] += by;
}

static int calls;
static void CUDART_CB on_host(void *by)
{
	calls += *(int *)by;
}

int main()
{
	int *x, host[N], by = 3;
	cudaStream_t s, side;
	cudaEvent_t fork, join;
	cudaGraph_t graph, built;
	cudaGraphExec_t exec;
	cudaGraphNode_t kernel_node, host_node, nodes[16];
	size_t count = 16;

	CHECK(cudaMalloc(&x, sizeof(host)));
	CHECK(cudaMemset(x, 0, sizeof(host)));
	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamCreate(&side));
	CHECK(cudaEventCreate(&fork));
	CHECK(cudaEventCreate(&join));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add<<<4, 256, 0, s>>>(x, 1);
	CHECK(cudaEventRecord(fork, s));
	CHECK(cudaStreamWaitEvent(side, fork, 0));
	CHECK(cudaLaunchHostFunc(side, on_host, &by));
	CHECK(cudaEventRecord(join, side));
	add<<<4, 256, 0, s>>>(x, 10);
	CHECK(cudaStreamWaitEvent(s, join, 0));
	CHECK(cudaMemcpyAsync(host, x, sizeof(host), cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphGetNodes(graph, nodes, &count));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	printf("captured: %zu nodes, x %d, host function %d\n", count, host[N - 1], calls);

	CHECK(cudaGraphCreate(&built, 0));
	int five = 5;
	void *arguments[] = { &x, &five };
	cudaKernelNodeParams kernel = {};
	kernel.func = (void *)add;
	kernel.gridDim = dim3(4);
	kernel.blockDim = dim3(256);
	kernel.kernelParams = arguments;
	cudaHostNodeParams function = { on_host, &by };
	CHECK(cudaGraphAddKernelNode(&kernel_node, built, NULL, 0, &kernel));
	CHECK(cudaGraphAddHostNode(&host_node, built, &kernel_node, 1, &function));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphInstantiate(&exec, built, 0));
	CHECK(cudaGraphLaunch(exec, s));
	five = 100;
	CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel_node, &kernel));
	CHECK(cudaGraphLaunch(exec, s));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost));
	printf("built: x %d, host function %d\n", host[0], calls);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphDestroy(built));
	return 0;
}
