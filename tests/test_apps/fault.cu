/*
 * tests/test_apps/fault.cu - a kernel writes through a wild pointer. The program is told by the
 * next call that waits and by every later one, and ends by itself.
 */
#include "check.h"

__global__ void wild(int *p)
{
	p[threadIdx.x] = 1;
}

int main()
{
	int *dev, value;

	CHECK(cudaMalloc(&dev, sizeof(int)));
	wild<<<1, 1>>>(dev);
	CHECK(cudaDeviceSynchronize());
	printf("good pointer: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));

	wild<<<1, 32>>>((int *)0x1000);
	printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
	printf("synchronise: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	printf("copy: %s\n",
	       cudaGetErrorName(cudaMemcpy(&value, dev, sizeof(value), cudaMemcpyDeviceToHost)));
	printf("malloc: %s\n", cudaGetErrorName(cudaMalloc(&dev, 4)));
	printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
	return 0;
}
