/*
 * first_kernel.cu - the least that a program does: memory, one kernel, its result. What comes
 * before the kernel is what a program's start costs.
 */
#include <stdio.h>

#include "check.h"

__global__ void answer(int *out)
{
	*out = 42;
}

int main()
{
	int *device, host = 0;

	CHECK(cudaMalloc(&device, sizeof(*device)));
	answer<<<1, 1>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof(host), cudaMemcpyDeviceToHost));
	printf("the answer is %d\n", host);
	return host != 42;
}
