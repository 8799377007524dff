/*
 * tests/test_apps/graph_updates.cu - captures a graph in each iteration, updates the executable
 * graph with it, launches and synchronises. The graph ends with a small copy to a local variable.
 *
 * usage: graph_updates [ITERATIONS]
 */
#include "check.h"

#define N 1024

__global__ void add(int *data, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		data[i] += value;
}

int main(int argc, char **argv)
{
	int iterations = argc > 1 ? atoi(argv[1]) : 300;
	cudaGraphExec_t exec = NULL;
	cudaStream_t stream;
	int *data;
	long wrong = 0;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&data, N * sizeof(*data)));
	for (int i = 0; i < iterations; i++) {
		cudaGraphExecUpdateResultInfo info;
		cudaGraph_t graph;
		int last[2] = { -1, -1 };

		CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		CHECK(cudaMemsetAsync(data, 0, N * sizeof(*data), stream));
		add<<<N / 256, 256, 0, stream>>>(data, i);
		CHECK(cudaMemcpyAsync(last, data + N - 2, sizeof(last), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaStreamEndCapture(stream, &graph));
		if (!exec)
			CHECK(cudaGraphInstantiate(&exec, graph, 0));
		else
			CHECK(cudaGraphExecUpdate(exec, graph, &info));
		CHECK(cudaGraphDestroy(graph));
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		wrong += last[0] != i || last[1] != i;
	}
	EXPECT(wrong == 0);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaFree(data));
	CHECK(cudaStreamDestroy(stream));
	printf("graphs updated and launched: every result arrived\n");
	return 0;
}
