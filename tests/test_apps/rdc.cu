/*
 * tests/test_apps/rdc.cu - built with -rdc=true: the kernel calls a device function and uses a
 * device variable of another file (rdc_device.cu); the linker of device code joins them.
 */
#include "check.h"

extern __device__ int collatz_steps(unsigned long long n);
extern __device__ int longest;
typedef int (*operation)(int, int);
extern __device__ operation operations[2];

__global__ void walk(int *steps, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	steps[i] = collatz_steps(i + 1);
	atomicMax(&longest, steps[i]);
}

__global__ void by_pointer(int *out, int which)
{
	*out = operations[which](20, 3);
}

static int on_host(unsigned long long n)
{
	int steps = 0;

	for (; n != 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps;
}

int main()
{
	const int n = 500;
	int *dev, steps[n], most = 0, got = 0;

	CHECK(cudaMalloc(&dev, n * sizeof(int)));
	walk<<<(n + 63) / 64, 64>>>(dev, n);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(steps, dev, sizeof(steps), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++) {
		EXPECT(steps[i] == on_host(i + 1));
		most = steps[i] > most ? steps[i] : most;
	}
	CHECK(cudaMemcpyFromSymbol(&got, longest, sizeof(got)));
	EXPECT(got == most);
	printf("rdc: %d numbers, longest walk %d steps\n", n, got);

	for (int which = 0; which < 2; which++) {
		by_pointer<<<1, 1>>>(dev, which);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(&got, dev, sizeof(got), cudaMemcpyDeviceToHost));
		printf("rdc: operation %d of 20 and 3 is %d\n", which, got);
		EXPECT(got == (which ? 17 : 23));
	}
	CHECK(cudaFree(dev));
	return 0;
}
