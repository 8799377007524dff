/*
 * mapped_copies.cu - in a graph, kernels change memory of the host that is mapped, between copies
 * to and from it.
 */
#include "check.h"

__global__ void add(int *p)
{
	++*p;
}

int main()
{
	int *mapped, *seen, *device, result = 0, begin = 6;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
	CHECK(cudaMalloc(&device, 2 * sizeof(int)));
	CHECK(cudaMemcpy(device, &begin, sizeof(begin), cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize()); /* the other stream does not wait for the copy */
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	CHECK(cudaMemcpyAsync(mapped, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
	add<<<1, 1, 0, stream>>>(seen);
	CHECK(cudaMemcpyAsync(device + 1, mapped, sizeof(int), cudaMemcpyHostToDevice, stream));
	add<<<1, 1, 0, stream>>>(seen);
	add<<<1, 1, 0, stream>>>(device);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 2; i++) {
		mapped[0] = 100;
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
		CHECK(cudaMemcpy(&result, device + 1, sizeof(result), cudaMemcpyDeviceToHost));
		printf("%d %d\n", mapped[0], result);
	}
	return mapped[0] != 9 || result != 8;
}
