/*
 * tests/test_apps/shared_idioms.cu - the ways in which CUDA's guide has threads share memory:
 * barriers of blocks, of warps, of halves of a block, cuda::barrier, pipelines, a lock, a flag, the
 * last block. Nothing here is a race, and nothing is read that was not written.
 */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <mma.h>
#include <cstring>
#include <vector>
#include "check.h"

#pragma nv_diag_suppress 20054 /* barriers in shared memory, as the guide has them */

namespace cg = cooperative_groups;

#define N 256
#define FULL 0xffffffffu

__global__ void reverse(int *d)
{
	extern __shared__ int s[];

	s[threadIdx.x] = d[threadIdx.x];
	__syncthreads();
	d[threadIdx.x] = s[N - 1 - threadIdx.x];
}

/* A block's sum: a tree over the block, whose last steps are a warp's. */
__global__ void tree(const int *in, int *out)
{
	__shared__ int s[N];
	unsigned t = threadIdx.x;

	s[t] = in[t];
	__syncthreads();
	for (unsigned k = N / 2; k > 32; k /= 2) {
		if (t < k)
			s[t] += s[t + k];
		__syncthreads();
	}
	if (t < 32) {
		int v = s[t] + s[t + 32];

		for (unsigned k = 16; k > 0; k /= 2) {
			__syncwarp();
			s[t] = v;
			__syncwarp();
			v += s[(t + k) % 32];
			__syncwarp();
		}
		if (t == 0)
			*out = v;
	}
}

__global__ void shuffles(const int *in, int *out)
{
	__shared__ int part[32];
	int v = in[threadIdx.x], lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (int k = 16; k > 0; k /= 2)
		v += __shfl_down_sync(FULL, v, k);
	if (lane == 0)
		part[warp] = v;
	__syncthreads();
	if (warp == 0) {
		v = lane < N / 32 ? part[lane] : 0;
		v = cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), v, cg::plus<int>());
		if (lane == 0)
			*out = v;
	}
}

__global__ void transpose(const int *in, int *out)
{
	__shared__ int tile[16][17];
	unsigned x = threadIdx.x % 16, y = threadIdx.x / 16;

	for (int turn = 0; turn < 3; turn++) {
		tile[y][x] = in[y * 16 + x] + turn;
		__syncthreads();
		out[y * 16 + x] = tile[x][y];
		__syncthreads();
	}
}

/* Tiles of 8 threads, and those that happen to be together. */
__global__ void tiles(const int *in, int *out)
{
	__shared__ int s[N], odd;
	cg::thread_block block = cg::this_thread_block();
	cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
	unsigned first = block.thread_rank() - tile.thread_rank();

	if (block.thread_rank() == 0)
		odd = 0;
	s[block.thread_rank()] = in[block.thread_rank()];
	tile.sync();
	int sum = 0;
	for (unsigned i = 0; i < 8; i++)
		sum += s[first + i];
	block.sync();
	if (in[block.thread_rank()] % 2) {
		cg::coalesced_group together = cg::coalesced_threads();

		if (together.thread_rank() == 0)
			atomicAdd(&odd, (int)together.size());
		together.sync();
	}
	block.sync();
	out[block.thread_rank()] = sum + odd;
}

/* The guide's producers and consumers: half of the block fills what the other half reads. */
__global__ void halves(const int *in, int *out)
{
	using barrier = cuda::barrier<cuda::thread_scope_block>;
	__shared__ int buffer[2][N / 2];
	__shared__ barrier bar[4]; /* filled 0, filled 1, free 0, free 1 */
	unsigned t = threadIdx.x;

	if (t < 4)
		init(&bar[t], N);
	__syncthreads();
	if (t < N / 2) {
		for (int i = 0; i < 6; i++) {
			bar[2 + i % 2].arrive_and_wait();
			buffer[i % 2][t] = in[t] + i;
			(void)bar[i % 2].arrive();
		}
	} else {
		int sum = 0;

		(void)bar[2].arrive();
		(void)bar[3].arrive();
		for (int i = 0; i < 6; i++) {
			bar[i % 2].arrive_and_wait();
			sum += buffer[i % 2][N - 1 - t];
			(void)bar[2 + i % 2].arrive();
		}
		out[t] = sum;
	}
}

/* Named barriers, as libraries use them: the upper half waits for the lower. */
__global__ void named(const int *in, int *out)
{
	__shared__ int s[N / 2];
	unsigned t = threadIdx.x;

	if (t < N / 2) {
		s[t] = in[t];
		asm volatile("bar.arrive 1, 256;" ::: "memory");
	} else {
		asm volatile("bar.sync 1, 256;" ::: "memory");
		out[t] = s[N - 1 - t];
		asm volatile("bar.sync 2, 128;" ::: "memory");
		s[t - N / 2] = 0;
	}
}

