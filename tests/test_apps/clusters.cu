/*
 * tests/test_apps/clusters.cu - clusters of thread blocks: their shape, their barrier, shared
 * memory of other blocks by load, store and atomics, a histogram spread over a cluster (as in
 * CUDA's guide), a ring of blocks that pass on what they have; what launches are refused.
 */
#include <cooperative_groups.h>
#include <vector>
#include "check.h"

namespace cg = cooperative_groups;

#define N 128

struct shape {
	unsigned rank, size, x, y, blocks_x, blocks_y, clusters_x, cluster_x;
};

__global__ void shapes(shape *out)
{
	cg::cluster_group cluster = cg::this_cluster();
	unsigned block = blockIdx.y * gridDim.x + blockIdx.x;

	if (threadIdx.x == 0) {
		unsigned clusters, own;

		asm("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
		asm("mov.u32 %0, %%clusterid.x;" : "=r"(own));
		out[block] = {cluster.block_rank(), cluster.num_blocks(), cluster.block_index().x,
			      cluster.block_index().y, cluster.dim_blocks().x, cluster.dim_blocks().y,
			      clusters, own};
	}
}

/* Each thread reads its like in the next block of the cluster, and tells the one before. */
__global__ void __cluster_dims__(4, 1, 1) neighbours(int *out)
{
	__shared__ int mine[N], told[N];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned rank = cluster.block_rank(), size = cluster.num_blocks();

	mine[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
	cluster.sync();
	int *next = cluster.map_shared_rank(mine, (rank + 1) % size);
	int *before = cluster.map_shared_rank(told, (rank + size - 1) % size);
	before[N - 1 - threadIdx.x] = next[threadIdx.x] + 1;
	if (cluster.query_shared_rank(next) != (rank + 1) % size)
		before[0] = -1;
	cluster.sync();
	out[blockIdx.x * N + threadIdx.x] = told[threadIdx.x];
}

#define BINS 512

/* The bins lie in the shared memory of all blocks of a cluster, BINS / size in each. */
__global__ void histogram(const unsigned char *in, int n, int *bins)
{
	extern __shared__ int part[];
	cg::cluster_group cluster = cg::this_cluster();
	int each = BINS / cluster.num_blocks();

	for (int i = threadIdx.x; i < each; i += blockDim.x)
		part[i] = 0;
	cluster.sync();
	for (int i = cg::this_grid().thread_rank(); i < n; i += blockDim.x * gridDim.x) {
		int bin = in[i] * 2 + i % 2;

		atomicAdd(cluster.map_shared_rank(part, bin / each) + bin % each, 1);
	}
	cluster.sync();
	int *out = bins + cluster.block_rank() * each;
	for (int i = threadIdx.x; i < each; i += blockDim.x)
		atomicAdd(&out[i], part[i]);
}

/* The barrier in two halves: something else is done in between. */
__global__ void ring(int turns, int *out)
{
	__shared__ int box[2];
	cg::cluster_group cluster = cg::this_cluster();
	unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
	int value = blockIdx.x, other = 0;

	for (int i = 0; i < turns; i++) {
		if (threadIdx.x == 0)
			*cluster.map_shared_rank(&box[i % 2], next) = value;
		cg::cluster_group::arrival_token token = cluster.barrier_arrive();
		other += i;
		cluster.barrier_wait(std::move(token));
		value = box[i % 2] + 1;
	}
	if (threadIdx.x == 0)
		out[blockIdx.x] = value * 100 + other;
}

static cudaError_t launch(const void *kernel, dim3 grid, dim3 block, dim3 cluster, size_t shared, void **args)
{
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute attribute = {};

	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = cluster.x;
	attribute.val.clusterDim.y = cluster.y;
	attribute.val.clusterDim.z = cluster.z;
	config.gridDim = grid;
	config.blockDim = block;
	config.dynamicSmemBytes = shared;
	config.attrs = &attribute;
	config.numAttrs = 1;
	return cudaLaunchKernelExC(&config, kernel, args);
}

static void test_shapes()
{
	shape *out, got[24];
	void *args[] = {&out};

	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(launch((void *)shapes, dim3(6, 4), 32, dim3(3, 2), 0, args));
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (unsigned y = 0; y < 4; y++)
		for (unsigned x = 0; x < 6; x++) {
			const shape &s = got[y * 6 + x];

			EXPECT(s.size == 6 && s.x == x % 3 && s.y == y % 2);
			EXPECT(s.rank == s.y * 3 + s.x && s.blocks_x == 3 && s.blocks_y == 2);
			EXPECT(s.clusters_x == 2 && s.cluster_x == x / 3);
		}
	shapes<<<2, 32>>>(out);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	EXPECT(got[1].size == 1 && got[1].rank == 0 && got[1].cluster_x == 1);
	CHECK(cudaFree(out));
	printf("shapes\n");
}

static void test_neighbours()
{
	std::vector<int> v(8 * N);
	int *out;

	CHECK(cudaMalloc(&out, v.size() * sizeof(int)));
	neighbours<<<8, N>>>(out);
	CHECK(cudaMemcpy(v.data(), out, v.size() * sizeof(int), cudaMemcpyDeviceToHost));
	for (int b = 0; b < 8; b++)
		for (int t = 0; t < N; t++) {
			/* told by the block after, of the one after that */
			int from = b / 4 * 4 + (b + 2) % 4;

			EXPECT(v[b * N + t] == from * 1000 + N - 1 - t + 1);
		}
	CHECK(cudaFree(out));
	printf("neighbours\n");
}

static void test_histogram()
{
	const int n = 100000;
	std::vector<unsigned char> in(n);
	std::vector<int> want(BINS), got(BINS);
	unsigned char *din;
	int *bins;

	for (int i = 0; i < n; i++) {
		in[i] = (unsigned char)(i * 2654435761u >> 19);
		want[in[i] * 2 + i % 2]++;
	}
	CHECK(cudaMalloc(&din, n));
	CHECK(cudaMalloc(&bins, BINS * sizeof(int)));
	CHECK(cudaMemcpy(din, in.data(), n, cudaMemcpyHostToDevice));
	for (int size = 1; size <= 8; size *= 2) {
		void *args[] = {&din, (void *)&n, &bins};

		CHECK(cudaMemset(bins, 0, BINS * sizeof(int)));
		CHECK(launch((void *)histogram, 16, 256, size, BINS / size * sizeof(int), args));
		CHECK(cudaMemcpy(got.data(), bins, BINS * sizeof(int), cudaMemcpyDeviceToHost));
		EXPECT(got == want);
	}
	CHECK(cudaFree(din));
	CHECK(cudaFree(bins));
	printf("histogram\n");
}

static void test_ring()
{
	int *out, got[16], turns = 50;
	void *args[] = {&turns, &out};

	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(launch((void *)ring, 16, 64, 8, 0, args));
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int b = 0; b < 16; b++)
		EXPECT(got[b] == (b / 8 * 8 + (b + 8 * turns - turns) % 8 + turns) * 100 + 49 * 50 / 2);
	/* more than eight blocks only where they are allowed */
	EXPECT(launch((void *)ring, 16, 64, 16, 0, args) == cudaErrorInvalidClusterSize);
	CHECK(cudaFuncSetAttribute((void *)ring, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
	CHECK(launch((void *)ring, 16, 64, 16, 0, args));
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int b = 0; b < 16; b++)
		EXPECT(got[b] == ((b + 16 * turns - turns) % 16 + turns) * 100 + 49 * 50 / 2);
	CHECK(cudaFree(out));
	printf("ring\n");
}

static void test_questions()
{
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute attribute = {};
	cudaFuncAttributes a;
	int value, clusters, *out = NULL;
	void *args[] = {&out};

	CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrClusterLaunch, 0));
	EXPECT(value == 1);
	CHECK(cudaFuncGetAttributes(&a, neighbours));
	EXPECT(a.requiredClusterWidth == 4 && a.requiredClusterHeight == 1 && a.clusterDimMustBeSet);
	config.gridDim = 8;
	config.blockDim = 1024;
	config.attrs = &attribute;
	config.numAttrs = 1;
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = 2;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	CHECK(cudaOccupancyMaxActiveClusters(&value, histogram, &config));
	attribute.val.clusterDim.x = 4;
	CHECK(cudaOccupancyMaxActiveClusters(&clusters, histogram, &config));
	EXPECT(value > clusters && clusters > 0);
	CHECK(cudaOccupancyMaxPotentialClusterSize(&value, histogram, &config));
	EXPECT(value == 8);
	/* a grid is whole clusters, and those are as the kernel says */
	EXPECT(launch((void *)neighbours, 6, N, 4, 0, args) != cudaSuccess);
	EXPECT(launch((void *)neighbours, 8, N, 2, 0, args) != cudaSuccess);
	(void)cudaGetLastError();
	CHECK(cudaDeviceSynchronize());
	printf("questions\n");
}

int main()
{
	test_shapes();
	test_neighbours();
	test_histogram();
	test_ring();
	test_questions();
	return 0;
}
