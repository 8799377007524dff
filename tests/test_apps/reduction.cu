/*
 * tests/test_apps/reduction.cu - sums and extremes three ways: warp shuffles with one atomic a
 * block, votes, and a histogram in shared memory added up by atomics.
 */
#include <climits>
#include <vector>
#include "check.h"

#define BINS 16
#define FULL 0xffffffffu

struct totals {
	unsigned long long sum;
	int smallest, largest;
	unsigned int odd;
	int crc;
	float fsum;
	unsigned int bins[BINS];
};

__device__ int warp_sum(int v)
{
	for (int step = 16; step > 0; step /= 2)
		v += __shfl_down_sync(FULL, v, step);
	return v;
}

__device__ int warp_xor(int v)
{
	for (int step = 16; step > 0; step /= 2)
		v ^= __shfl_xor_sync(FULL, v, step);
	return v;
}

__global__ void reduce(const int *in, int n, struct totals *t)
{
	__shared__ int part[32];
	__shared__ unsigned int bins[BINS];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int v = i < n ? in[i] : 0;

	if (threadIdx.x < BINS)
		bins[threadIdx.x] = 0;
	__syncthreads();
	if (i < n) {
		atomicAdd(&bins[v & (BINS - 1)], 1u);
		atomicMin(&t->smallest, v);
		atomicMax(&t->largest, v);
	}

	unsigned int odd = __ballot_sync(FULL, v & 1);
	int crc = warp_xor(v);
	int sum = warp_sum(v);
	if (lane == 0) {
		part[warp] = sum;
		atomicAdd(&t->odd, (unsigned int)__popc(odd));
		atomicXor(&t->crc, crc);
		if (__any_sync(1u, 1))
			atomicAdd(&t->fsum, (float)sum);
	}
	__syncthreads();
	if (warp == 0) {
		sum = warp_sum(lane < blockDim.x / 32 ? part[lane] : 0);
		if (lane == 0)
			atomicAdd(&t->sum, (unsigned long long)sum);
	}
	if (threadIdx.x < BINS)
		atomicAdd(&t->bins[threadIdx.x], bins[threadIdx.x]);
}

/* The lock of many textbooks, taken by compare and exchange: each block adds one, in turn. */
__global__ void take_turns(int *lock, volatile int *counter)
{
	if (threadIdx.x != 0)
		return;
	while (atomicCAS(lock, 0, 1) != 0)
		;
	__threadfence();
	*counter = *counter + 1;
	__threadfence();
	atomicExch(lock, 0);
}

static struct totals on_host(const std::vector<int> &in)
{
	struct totals t = { 0, INT_MAX, INT_MIN, 0, 0, 0.0f, { 0 } };

	for (int v : in) {
		t.sum += v;
		t.smallest = v < t.smallest ? v : t.smallest;
		t.largest = v > t.largest ? v : t.largest;
		t.odd += v & 1;
		t.crc ^= v;
		t.bins[v & (BINS - 1)]++;
	}
	t.fsum = (float)t.sum;
	return t;
}

int main()
{
	const int n = 20011, threads = 256;
	struct totals got = { 0, INT_MAX, INT_MIN, 0, 0, 0.0f, { 0 } };
	std::vector<int> in(n);
	struct totals *dt;
	int *din, *lock;
	int turns[2] = { 0, 0 };

	for (int i = 0; i < n; i++)
		in[i] = (int)(i * 2654435761u >> 22);
	CHECK(cudaMalloc(&din, n * sizeof(int)));
	CHECK(cudaMalloc(&dt, sizeof(got)));
	CHECK(cudaMalloc(&lock, sizeof(turns)));
	CHECK(cudaMemcpy(din, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(dt, &got, sizeof(got), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(lock, 0, sizeof(turns)));

	reduce<<<(n + threads - 1) / threads, threads>>>(din, n, dt);
	CHECK(cudaGetLastError());
	take_turns<<<20, 32>>>(lock, lock + 1);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&got, dt, sizeof(got), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(turns, lock, sizeof(turns), cudaMemcpyDeviceToHost));

	struct totals want = on_host(in);
	EXPECT(got.sum == want.sum);
	EXPECT(got.smallest == want.smallest && got.largest == want.largest);
	EXPECT(got.odd == want.odd);
	EXPECT(got.crc == want.crc);
	EXPECT(got.fsum == want.fsum);
	for (int i = 0; i < BINS; i++)
		EXPECT(got.bins[i] == want.bins[i]);
	EXPECT(turns[0] == 0 && turns[1] == 20);
	CHECK(cudaFree(din));
	CHECK(cudaFree(dt));
	CHECK(cudaFree(lock));
	printf("reduction: sum %llu, smallest %d, largest %d, odd %u, turns %d\n", got.sum,
	       got.smallest, got.largest, got.odd, turns[1]);
	return 0;
}
