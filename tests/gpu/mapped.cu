/*
 * tests/gpu/mapped.cu - host memory that kernels read and write (zero-copy): allocated and
 * registered.
 */
#include <cstdlib>

#include "check.h"

#define N 100000

__global__ void twice(int *to, const int *from, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] = 2 * from[i];
}

__global__ void wait_and_answer(volatile int *flag)
{
	while (*flag == 0)
		;
	flag[1] = flag[0] + 1;
}

int main()
{
	int *in, *in_device, *out, *out_device;
	volatile int *flag;

	CHECK(cudaHostAlloc(&in, N * sizeof(int), cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer(&in_device, in, 0));
	out = (int *)aligned_alloc(4096, N * sizeof(int) / 4096 * 4096 + 4096);
	CHECK(cudaHostRegister(out, N * sizeof(int), cudaHostRegisterMapped));
	CHECK(cudaHostGetDevicePointer(&out_device, out, 0));
	for (int turn = 1; turn < 4; turn++) {
		for (int i = 0; i < N; i++)
			in[i] = i * turn;
		twice<<<(N + 255) / 256, 256>>>(out_device, in_device, N);
		CHECK(cudaDeviceSynchronize());
		for (int i = 0; i < N; i++)
			EXPECT(out[i] == 2 * i * turn);
	}
	CHECK(cudaHostUnregister(out));
	/* the host speaks to a kernel that runs */
	CHECK(cudaHostAlloc((void **)&flag, 2 * sizeof(int), cudaHostAllocMapped));
	flag[0] = flag[1] = 0;
	wait_and_answer<<<1, 1>>>((volatile int *)flag);
	CHECK(cudaGetLastError());
	flag[0] = 41;
	CHECK(cudaDeviceSynchronize());
	printf("zero-copy: right; answer %d\n", flag[1]);
	return 0;
}
