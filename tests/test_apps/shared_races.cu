/*
 * tests/test_apps/shared_races.cu - mistakes with shared memory, none of which changes what is
 * printed: what CRICKET_EMU=check=race+init is there to find. tests/e2e/test_check.py knows each.
 */
#include <cuda_pipeline.h>
#include "check.h"

#define N 128

/* The second barrier is missing. */
__global__ void no_barrier(int *out)
{
	__shared__ int s[N];

	for (int i = 0; i < 3; i++) {
		s[threadIdx.x] = i;
		__syncthreads();
		out[threadIdx.x] = s[N - 1 - threadIdx.x];
	}
}

/* As it was written for GPUs before compute capability 7.0. */
__global__ void warp_synchronous(int *out)
{
	__shared__ int s[N];

	s[threadIdx.x] = 1;
	__syncthreads();
	if (threadIdx.x < 32)
		out[threadIdx.x] = s[threadIdx.x ^ 16] + (s[threadIdx.x] = 2);
}

__global__ void no_wait(const int *in, int *out)
{
	__shared__ __align__(16) int s[4 * N];
	unsigned t = threadIdx.x;

	__pipeline_memcpy_async(s + 4 * t, in + 4 * t, 16);
	__pipeline_commit();
	__syncthreads();
	out[t] = s[4 * (N - 1 - t)];
}

/* The last warp's part is written by nobody. */
__global__ void unwritten(int *out)
{
	__shared__ int s[N];

	if (threadIdx.x < N - 32)
		s[threadIdx.x] = 1;
	__syncthreads();
	out[threadIdx.x] = s[threadIdx.x];
}

__global__ void same_place(int *out)
{
	__shared__ int s;

	s = threadIdx.x;
	__syncthreads();
	out[threadIdx.x] = s;
}

__global__ void no_fence(const int *in, int *out)
{
	__shared__ int data;
	__shared__ volatile int flag;

	if (threadIdx.x == 0)
		flag = data = 0;
	__syncthreads();
	if (threadIdx.x == 0) {
		data = in[0];
		flag = 1;
	} else if (threadIdx.x == 64) {
		while (!flag)
			;
		out[0] = data;
	}
}

int main()
{
	int *in, *out;

	CHECK(cudaMalloc(&in, 4 * N * sizeof(int)));
	CHECK(cudaMalloc(&out, N * sizeof(int)));
	CHECK(cudaMemset(in, 0, 4 * N * sizeof(int)));
	no_barrier<<<2, N>>>(out);
	warp_synchronous<<<2, N>>>(out);
	no_wait<<<1, N>>>(in, out);
	unwritten<<<1, N>>>(out);
	same_place<<<1, N>>>(out);
	no_fence<<<1, N>>>(in, out);
	CHECK(cudaDeviceSynchronize());
	printf("nothing is to be seen\n");
	return 0;
}
