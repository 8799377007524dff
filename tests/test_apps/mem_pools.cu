/*
 * mem_pools.cu - memory that is allocated and freed in the order of a stream, and pools.
 */
#include <cstdint>
#include <unistd.h>
#include <vector>

#include "check.h"

static const size_t N = 1 << 17;

__global__ void fill(unsigned int *p, size_t n, unsigned int value)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = value + (unsigned int)i;
}

/* @n words at @p are value, value + 1, ... */
static int wrong(const unsigned int *p, size_t n, unsigned int value, cudaStream_t stream)
{
	std::vector<unsigned int> host(n);
	int bad = 0;

	CHECK(cudaMemcpyAsync(host.data(), p, n * 4, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n; i++)
		bad += host[i] != value + (unsigned int)i;
	return bad;
}

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr attr)
{
	uint64_t value = 0;

	CHECK(cudaMemPoolGetAttribute(pool, attr, &value));
	return value;
}

static void in_stream_order(cudaStream_t stream)
{
	int bad = 0;

	for (unsigned int round = 0; round < 20; round++) {
		unsigned int *a, *b;

		CHECK(cudaMallocAsync(&a, N * 4, stream));
		CHECK(cudaMallocAsync(&b, N * 4, stream));
		fill<<<(N + 255) / 256, 256, 0, stream>>>(a, N, round);
		CHECK(cudaMemcpyAsync(b, a, N * 4, cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaFreeAsync(a, stream));
		bad += wrong(b, N, round, stream);
		CHECK(cudaFreeAsync(b, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	printf("stream order: %d wrong\n", bad);
}

static void kept_and_trimmed(int device, cudaStream_t stream)
{
	cudaMemPool_t pool;
	uint64_t keep = UINT64_MAX;
	void *p;

	CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	EXPECT(attribute(pool, cudaMemPoolAttrReleaseThreshold) == keep);
	CHECK(cudaMallocAsync(&p, 4 << 20, stream));
	EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) >= 4 << 20);
	CHECK(cudaFreeAsync(p, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
	EXPECT(attribute(pool, cudaMemPoolAttrUsedMemHigh) >= 4 << 20);
	EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 4 << 20);
	CHECK(cudaMemPoolTrimTo(pool, 0));
	EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
	keep = 0;
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	printf("kept, then trimmed\n");
}

static cudaMemPool_t make_pool(int device, cudaMemAllocationHandleType handles)
{
	cudaMemPoolProps props = {};
	cudaMemPool_t pool;

	props.allocType = cudaMemAllocationTypePinned;
	props.handleTypes = handles;
	props.location.type = cudaMemLocationTypeDevice;
	props.location.id = device;
	CHECK(cudaMemPoolCreate(&pool, &props));
	return pool;
}

static void own_pool(int device, cudaStream_t stream)
{
	cudaMemPool_t pool = make_pool(device, cudaMemHandleTypeNone), current, first;
	cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
	cudaMemLocation here = {};
	cudaPointerAttributes known;
	unsigned int *p;
	int reuse = -1;

	here.type = cudaMemLocationTypeDevice;
	here.id = device;
	CHECK(cudaMallocFromPoolAsync((void **)&p, N * 4, pool, stream));
	fill<<<(N + 255) / 256, 256, 0, stream>>>(p, N, 7);
	EXPECT(wrong(p, N, 7, stream) == 0);
	CHECK(cudaPointerGetAttributes(&known, p));
	EXPECT(known.type == cudaMemoryTypeDevice && known.device == device);
	CHECK(cudaMemPoolGetAccess(&flags, pool, &here));
	EXPECT(flags == cudaMemAccessFlagsProtReadWrite);
	CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &reuse));
	EXPECT(reuse == 1);

	CHECK(cudaDeviceGetMemPool(&first, device));
	CHECK(cudaDeviceSetMemPool(device, pool));
	CHECK(cudaDeviceGetMemPool(&current, device));
	EXPECT(current == pool && first != pool);
	CHECK(cudaFreeAsync(p, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaDeviceGetMemPool(&current, device));
	EXPECT(current == first);
	printf("a pool of our own\n");
}

static void both_ways_to_free(cudaStream_t stream)
{
	void *a, *b;

	CHECK(cudaMallocAsync(&a, 1000, stream));
	CHECK(cudaMalloc(&b, 1000));
	CHECK(cudaFree(a));
	CHECK(cudaFreeAsync(b, stream));
	CHECK(cudaStreamSynchronize(stream));
	printf("freed the other way\n");
}

/* Inside a process: a pool and a pointer leave it and come back. */
static void shared(int device, cudaStream_t stream)
{
	cudaMemPool_t pool = make_pool(device, cudaMemHandleTypePosixFileDescriptor);
	int fd = -1;

	CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor,
						 0));
	EXPECT(fd >= 0);
	close(fd);
	CHECK(cudaMemPoolDestroy(pool));
	pool = make_pool(device, cudaMemHandleTypeNone);
	EXPECT(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor,
						  0) != cudaSuccess);
	CHECK(cudaMemPoolDestroy(pool));
	cudaGetLastError();
	printf("exported\n");
	(void)stream;
}

static void mistakes(int device, cudaStream_t stream)
{
	cudaMemPool_t pool;
	size_t avail, total;
	uint64_t one = 1;
	void *p = NULL;

	CHECK(cudaMemGetInfo(&avail, &total));
	printf("too much: %s\n", cudaGetErrorName(cudaMallocAsync(&p, total * 2, stream)));
	CHECK(cudaMallocAsync(&p, 1 << 20, stream));
	CHECK(cudaFreeAsync(p, stream));
	printf("freed twice: %s\n", cudaGetErrorName(cudaFreeAsync(p, stream)));
	printf("not memory: %s\n", cudaGetErrorName(cudaFreeAsync((void *)0x123400, stream)));
	CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
	printf("the default pool: %s\n", cudaGetErrorName(cudaMemPoolDestroy(pool)));
	printf("what is in use: %s\n",
	       cudaGetErrorName(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &one)));
	cudaGetLastError();
	CHECK(cudaStreamSynchronize(stream));
}

int main(void)
{
	int device = 0, pools = 0;
	cudaStream_t stream;

	CHECK(cudaSetDevice(device));
	CHECK(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device));
	EXPECT(pools == 1);
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	in_stream_order(stream);
	kept_and_trimmed(device, stream);
	own_pool(device, stream);
	both_ways_to_free(stream);
	shared(device, stream);
	mistakes(device, stream);
	in_stream_order(0);
	CHECK(cudaStreamDestroy(stream));
	return 0;
}
