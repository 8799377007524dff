/*
 * tests/gpu/streams.cu - priorities and flags of streams, and the names and texts of errors.
 */
#include "check.h"

__global__ void nothing()
{
}

int main()
{
	cudaError_t errors[] = { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation,
				 cudaErrorInvalidDeviceFunction, cudaErrorNotReady, cudaErrorIllegalAddress,
				 cudaErrorAssert, cudaErrorNoKernelImageForDevice, (cudaError_t)12345 };
	unsigned long long id;
	int least, most, priority;
	unsigned int flags;
	cudaStream_t s;

	CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
	CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, most));
	CHECK(cudaStreamGetPriority(s, &priority));
	CHECK(cudaStreamGetFlags(s, &flags));
	CHECK(cudaStreamGetId(s, &id));
	printf("priorities %d to %d; this one %d, flags %u\n", least, most, priority, flags);
	CHECK(cudaStreamCreateWithPriority(&s, cudaStreamDefault, most - 100));
	CHECK(cudaStreamGetPriority(s, &priority));
	printf("beyond the range: %d\n", priority);
	for (cudaError_t e : errors)
		printf("%s: %s\n", cudaGetErrorName(e), cudaGetErrorString(e));
	nothing<<<1, 5000>>>();
	printf("too many threads: %s\n", cudaGetErrorName(cudaGetLastError()));
	nothing<<<1, 1, 1 << 24>>>();
	printf("too much shared memory: %s\n", cudaGetErrorName(cudaGetLastError()));
	printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
	return 0;
}
