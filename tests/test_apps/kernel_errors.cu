/*
 * tests/test_apps/kernel_errors.cu - kernels with errors that `cricket run -s emu --check` is there
 * to find, and right ones beside them. Without arguments it prints their names; with a name it runs
 * that kernel. tests/e2e/test_findings.py reads in the comments which lines are to be named:
 * "finds WHAT here", in the kernel above.
 */
#include <cuda_pipeline.h>
#include "check.h"

#define N 64 /* threads of a block */

__device__ int table[8];
__constant__ int constants[4] = {1, 2, 3, 4};

/* --- races */

__global__ void race_no_barrier(int *out, int)
{
	__shared__ int s[N];

	s[threadIdx.x] = threadIdx.x;		    /* finds race here */
	out[threadIdx.x] = s[N - 1 - threadIdx.x];  /* finds race here */
}

__global__ void race_counter(int *out, int)
{
	__shared__ int s;

	if (threadIdx.x == 0)
		s = 0;
	__syncthreads();
	s += 1; /* finds race here */
	__syncthreads();
	out[threadIdx.x] = s;
}

__global__ void race_reuse(int *out, int)
{
	__shared__ int s[N];
	int sum = 0;

#pragma unroll 1
	for (int i = 0; i < 4; i++) {
		s[threadIdx.x] = i; /* finds race here */
		__syncthreads();
		sum += s[threadIdx.x ^ 32]; /* finds race here */
	}
	out[threadIdx.x] = sum;
}

__global__ void race_warp(int *out, int)
{
	__shared__ int s[N];

	s[threadIdx.x] = threadIdx.x;	      /* finds race here */
	out[threadIdx.x] = s[threadIdx.x ^ 1]; /* finds race here */
}

__global__ void race_dynamic(int *out, int)
{
	extern __shared__ int room[];

	room[threadIdx.x] = 1;			    /* finds race here */
	out[threadIdx.x] = room[(threadIdx.x + 32) % N]; /* finds race here */
}

__global__ void race_different_values(int *out, int)
{
	__shared__ int winner;

	winner = threadIdx.x; /* finds race here */
	__syncthreads();
	out[threadIdx.x] = winner;
}

__global__ void race_atomic_and_plain(int *out, int)
{
	__shared__ int s;

	if (threadIdx.x == 0)
		s = 0;
	__syncthreads();
	atomicAdd(&s, 1);     /* finds race here */
	out[threadIdx.x] = s; /* finds race here */
}

__global__ void race_async_copy(int *out, int)
{
	__shared__ __align__(16) int s[4 * N];

	__pipeline_memcpy_async(s + 4 * threadIdx.x, out + 4 * threadIdx.x, 16);
	__pipeline_commit();
	out[threadIdx.x] = s[4 * threadIdx.x]; /* finds race here */
	__pipeline_wait_prior(0);
}

/* --- reads of shared memory that was never written */

__global__ void uninitialised_all(int *out, int)
{
	__shared__ int s[N];

	if (out == nullptr)
		s[threadIdx.x] = 1;
	out[threadIdx.x] = s[threadIdx.x]; /* finds uninitialised here */
}

__global__ void uninitialised_half(int *out, int)
{
	__shared__ int s[N];

	if (threadIdx.x < N / 2)
		s[threadIdx.x] = 1;
	__syncthreads();
	out[threadIdx.x] = s[threadIdx.x]; /* finds uninitialised here */
}

__global__ void uninitialised_halo(int *out, int)
{
	__shared__ int s[N + 2];

	s[threadIdx.x + 1] = 1;
	__syncthreads();
	out[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 2]; /* finds uninitialised here */
}

__global__ void uninitialised_counter(int *out, int)
{
	__shared__ int s;

	atomicAdd(&s, 1); /* finds uninitialised here */
	__syncthreads();
	out[threadIdx.x] = s;
}

/* --- accesses out of bounds */

__global__ void bounds_one_behind(int *out, int)
{
	out[threadIdx.x + 4 * N - N + 1] = 1; /* finds an illegal address here */
}

__global__ void bounds_before(int *out, int)
{
	out[(int)threadIdx.x - 1] = 1; /* finds an illegal address here */
}

__global__ void bounds_far(int *out, int)
{
	out[((size_t)1 << 40) + threadIdx.x] = 1; /* finds an illegal address here */
}

__global__ void bounds_null(int *out, int zero)
{
	int *nothing = (int *)(size_t)zero;

	out[threadIdx.x] = nothing[threadIdx.x]; /* finds an illegal address here */
}

