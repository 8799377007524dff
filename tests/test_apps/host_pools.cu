/*
 * tests/test_apps/host_pools.cu - memory pools in the host: memory that CPU, kernels and copies use
 * in turn, freed in the order of a stream.
 */
#include <cstdint>

#include "entry.h"

static const size_t N = 1 << 16;
static cudaStream_t stream, other;

__global__ void add(unsigned int *p, size_t n, unsigned int what)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
		p[i] += what;
}

/* Long enough for what is wrongly not waited for to be seen. */
__global__ void add_slowly(unsigned int *p, size_t n, unsigned int what)
{
	unsigned int x = what;

	for (int i = 0; i < 20000; i++)
		x = x * 1664525u + 1013904223u;
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		p[i] += what + (x == 1 ? 1 : 0);
}

static CUmemoryPool make_pool(CUmemLocationType type, size_t most)
{
	CUmemAccessDesc device = {};
	CUmemPoolProps props = {};
	CUmemoryPool pool;

	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = type;
	props.maxSize = most;
	CHECK_CU(CU(cuMemPoolCreate)(&pool, &props));
	device.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	device.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK_CU(CU(cuMemPoolSetAccess)(pool, &device, 1));
	return pool;
}

static unsigned int *take(CUmemoryPool pool, size_t words, cudaStream_t in)
{
	CUdeviceptr at = 0;

	CHECK_CU(CU(cuMemAllocFromPoolAsync)(&at, words * 4, pool, in));
	return (unsigned int *)at;
}

static void give(unsigned int *p, cudaStream_t in)
{
	CHECK_CU(CU(cuMemFreeAsync)((CUdeviceptr)p, in));
}

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attr)
{
	uint64_t value = 0;

	CHECK_CU(CU(cuMemPoolGetAttribute)(pool, attr, &value));
	return value;
}

static size_t right(const unsigned int *p, size_t n, unsigned int plus)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += p[i] == i + plus;
	return count;
}

