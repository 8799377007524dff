/*
 * tests/test_apps/block_algorithms.cu - what libraries of algorithms are made of: a block's sort,
 * scan and histogram with cooperative groups, a product of halves by tensor cores, and random
 * numbers of cuRAND's device headers, which the host computes again.
 */
#include <algorithm>
#include <numeric>
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <mma.h>
#if __has_include(<curand_kernel.h>)
#define QUALIFIERS static inline __host__ __device__
#include <curand_kernel.h>
#define HAS_CURAND 1
#endif
#include "check.h"

namespace cg = cooperative_groups;

#define ITEMS 512
#define BLOCKS 6
#define BINS 32

/* Each block sorts its own items: a bitonic sort in shared memory. */
__global__ void sort(unsigned int *keys)
{
	__shared__ unsigned int s[ITEMS];
	cg::thread_block block = cg::this_thread_block();
	unsigned int i = block.thread_rank();

	keys += blockIdx.x * ITEMS;
	s[i] = keys[i];
	block.sync();
	for (unsigned int size = 2; size <= ITEMS; size *= 2) {
		for (unsigned int step = size / 2; step > 0; step /= 2) {
			unsigned int other = i ^ step;

			if (other > i && (s[i] > s[other]) == !(i & size)) {
				unsigned int held = s[i];

				s[i] = s[other];
				s[other] = held;
			}
			block.sync();
		}
	}
	keys[i] = s[i];
}

/* Sums of all items before each, in its block; and the block's sum by another way. */
__global__ void scan(const unsigned int *in, unsigned int *before, unsigned int *total)
{
	__shared__ unsigned int part[32];
	cg::thread_block block = cg::this_thread_block();
	cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
	unsigned int at = blockIdx.x * ITEMS + block.thread_rank(), v = in[at];
	unsigned int mine = cg::exclusive_scan(tile, v), base = 0;

	if (tile.thread_rank() == 31)
		part[tile.meta_group_rank()] = mine + v;
	block.sync();
	for (unsigned int w = 0; w < tile.meta_group_rank(); w++)
		base += part[w];
	before[at] = base + mine;
	v = cg::reduce(tile, v, cg::plus<unsigned int>());
	if (tile.thread_rank() == 0)
		atomicAdd(&total[blockIdx.x], v);
}

/* Lanes with the same bin add once for all of them. */
__global__ void histogram(const unsigned int *in, unsigned int *bins)
{
	__shared__ unsigned int s[BINS];
	cg::thread_block block = cg::this_thread_block();
	unsigned int bin = in[blockIdx.x * ITEMS + block.thread_rank()] % BINS;

	if (block.thread_rank() < BINS)
		s[block.thread_rank()] = 0;
	block.sync();
	cg::coalesced_group same = cg::labeled_partition(cg::coalesced_threads(), bin);

	if (same.thread_rank() == 0)
		atomicAdd(&s[bin], same.size());
	block.sync();
	if (block.thread_rank() < BINS)
		atomicAdd(&bins[block.thread_rank()], s[block.thread_rank()]);
}

/* One warp: c = a b of 16 x 16 halves. */
__global__ void product(const half *a, const half *b, float *c)
{
	using namespace nvcuda::wmma;
	fragment<matrix_a, 16, 16, 16, half, row_major> fa;
	fragment<matrix_b, 16, 16, 16, half, col_major> fb;
	fragment<accumulator, 16, 16, 16, float> fc;

	fill_fragment(fc, 0.5f);
	load_matrix_sync(fa, a, 16);
	load_matrix_sync(fb, b, 16);
	mma_sync(fc, fa, fb, fc);
	store_matrix_sync(c, fc, 16, mem_row_major);
}

