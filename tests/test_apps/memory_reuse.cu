/*
 * memory_reuse.cu - freed memory that is allocated again while work that used it may still run.
 *
 * Each round takes memory in another stream than the round before, fills it slowly, checks it, and
 * frees it without a wait. Memory that is given out too early shows the values of two rounds.
 */
#include "check.h"

static const size_t SIZE = 24 << 20;
static const int WORDS = 64, ROUNDS = 24;

__device__ unsigned int bad;

__global__ void fill(unsigned int *p, unsigned int value)
{
	for (int i = 0; i < WORDS; i++) {
		for (int k = 0; k < 200; k++)
			((volatile unsigned int *)p)[i] = value + k;
		((volatile unsigned int *)p)[i] = value;
	}
}

__global__ void check(const unsigned int *p, unsigned int value)
{
	for (int i = 0; i < WORDS; i++)
		bad += ((const volatile unsigned int *)p)[i] != value;
}

static unsigned int wrong(void)
{
	unsigned int count, none = 0;

	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpyFromSymbol(&count, bad, sizeof(count)));
	CHECK(cudaMemcpyToSymbol(bad, &none, sizeof(none)));
	return count;
}

static void work(unsigned int *p, unsigned int value, cudaStream_t stream)
{
	fill<<<1, 1, 0, stream>>>(p, value);
	check<<<1, 1, 0, stream>>>(p, value);
	CHECK(cudaGetLastError());
}

int main(void)
{
	cudaStream_t streams[3];
	unsigned int *p;
	size_t first, last, total;

	for (cudaStream_t &stream : streams)
		CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMemGetInfo(&first, &total));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cudaMallocAsync(&p, SIZE, streams[i % 3]));
		work(p, 1000 * (i + 1), streams[i % 3]);
		CHECK(cudaFreeAsync(p, streams[i % 3]));
	}
	printf("freed in the order of streams: %u wrong\n", wrong());
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cudaMalloc(&p, SIZE));
		work(p, 1000 * (i + 1), streams[i % 3]);
		CHECK(cudaFree(p));
	}
	printf("freed: %u wrong\n", wrong());
	for (cudaStream_t stream : streams)
		CHECK(cudaStreamDestroy(stream));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cudaMalloc(&p, SIZE));
		work(p, 1000 * (i + 1), 0);
		CHECK(cudaFree(p));
	}
	printf("after the streams: %u wrong\n", wrong());
	CHECK(cudaMemGetInfo(&last, &total));
	printf("kept: %s\n", first - last < SIZE ? "less than one" : "more than one");
	return 0;
}