/* Both small and large memory, which are kept equal in different ways where the GPU is far. */
static void in_turn(CUmemoryPool pool, size_t n)
{
	unsigned int *p = take(pool, n, stream), *device, *copy = (unsigned int *)malloc(n * 4);

	CHECK(cudaMalloc(&device, n * 4));
	CHECK(cudaStreamSynchronize(stream));
	for (unsigned int i = 0; i < n; i++)
		p[i] = i;
	add<<<8, 128, 0, stream>>>(p, n, 5);
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(right(p, n, 5) == n);
	p[n - 1] += 1;
	CHECK(cudaMemcpyAsync(device, p, n * 4, cudaMemcpyDefault, stream));
	add<<<8, 128, 0, stream>>>(device, n, 1);
	CHECK(cudaMemcpyAsync(copy, device, n * 4, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(right(copy, n, 6) == n - 1 && copy[n - 1] == n + 6);
	CHECK(cudaMemsetAsync(p, 0, n * 4, stream));
	CHECK(cudaMemcpyAsync(p, device, n * 2, cudaMemcpyDefault, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(right(p, n / 2, 6) == n / 2 && p[n / 2] == 0 && p[n - 1] == 0);
	give(p, stream);
	CHECK(cudaFree(device));
	free(copy);
}

/* A freed piece may be another one's only when its last use is over, or in the same stream. */
static void in_order(CUmemoryPool pool)
{
	uint64_t keep = UINT64_MAX, none = 0;
	unsigned int *result[2];

	CHECK_CU(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	for (int i = 0; i < 2; i++) {
		CHECK(cudaMalloc(&result[i], N * 4));
		CHECK(cudaMemset(result[i], 0, N * 4));
	}
	CHECK(cudaDeviceSynchronize());
	for (unsigned int round = 1; round <= 10; round++) {
		unsigned int *a = take(pool, N, stream), *b;

		CHECK(cudaMemsetAsync(a, 0, N * 4, stream));
		add_slowly<<<1, 128, 0, stream>>>(a, N, round);
		CHECK(cudaMemcpyAsync(result[0], a, N * 4, cudaMemcpyDefault, stream));
		give(a, stream);
		b = take(pool, N, other);
		CHECK(cudaMemsetAsync(b, 0, N * 4, other));
		add<<<8, 128, 0, other>>>(b, N, 100 + round);
		CHECK(cudaMemcpyAsync(result[1], b, N * 4, cudaMemcpyDefault, other));
		give(b, other);
		a = take(pool, N, stream);
		CHECK(cudaMemsetAsync(a, 0xff, N * 4, stream));
		give(a, stream);
		CHECK(cudaDeviceSynchronize());
		a = take(pool, N, 0);
		for (unsigned int k = 0; k < 2; k++) {
			CHECK(cudaMemcpy(a, result[k], N * 4, cudaMemcpyDefault));
			EXPECT(a[0] == k * 100 + round && a[N - 1] == k * 100 + round);
		}
		give(a, 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(cudaFree(result[i]));
	CHECK_CU(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

static void look(CUmemoryPool pool)
{
	unsigned int *p = take(pool, N, stream), type = 0;
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUmemLocation place = {};
	CUmemoryPool of = NULL;
	void *host = NULL;

	CHECK_CU(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p));
	CHECK_CU(CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)p));
	CHECK_CU(CU(cuPointerGetAttribute)(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr)p));
	EXPECT(type == CU_MEMORYTYPE_HOST && host == p && of == pool);
	place.type = CU_MEM_LOCATION_TYPE_HOST;
	CHECK_CU(CU(cuMemPoolGetAccess)(&flags, pool, &place));
	EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeHost)(p));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeAsync)((CUdeviceptr)p + 4, stream));
	give(p, stream);
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemFreeAsync)((CUdeviceptr)p, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static void kept_and_trimmed(CUmemoryPool pool)
{
	uint64_t keep = UINT64_MAX, none = 0;
	unsigned int *p, *again;

	CHECK(cudaDeviceSynchronize());
	EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= N * 4);
	CHECK_CU(CU(cuMemPoolTrimTo)(pool, 0));
	CHECK_CU(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	p = take(pool, N, stream);
	EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= N * 4);
	give(p, stream);
	CHECK(cudaStreamSynchronize(stream));
	again = take(pool, N, stream);
	EXPECT(again == p);
	give(again, stream);
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= N * 4);
	CHECK_CU(CU(cuMemPoolTrimTo)(pool, 0));
	EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	CHECK_CU(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

/* The limit counts memory whose free has not taken effect; it makes room for what is asked next. */
static void limited(void)
{
	CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_HOST, 64 << 20);
	unsigned int *p = take(pool, 40 << 18, stream);
	CUdeviceptr more;

	EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, CU(cuMemAllocFromPoolAsync)(&more, 40 << 20, pool, other));
	give(p, stream);
	p = take(pool, 48 << 18, other);
	give(p, other);
	for (unsigned int i = 0; i < 50; i++) {
		p = take(pool, 48 << 18, other);
		add<<<1, 128, 0, other>>>(p, 1000, i);
		give(p, other);
	}
	CHECK_CU(CU(cuMemPoolDestroy)(pool));
	CHECK(cudaDeviceSynchronize());
}

/* Its memory outlives a pool. */
static void outlives(void)
{
	CUmemoryPool pool = make_pool(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
	unsigned int *p = take(pool, N, stream);

	CHECK_CU(CU(cuMemPoolDestroy)(pool));
	CHECK(cudaStreamSynchronize(stream));
	for (unsigned int i = 0; i < N; i++)
		p[i] = i;
	add<<<8, 128, 0, stream>>>(p, N, 3);
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(right(p, N, 3) == N);
	CHECK_CU(CU(cuMemFree)((CUdeviceptr)p));
}

static void refused(void)
{
	CUmemPoolProps props = {};
	CUmemoryPool pool;

	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemPoolCreate)(&pool, &props));
	props.location.type = CU_MEM_LOCATION_TYPE_HOST;
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemPoolCreate)(&pool, &props));
	pool = make_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuDeviceSetMemPool)(0, pool));
	CHECK_CU(CU(cuMemPoolDestroy)(pool));
}

int main(void)
{
	CUmemoryPool pool;
	int supported = 0;

	CHECK(cudaSetDevice(0));
	CHECK(cudaDeviceGetAttribute(&supported, (cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
	EXPECT(supported == 1);
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	pool = make_pool(CU_MEM_LOCATION_TYPE_HOST, 0);
	in_turn(pool, 1000);
	in_turn(pool, 5 * N);
	printf("used by the CPU, kernels and copies in turn\n");
	in_order(pool);
	printf("freed in the order of streams\n");
	look(pool);
	kept_and_trimmed(pool);
	limited();
	printf("kept, trimmed, limited\n");
	outlives();
	refused();
	CHECK_CU(CU(cuMemPoolDestroy)(pool));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamDestroy(other));
	printf("outlived by its memory\n");
	return 0;
}
