/*
 * tests/gpu/cooperative.cu - cooperative groups: a barrier over the grid, tiles, a grid that is too
 * large.
 */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void steps(int *x, int n, int *total)
{
	cg::grid_group grid = cg::this_grid();
	cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());

	for (int step = 1; step < n; step *= 2) {
		int from[8], k = 0;

		for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size())
			from[k++] = i >= step ? x[i - step] : 0;
		grid.sync();
		k = 0;
		for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size())
			x[i] += from[k++];
		grid.sync();
	}
	int sum = cg::reduce(tile, (int)tile.thread_rank(), cg::plus<int>());
	if (grid.thread_rank() == 0)
		*total = sum;
}

int main()
{
	int n = 4096, *x, *total, host[4096], sum;
	void *arguments[] = { &x, &n, &total };

	for (int i = 0; i < n; i++)
		host[i] = 1;
	CHECK(cudaMalloc(&x, sizeof(host)));
	CHECK(cudaMalloc(&total, sizeof(int)));
	CHECK(cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cudaLaunchCooperativeKernel((void *)steps, dim3(8), dim3(128), arguments, 0, 0));
	CHECK(cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&sum, total, sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		EXPECT(host[i] == i + 1);
	printf("prefix sums by grid barriers: right; tile %d\n", sum);
	printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)steps, dim3(1 << 20), dim3(1024),
								     arguments, 0, 0)));
	return 0;
}
