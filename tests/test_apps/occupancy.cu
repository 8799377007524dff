/*
 * tests/test_apps/occupancy.cu - what the device and its kernels say of themselves. Printed is
 * only what is the same on every GPU; the rest must agree with itself.
 */
#include "check.h"

__global__ void __launch_bounds__(128) bounded(int *p)
{
	__shared__ int tile[256];

	tile[threadIdx.x] = threadIdx.x;
	tile[threadIdx.x + 128] = 1;
	__syncthreads();
	p[threadIdx.x] = tile[255 - threadIdx.x] + tile[threadIdx.x];
}

__global__ void dynamic(int *p)
{
	extern __shared__ int big[];

	big[threadIdx.x * 100] = threadIdx.x;
	__syncthreads();
	p[threadIdx.x] = big[(blockDim.x - 1 - threadIdx.x) * 100];
}

static int attribute(cudaDeviceAttr which)
{
	int value = -1;

	CHECK(cudaDeviceGetAttribute(&value, which, 0));
	return value;
}

static void device()
{
	struct cudaDeviceProp prop;
	int count = 0, current = -1, version = 0, major = attribute(cudaDevAttrComputeCapabilityMajor);
	size_t free_bytes, total;

	CHECK(cudaGetDeviceCount(&count));
	EXPECT(count >= 1);
	CHECK(cudaSetDevice(0));
	CHECK(cudaGetDevice(&current));
	EXPECT(current == 0);
	CHECK(cudaDriverGetVersion(&version));
	EXPECT(version >= 12000);
	CHECK(cudaGetDeviceProperties(&prop, 0));
	EXPECT(prop.major == major);
	EXPECT(prop.name[0] != 0);
	EXPECT(prop.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount));
	EXPECT(prop.warpSize == attribute(cudaDevAttrWarpSize));
	EXPECT((int)prop.sharedMemPerBlock == attribute(cudaDevAttrMaxSharedMemoryPerBlock));
	EXPECT(prop.totalGlobalMem > (64u << 20));
	EXPECT(prop.unifiedAddressing == 1);
	CHECK(cudaMemGetInfo(&free_bytes, &total));
	EXPECT(free_bytes <= total && total <= prop.totalGlobalMem);
	printf("warp %d, threads a block %d, grid x %d, shared memory a block %zu\n", prop.warpSize,
	       prop.maxThreadsPerBlock, prop.maxGridSize[0], prop.sharedMemPerBlock);
}

static void functions(int *dev)
{
	struct cudaFuncAttributes at;
	int blocks = 0, grid = 0, block = 0, got[128];
	size_t left = 0;

	CHECK(cudaFuncGetAttributes(&at, bounded));
	EXPECT(at.numRegs > 0 && at.ptxVersion >= 75 && at.binaryVersion >= 75);
	printf("bounded: threads a block %d, shared %zu, constant %zu\n", at.maxThreadsPerBlock,
	       at.sharedSizeBytes, at.constSizeBytes);
	CHECK(cudaFuncGetAttributes(&at, dynamic));
	EXPECT(at.maxThreadsPerBlock == 1024);
	printf("dynamic: shared %zu, at most %d\n", at.sharedSizeBytes,
	       at.maxDynamicSharedSizeBytes);

	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 128, 0));
	EXPECT(blocks >= 1);
	EXPECT(blocks * 128 <= attribute(cudaDevAttrMaxThreadsPerMultiProcessor));
	CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
	EXPECT(block == 128 && grid == blocks * attribute(cudaDevAttrMultiProcessorCount));
	CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&left, bounded, 1, 128));
	EXPECT(left >= 40000);
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic, 32, 48 << 10));
	EXPECT(blocks >= 1);
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic, 32, 4 << 20));
	printf("blocks with 4 MiB of shared memory: %d\n", blocks);

	/* More than 48 KiB is for those who ask. */
	dynamic<<<1, 128, 51200>>>(dev);
	printf("50 KiB unasked: %s\n", cudaGetErrorName(cudaGetLastError()));
	CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 51200));
	dynamic<<<1, 128, 51200>>>(dev);
	printf("50 KiB asked for: %s\n", cudaGetErrorName(cudaGetLastError()));
	CHECK(cudaMemcpy(got, dev, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 128; i++)
		EXPECT(got[i] == 127 - i);
	bounded<<<1, 256>>>(dev);
	printf("twice the bound: %s\n", cudaGetErrorName(cudaGetLastError()));
	bounded<<<1, 128>>>(dev);
	CHECK(cudaMemcpy(got, dev, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 128; i++)
		EXPECT(got[i] == 1 + i);
}

int main()
{
	int *dev;

	device();
	CHECK(cudaMalloc(&dev, 128 * sizeof(int)));
	functions(dev);
	CHECK(cudaFree(dev));
	return 0;
}
