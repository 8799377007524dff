/*
 * tests/gpu/dynamic.cu - dynamic parallelism: kernels that launch kernels.
 */
#include "check.h"

__global__ void child(int *out, int depth);

__global__ void parent(int *out, int depth)
{
	if (threadIdx.x == 0)
		child<<<2, 32>>>(out, depth);
}

__global__ void child(int *out, int depth)
{
	atomicAdd(out, 1);
	if (depth > 0 && threadIdx.x == 0 && blockIdx.x == 0)
		parent<<<1, 32>>>(out, depth - 1);
}

int main()
{
	int *out, host;

	CHECK(cudaMalloc(&out, sizeof(int)));
	CHECK(cudaMemset(out, 0, sizeof(int)));
	parent<<<1, 32>>>(out, 2);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(&host, out, sizeof(int), cudaMemcpyDeviceToHost));
	printf("children's threads: %d\n", host);
	return 0;
}