__global__ void bounds_variable(int *out, int zero)
{
	out[threadIdx.x] = table[threadIdx.x + zero]; /* finds an illegal address here */
}

__global__ void bounds_shared(int *out, int zero)
{
	extern __shared__ int room[];

	room[threadIdx.x] = 1;
	room[threadIdx.x + N + zero] = 1; /* finds an illegal address here */
	out[threadIdx.x] = room[threadIdx.x];
}

__global__ void bounds_atomic(int *out, int)
{
	atomicAdd(&out[threadIdx.x * N], 1); /* finds an illegal address here */
}

/* --- misaligned accesses */

__global__ void misaligned_int(int *out, int)
{
	*(int *)((char *)out + 2 + 4 * threadIdx.x) = 1; /* finds a misaligned address here */
}

__global__ void misaligned_vector(int *out, int)
{
	*(int4 *)(out + 1) = make_int4(1, 2, 3, 4); /* finds a misaligned address here */
}

__global__ void misaligned_shared(int *out, int zero)
{
	extern __shared__ int room[];
	volatile int *odd = (volatile int *)((char *)room + 1 + zero);

	room[threadIdx.x] = 1;
	__syncthreads();
	out[threadIdx.x] = *odd; /* finds a misaligned address here */
}

__global__ void fault_trap(int *out, int)
{
	if (threadIdx.x == 5)
		__trap(); /* finds a trap here */
	out[threadIdx.x] = 1;
}

/* --- right ones */

__global__ void right_barrier(int *out, int)
{
	__shared__ int s[N];

	s[threadIdx.x] = threadIdx.x;
	__syncthreads();
	out[threadIdx.x] = s[N - 1 - threadIdx.x];
}

__global__ void right_warp(int *out, int)
{
	__shared__ int s[N];

	s[threadIdx.x] = threadIdx.x;
	__syncwarp();
	out[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void right_flag(int *out, int)
{
	__shared__ int s;

	s = 1; /* all write the same */
	__syncthreads();
	out[threadIdx.x] = s + constants[threadIdx.x % 4] + table[threadIdx.x % 8];
}

__global__ void right_atomic(int *out, int)
{
	__shared__ int s;

	if (threadIdx.x == 0)
		s = 0;
	__syncthreads();
	atomicAdd(&s, 1);
	__syncthreads();
	out[threadIdx.x] = s;
}

__global__ void right_edges(int *out, int)
{
	*(int4 *)(out + 4 * (threadIdx.x % N)) = make_int4(1, 2, 3, 4);
}

__global__ void right_async_copy(int *out, int)
{
	__shared__ __align__(16) int s[4 * N];

	__pipeline_memcpy_async(s + 4 * threadIdx.x, out + 4 * threadIdx.x, 16);
	__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncthreads();
	out[threadIdx.x] = s[4 * (N - 1 - threadIdx.x)];
}

#define KERNEL(name) {#name, name}

static const struct {
	const char *name;
	void (*run)(int *, int);
} kernels[] = {
	KERNEL(race_no_barrier), KERNEL(race_counter), KERNEL(race_reuse), KERNEL(race_warp),
	KERNEL(race_dynamic), KERNEL(race_different_values), KERNEL(race_atomic_and_plain),
	KERNEL(race_async_copy), KERNEL(uninitialised_all), KERNEL(uninitialised_half),
	KERNEL(uninitialised_halo), KERNEL(uninitialised_counter), KERNEL(bounds_one_behind),
	KERNEL(bounds_before), KERNEL(bounds_far), KERNEL(bounds_null), KERNEL(bounds_variable),
	KERNEL(bounds_shared), KERNEL(bounds_atomic), KERNEL(misaligned_int),
	KERNEL(misaligned_vector), KERNEL(misaligned_shared), KERNEL(fault_trap),
	KERNEL(right_barrier), KERNEL(right_warp), KERNEL(right_flag), KERNEL(right_atomic),
	KERNEL(right_edges), KERNEL(right_async_copy),
};

int main(int argc, char **argv)
{
	for (const auto &kernel : kernels) {
		int *out, *neighbour;

		if (argc < 2) {
			puts(kernel.name);
			continue;
		}
		if (strcmp(argv[1], kernel.name) != 0)
			continue;
		CHECK(cudaMalloc(&out, 4 * N * sizeof(*out)));
		CHECK(cudaMalloc(&neighbour, 4 * N * sizeof(*out)));
		CHECK(cudaMemset(out, 0, 4 * N * sizeof(*out)));
		kernel.run<<<1, N, N * sizeof(*out)>>>(out, 0);
		return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
	}
	return 0;
}
