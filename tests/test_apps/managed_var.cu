/*
 * managed_var.cu - __managed__ variables: initial values, use on both sides in turn, as kernels'
 * arguments, and large ones.
 */
#include "check.h"

__device__ __managed__ int counter = 5;
__device__ __managed__ double table[3] = { 1.5, 2.5, 3.5 };
__device__ __managed__ unsigned large[50000];

__global__ void step(unsigned *words)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i == 0)
		counter += 10;
	if (i < 3)
		table[i] *= 2;
	words[i * 100] += i + counter / 1000;
}

int main()
{
	cudaPointerAttributes at;
	unsigned wrong = 0;
	int *device;

	printf("at first: %d %g\n", counter, table[2]);
	step<<<2, 64>>>(large);
	CHECK(cudaDeviceSynchronize());
	printf("device: %d %g %u\n", counter, table[0], large[12700]);
	counter = 100;
	table[1] = -1;
	large[101] = 7;
	step<<<2, 64>>>(large);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 128; i++)
		wrong += large[i * 100] != 2u * i;
	printf("both: %d %g %g %u, %u wrong\n", counter, table[0], table[1], large[101], wrong);
	CHECK(cudaPointerGetAttributes(&at, &table[1]));
	printf("type %d\n", at.type);
	CHECK(cudaMalloc(&device, 4));
	CHECK(cudaMemcpy(device, &counter, 4, cudaMemcpyDefault));
	counter = 0;
	CHECK(cudaMemcpy(&counter, device, 4, cudaMemcpyDefault));
	printf("copied: %d\n", counter);
	return 0;
}
