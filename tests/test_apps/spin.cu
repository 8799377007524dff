/*
 * tests/test_apps/spin.cu - a kernel that never ends. The program says so and waits for it; only
 * a signal, or the loss of its GPU, stops it.
 */
#include "check.h"

__global__ void spin(volatile int *p)
{
	while (*p == 0)
		;
}

int main()
{
	int *dev;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	CHECK(cudaMemset(dev, 0, sizeof(int)));
	spin<<<1, 1>>>(dev);
	CHECK(cudaGetLastError());
	printf("spinning\n");
	fflush(stdout);
	cudaError_t err = cudaDeviceSynchronize();
	printf("synchronise: %s\n", cudaGetErrorName(err));
	return err == cudaSuccess ? 0 : 3;
}
