/*
 * tests/test_apps/groups.cu - cooperative groups: tiles of several warps, groups of lanes that
 * belong together, copies of a group, and the barrier of the whole grid.
 */
#include <vector>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include "check.h"

namespace cg = cooperative_groups;

#define THREADS 256
#define TILE 128
#define WORDS 1000

/* Tiles larger than a warp meet in shared memory that the system reserves (sm_80 and later). */
__global__ void large_tiles(int *sums, int *before)
{
	__shared__ cg::block_tile_memory<THREADS> memory;
	cg::thread_block block = cg::this_thread_block(memory);
	auto tile = cg::tiled_partition<TILE>(block);
	int mine = block.thread_rank() % 7;

	sums[block.thread_rank()] = cg::reduce(tile, mine, cg::plus<int>());
	tile.sync();
	before[block.thread_rank()] = cg::exclusive_scan(tile, mine);
}

static void large()
{
	int *sums, *before;

	CHECK(cudaMallocManaged(&sums, THREADS * sizeof(int)));
	CHECK(cudaMallocManaged(&before, THREADS * sizeof(int)));
	large_tiles<<<1, THREADS>>>(sums, before);
	CHECK(cudaDeviceSynchronize());
	for (int tile = 0; tile < THREADS; tile += TILE) {
		int sum = 0;

		for (int i = tile; i < tile + TILE; i++) {
			EXPECT(before[i] == sum);
			sum += i % 7;
		}
		for (int i = tile; i < tile + TILE; i++)
			EXPECT(sums[i] == sum);
	}
	printf("tiles of %d threads: sums and scans\n", TILE);
	CHECK(cudaFree(sums));
	CHECK(cudaFree(before));
}

/* Who of a warp has the same label, the same answer, or came here with this lane. */
__global__ void kinds(int3 *out)
{
	auto warp = cg::tiled_partition<32>(cg::this_thread_block());
	int rank = warp.thread_rank();
	auto label = cg::labeled_partition(warp, rank % 7);
	auto answer = cg::binary_partition(warp, rank % 4 == 1);
	int3 got = {cg::reduce(label, rank, cg::plus<int>()), (int)answer.size(), -1};

	if (rank % 3 == 0) {
		cg::coalesced_group here = cg::coalesced_threads();

		got.z = cg::inclusive_scan(here, 10) + here.shfl(rank, 2);
		got.z += cg::invoke_one_broadcast(here, [] { return 1000; });
	}
	out[rank] = got;
}

static void lanes()
{
	int3 *out;

	CHECK(cudaMallocManaged(&out, 32 * sizeof(*out)));
	kinds<<<1, 32>>>(out);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 32; i++) {
		int sum = 0;

		for (int j = i % 7; j < 32; j += 7)
			sum += j;
		EXPECT(out[i].x == sum);
		EXPECT(out[i].y == (i % 4 == 1 ? 8 : 24));
		EXPECT(out[i].z == (i % 3 ? -1 : 10 * (i / 3 + 1) + 6 + 1000));
	}
	printf("labels, answers, those who came along\n");
	CHECK(cudaFree(out));
}

/* A block fetches words together, and gives them back in the other order. */
__global__ void turn(const int *in, int *out)
{
	extern __shared__ int s[];
	cg::thread_block block = cg::this_thread_block();

	cg::memcpy_async(block, s, in, WORDS * sizeof(int));
	cg::wait(block);
	for (int i = block.thread_rank(); i < WORDS; i += block.size())
		out[i] = s[WORDS - 1 - i];
}

static void copies()
{
	int *words;

	CHECK(cudaMallocManaged(&words, 2 * WORDS * sizeof(int)));
	for (int i = 0; i < WORDS; i++)
		words[i] = i * i;
	turn<<<1, 96, WORDS * sizeof(int)>>>(words, words + WORDS);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < WORDS; i++)
		EXPECT(words[WORDS + i] == (WORDS - 1 - i) * (WORDS - 1 - i));
	printf("a copy of a group\n");
	CHECK(cudaFree(words));
}

/* Row after row of sums of neighbours: each needs all of the one before. */
__global__ void rows(int *v, int count)
{
	cg::grid_group grid = cg::this_grid();

	for (int r = 0; r < count; r++, v += WORDS) {
		for (int i = grid.thread_rank(); i < WORDS; i += grid.size())
			v[WORDS + i] = v[i] + v[(i + 1) % WORDS];
		grid.sync();
	}
}

static void grids()
{
	int count = 5, *v, most;
	std::vector<int> row(WORDS), next(WORDS);
	void *args[] = {&v, &count};
	cudaDeviceProp device;

	CHECK(cudaMallocManaged(&v, (count + 1) * WORDS * sizeof(int)));
	for (int i = 0; i < WORDS; i++)
		v[i] = row[i] = i % 10;
	CHECK(cudaLaunchCooperativeKernel((void *)rows, dim3(8), dim3(64), args, 0, 0));
	CHECK(cudaDeviceSynchronize());
	for (int r = 0; r < count; r++) {
		for (int i = 0; i < WORDS; i++)
			next[i] = row[i] + row[(i + 1) % WORDS];
		row.swap(next);
	}
	for (int i = 0; i < WORDS; i++)
		EXPECT(v[count * WORDS + i] == row[i]);
	CHECK(cudaGetDeviceProperties(&device, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, rows, 64, 0));
	most = most * device.multiProcessorCount + 1;
	printf("the barrier of a grid; of one block too many: %s\n",
	       cudaGetErrorName(cudaLaunchCooperativeKernel((void *)rows, dim3(most), dim3(64),
							    args, 0, 0)));
	CHECK(cudaFree(v));
}

int main()
{
	large();
	lanes();
	copies();
	grids();
	return 0;
}
