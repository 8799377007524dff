/*
 * managed_lost.cu - touches managed memory after its server has gone: once "ready" is written, it
 * waits until CUDA calls fail. What cannot be fetched reads as zeros, what is written stays.
 */
#include <unistd.h>

#include "check.h"

__global__ void fill(unsigned char *p, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		p[i] = 7;
}

int main()
{
	const int n = 300000;
	unsigned char *p;
	long sum = 0;

	CHECK(cudaMallocManaged(&p, n));
	fill<<<1, 256>>>(p, n);
	CHECK(cudaDeviceSynchronize());
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 2000 && cudaMemset(p, 7, 1) == cudaSuccess &&
			cudaDeviceSynchronize() == cudaSuccess; i++)
		usleep(10000);
	for (int i = 0; i < n; i++)
		sum += p[i];
	p[100] = 5;
	printf("sum %ld, written %d\n", sum, p[100]);
	return 3;
}
