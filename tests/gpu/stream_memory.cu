/*
 * tests/gpu/stream_memory.cu - memory in stream order: cudaMallocAsync, a pool of one's own, its
 * figures.
 */
#include "check.h"

#define N (1 << 20)

__global__ void fill(int *x, int value)
{
	x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main()
{
	cudaMemPoolProps props = {};
	unsigned long long keep = ~0ull, held, high;
	cudaMemPool_t pool, own;
	int *x, *y, last;
	cudaStream_t s;

	CHECK(cudaStreamCreate(&s));
	for (int turn = 0; turn < 20; turn++) {
		CHECK(cudaMallocAsync(&x, N * sizeof(int), s));
		fill<<<N / 256, 256, 0, s>>>(x, turn);
		CHECK(cudaMemcpyAsync(&last, x + N - 1, sizeof(int), cudaMemcpyDeviceToHost, s));
		CHECK(cudaFreeAsync(x, s));
	}
	CHECK(cudaStreamSynchronize(s));
	printf("last %d\n", last);
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	CHECK(cudaMemPoolCreate(&own, &props));
	CHECK(cudaMallocFromPoolAsync(&y, N * sizeof(int), own, s));
	CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &held));
	CHECK(cudaFreeAsync(y, s));
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemHigh, &high));
	printf("used %llu, most %llu\n", held, high);
	CHECK(cudaMemPoolTrimTo(own, 0));
	CHECK(cudaMemPoolDestroy(own));
	printf("%s\n", cudaGetErrorName(cudaMallocAsync(&x, 1ull << 50, s)));
	return 0;
}
