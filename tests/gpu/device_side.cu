/*
 * tests/gpu/device_side.cu - what a kernel can do by itself: print, allocate, and the limits of
 * both; with an argument, assert.
 */
#include <cassert>

#include "check.h"

__global__ void print(int base)
{
	printf("thread %d of block %d: %d %s %.2f\n", threadIdx.x, blockIdx.x, base + threadIdx.x, "text", 1.5);
}

__global__ void allocate(int *sum)
{
	int *mine = (int *)malloc(100 * sizeof(int));

	if (!mine)
		return;
	for (int i = 0; i < 100; i++)
		mine[i] = threadIdx.x;
	atomicAdd(sum, mine[99]);
	free(mine);
}

__global__ void assert_less(int limit)
{
	assert((int)threadIdx.x < limit);
}

__device__ int deep(int n)
{
	int local[16];

	for (int i = 0; i < 16; i++)
		local[i] = n + i;
	return n == 0 ? local[3] : deep(n - 1) + local[n % 16];
}

__global__ void recurse(int *out, int n)
{
	*out = deep(n);
}

int main(int argc, char **)
{
	int *sum, host;
	size_t limit;

	CHECK(cudaMalloc(&sum, sizeof(int)));
	CHECK(cudaMemset(sum, 0, sizeof(int)));
	if (argc > 1) {
		assert_less<<<1, 4>>>(3);
		printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
		printf("%s\n", cudaGetErrorName(cudaMemset(sum, 0, 4)));
		return 0;
	}
	CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
	CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
	CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
	CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
	EXPECT(limit >= 16 << 20);
	print<<<1, 3>>>(40);
	CHECK(cudaDeviceSynchronize());
	allocate<<<1, 64>>>(sum);
	CHECK(cudaMemcpy(&host, sum, sizeof(int), cudaMemcpyDeviceToHost));
	printf("allocated: %d\n", host);
	recurse<<<1, 1>>>(sum, 50);
	CHECK(cudaMemcpy(&host, sum, sizeof(int), cudaMemcpyDeviceToHost));
	printf("recursion: %d\n", host);
	return 0;
}