__global__ void copies(const int *in, int *out)
{
	__shared__ int s[N];
	cg::thread_block block = cg::this_thread_block();

	cg::memcpy_async(block, s, in, sizeof(s));
	cg::wait(block);
	out[threadIdx.x] = s[N - 1 - threadIdx.x];
}

/* Two stages: the next one is fetched while one is used. */
__global__ void pipeline(const int *in, int *out, int turns)
{
	__shared__ int s[2][N];
	__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
	cg::thread_block block = cg::this_thread_block();
	auto pipe = cuda::make_pipeline(block, &state);
	int sum = 0;

	pipe.producer_acquire();
	cuda::memcpy_async(block, s[0], in, sizeof(s[0]), pipe);
	pipe.producer_commit();
	for (int i = 1; i <= turns; i++) {
		if (i < turns) {
			pipe.producer_acquire();
			cuda::memcpy_async(block, s[i % 2], in + i * N, sizeof(s[0]), pipe);
			pipe.producer_commit();
		}
		pipe.consumer_wait();
		sum += s[(i - 1) % 2][(threadIdx.x + 77) % N];
		pipe.consumer_release();
	}
	out[threadIdx.x] = sum;
}

/* A thread's own pipeline: each reads only what it has copied. */
__global__ void own_pipeline(const int *in, int *out)
{
	__shared__ int s[4][N];
	auto pipe = cuda::make_pipeline();
	int sum = 0;

	for (int i = 0; i < 4; i++) {
		pipe.producer_acquire();
		cuda::memcpy_async(&s[i][threadIdx.x], in + i * N + threadIdx.x, sizeof(int), pipe);
		pipe.producer_commit();
	}
	cuda::pipeline_consumer_wait_prior<1>(pipe);
	for (int i = 0; i < 3; i++)
		sum += s[i][threadIdx.x];
	pipe.consumer_release();
	cuda::pipeline_consumer_wait_prior<0>(pipe);
	out[threadIdx.x] = sum + s[3][threadIdx.x];
}

__global__ void locked(int *out)
{
	__shared__ int lock, count;

	if (threadIdx.x == 0)
		lock = count = 0;
	__syncthreads();
	while (atomicCAS(&lock, 0, 1) != 0)
		;
	__threadfence_block();
	count++;
	__threadfence_block();
	atomicExch(&lock, 0);
	__syncthreads();
	if (threadIdx.x == 0)
		*out = count;
}

/* One thread's data, told by a flag: volatile with fences, then with cuda::atomic_ref. */
__global__ void flags(int *out)
{
	__shared__ int data[2], ready;
	__shared__ volatile int flag;

	if (threadIdx.x == 0)
		flag = ready = 0;
	__syncthreads();
	cuda::atomic_ref<int, cuda::thread_scope_block> tell(ready);
	if (threadIdx.x == 64) {
		data[0] = 40;
		__threadfence_block();
		flag = 1;
		data[1] = 2;
		tell.store(1, cuda::memory_order_release);
	} else if (threadIdx.x == 0) {
		while (!flag)
			;
		__threadfence_block();
		int sum = data[0];
		while (!tell.load(cuda::memory_order_acquire))
			;
		*out = sum + data[1];
	}
}

/* All threads may say the same; votes; histograms. */
__global__ void together(const int *in, int *out)
{
	__shared__ int found, bins[16];
	unsigned t = threadIdx.x;

	if (t < 16)
		bins[t] = 0;
	if (t == 0)
		found = 0;
	__syncthreads();
	if (in[t] > 5)
		found = 1;
	atomicAdd(&bins[in[t] % 16], 1);
	int many = __syncthreads_count(in[t] % 2);
	if (t < 16)
		out[t] = bins[t] + found + many;
}

/* The last block to finish adds up what all have left (CUDA's threadFenceReduction). */
__global__ void last_block(const int *in, int *part, unsigned *done, int *out)
{
	__shared__ int s[N];
	__shared__ bool last;
	unsigned t = threadIdx.x;

	s[t] = in[t];
	__syncthreads();
	if (t == 0) {
		int sum = 0;

		for (int i = 0; i < N; i++)
			sum += s[i];
		part[blockIdx.x] = sum;
		__threadfence();
		last = atomicInc(done, gridDim.x) == gridDim.x - 1;
	}
	__syncthreads();
	if (last && t == 0) {
		int sum = 0;

		for (unsigned i = 0; i < gridDim.x; i++)
			sum += ((volatile int *)part)[i];
		*out = sum;
	}
}