static void check_sort_scan_histogram(void)
{
	std::vector<unsigned int> in(ITEMS * BLOCKS), out(in.size()), bins(BINS), total(BLOCKS);
	unsigned int *keys, *before, *more, seed = 1;

	for (unsigned int &v : in)
		v = (seed = seed * 1664525 + 1013904223) >> 12;
	CHECK(cudaMalloc(&keys, in.size() * 4));
	CHECK(cudaMalloc(&before, in.size() * 4));
	CHECK(cudaMalloc(&more, (BINS + BLOCKS) * 4));
	CHECK(cudaMemset(more, 0, (BINS + BLOCKS) * 4));
	CHECK(cudaMemcpy(keys, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
	scan<<<BLOCKS, ITEMS>>>(keys, before, more + BINS);
	histogram<<<BLOCKS, ITEMS>>>(keys, more);
	sort<<<BLOCKS, ITEMS>>>(keys);
	CHECK(cudaMemcpy(out.data(), before, out.size() * 4, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(total.data(), more + BINS, BLOCKS * 4, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(bins.data(), more, BINS * 4, cudaMemcpyDeviceToHost));
	for (int b = 0; b < BLOCKS; b++) {
		unsigned int sum = 0;

		for (int i = b * ITEMS; i < (b + 1) * ITEMS; sum += in[i++])
			EXPECT(out[i] == sum);
		EXPECT(total[b] == sum);
	}
	for (unsigned int v : in)
		bins[v % BINS]--;
	EXPECT(std::count(bins.begin(), bins.end(), 0u) == BINS);
	CHECK(cudaMemcpy(out.data(), keys, out.size() * 4, cudaMemcpyDeviceToHost));
	for (int b = 0; b < BLOCKS; b++)
		std::sort(in.begin() + b * ITEMS, in.begin() + (b + 1) * ITEMS);
	EXPECT(in == out);
	CHECK(cudaFree(keys));
	CHECK(cudaFree(before));
	CHECK(cudaFree(more));
}

static void check_product(void)
{
	half a[256], b[256], *d;
	float c[256], *e;

	for (int i = 0; i < 256; i++) {
		a[i] = __float2half((float)(i * 7 % 13 - 6));
		b[i] = __float2half((float)(i * 5 % 11 - 5));
	}
	CHECK(cudaMalloc(&d, sizeof(a) + sizeof(b)));
	CHECK(cudaMalloc(&e, sizeof(c)));
	CHECK(cudaMemcpy(d, a, sizeof(a), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(d + 256, b, sizeof(b), cudaMemcpyHostToDevice));
	product<<<1, 32>>>(d, d + 256, e);
	CHECK(cudaMemcpy(c, e, sizeof(c), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 16; j++) {
			float sum = 0.5f;

			for (int k = 0; k < 16; k++)
				sum += __half2float(a[i * 16 + k]) * __half2float(b[j * 16 + k]);
			EXPECT(c[i * 16 + j] == sum);
		}
	}
	CHECK(cudaFree(d));
	CHECK(cudaFree(e));
}

#ifdef HAS_CURAND
struct numbers {
	unsigned int philox[4], xorwow[4];
	float uniform;
};

static __host__ __device__ void draw(unsigned int thread, struct numbers *n)
{
	curandStatePhilox4_32_10_t philox;
	curandStateXORWOW_t xorwow;

	curand_init(1234, thread, 5, &philox);
	curand_init(99 + thread, 0, 3, &xorwow);
	for (int i = 0; i < 4; i++) {
		n->philox[i] = curand(&philox);
		n->xorwow[i] = curand(&xorwow);
	}
	n->uniform = curand_uniform(&philox);
}

__global__ void draw_all(struct numbers *n)
{
	draw(threadIdx.x, &n[threadIdx.x]);
}

static void check_random(void)
{
	std::vector<struct numbers> got(64);
	struct numbers *device;

	CHECK(cudaMalloc(&device, sizeof(*device) * got.size()));
	draw_all<<<1, 64>>>(device);
	CHECK(cudaMemcpy(got.data(), device, sizeof(*device) * got.size(), cudaMemcpyDeviceToHost));
	for (unsigned int i = 0; i < got.size(); i++) {
		struct numbers want;

		draw(i, &want);
		EXPECT(std::equal(want.philox, want.philox + 4, got[i].philox));
		EXPECT(std::equal(want.xorwow, want.xorwow + 4, got[i].xorwow));
		EXPECT(want.uniform == got[i].uniform);
	}
	CHECK(cudaFree(device));
}
#else
static void check_random(void)
{
}
#endif

int main(void)
{
	check_sort_scan_histogram();
	check_product();
	check_random();
	printf("block algorithms: sort, scan, histogram, product, random numbers\n");
	return 0;
}
