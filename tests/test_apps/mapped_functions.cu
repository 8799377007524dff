/*
 * mapped_functions.cu - host functions of two streams write memory that is mapped, before anything
 * else has used it; a kernel then reads what both have written.
 */
#include "check.h"

static int *mapped;

static void write_five(void *index)
{
	mapped[*(int *)index] = 5;
}

__global__ void add(int *p)
{
	p[2] = p[0] + p[1];
}

int main()
{
	cudaStream_t streams[2];
	int indices[2] = { 0, 1 };

	CHECK(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
	mapped[0] = 1;
	for (cudaStream_t &s : streams)
		CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < 2; i++)
		CHECK(cudaLaunchHostFunc(streams[i], write_five, &indices[i]));
	for (cudaStream_t s : streams)
		CHECK(cudaStreamSynchronize(s));
	add<<<1, 1, 0, streams[0]>>>(mapped);
	CHECK(cudaStreamSynchronize(streams[0]));
	printf("%d\n", mapped[2]);
	return mapped[2] != 10;
}