__global__ void tensor_cores(float *out)
{
	using namespace nvcuda::wmma;
	__shared__ __align__(32) half a[256], b[256];
	__shared__ __align__(32) float c[256];
	fragment<matrix_a, 16, 16, 16, half, row_major> fa;
	fragment<matrix_b, 16, 16, 16, half, col_major> fb;
	fragment<accumulator, 16, 16, 16, float> fc;

	for (int i = threadIdx.x; i < 256; i += 32) {
		a[i] = __float2half((float)(i % 3));
		b[i] = __float2half((float)(i % 5));
	}
	__syncwarp();
	load_matrix_sync(fa, a, 16);
	load_matrix_sync(fb, b, 16);
	fill_fragment(fc, 0);
	mma_sync(fc, fa, fb, fc);
	store_matrix_sync(c, fc, 16, mem_row_major);
	__syncwarp();
	for (int i = threadIdx.x; i < 256; i += 32)
		out[i] = c[255 - i];
}

static int *in, *out;

static std::vector<int> values(8 * N);

/* What a kernel has left, element by element. */
template <typename F> static void result(const char *name, int count, F wanted)
{
	std::vector<int> v(count);

	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(v.data(), out, count * sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaMemset(out, 0, N * sizeof(int)));
	for (int i = 0; i < count; i++)
		EXPECT(v[i] == wanted(i));
	printf("%s\n", name);
}

static int sum_of(int first, int count)
{
	int sum = 0;

	for (int i = first; i < first + count; i++)
		sum += values[i];
	return sum;
}

static int product(int at)
{
	float sum = 0;
	int bits;

	for (int k = 0; k < 16; k++)
		sum += (float)((at / 16 * 16 + k) % 3) * (float)((at % 16 * 16 + k) % 5);
	memcpy(&bits, &sum, sizeof(bits));
	return bits;
}

int main()
{
	int *spare, odd = 0, bins[16] = {0};

	for (size_t i = 0; i < values.size(); i++)
		values[i] = (int)((unsigned)i * 2654435761u >> 24);
	for (int i = 0; i < N; i++) {
		odd += values[i] % 2;
		bins[values[i] % 16]++;
	}
	CHECK(cudaMalloc(&in, values.size() * sizeof(int)));
	CHECK(cudaMalloc(&out, N * sizeof(int)));
	CHECK(cudaMalloc(&spare, N * sizeof(int)));
	CHECK(cudaMemset(spare, 0, N * sizeof(int)));
	CHECK(cudaMemcpy(in, values.data(), values.size() * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(out, values.data(), N * sizeof(int), cudaMemcpyHostToDevice));
	reverse<<<1, N, N * sizeof(int)>>>(out);
	result("reverse", N, [](int i) { return values[N - 1 - i]; });
	tree<<<1, N>>>(in, out);
	result("tree", 1, [](int) { return sum_of(0, N); });
	shuffles<<<1, N>>>(in, out);
	result("shuffles", 1, [](int) { return sum_of(0, N); });
	transpose<<<1, N>>>(in, out);
	result("transpose", N, [](int i) { return values[i % 16 * 16 + i / 16] + 2; });
	tiles<<<1, N>>>(in, out);
	result("tiles", N, [=](int i) { return sum_of(i / 8 * 8, 8) + odd; });
	halves<<<1, N>>>(in, out);
	result("halves", N, [](int i) { return i < N / 2 ? 0 : 6 * values[N - 1 - i] + 15; });
	named<<<1, N>>>(in, out);
	result("named", N, [](int i) { return i < N / 2 ? 0 : values[N - 1 - i]; });
	copies<<<1, N>>>(in, out);
	result("copies", N, [](int i) { return values[N - 1 - i]; });
	pipeline<<<1, N>>>(in, out, 7);
	result("pipeline", N, [](int i) {
		int sum = 0;

		for (int k = 0; k < 7; k++)
			sum += values[k * N + (i + 77) % N];
		return sum;
	});
	own_pipeline<<<1, N>>>(in, out);
	result("own pipeline", N, [](int i) {
		return values[i] + values[N + i] + values[2 * N + i] + values[3 * N + i];
	});
	locked<<<1, 96>>>(out);
	result("lock", 1, [](int) { return 96; });
	flags<<<1, 96>>>(out);
	result("flags", 1, [](int) { return 42; });
	together<<<1, N>>>(in, out);
	result("together", 16, [&](int i) { return bins[i] + 1 + odd; });
	last_block<<<8, N>>>(in, spare + 1, (unsigned *)spare, out);
	result("last block", 1, [](int) { return 8 * sum_of(0, N); });
	tensor_cores<<<1, 32>>>((float *)out);
	result("tensor cores", 256, [](int i) { return product(255 - i); });
	return 0;
}
