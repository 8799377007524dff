/*
 * tests/test_apps/host_vmm.cu - physical memory of the host (cuMemCreate) that CPU and kernels use
 * in turn: as a vector that grows, and that moves to other addresses when it cannot.
 */
#include "entry.h"

#define BLOCKS 3
#define WORDS (unit / sizeof(unsigned int))

static CUmemAllocationProp prop;
static CUmemAccessDesc access_desc[2];
static CUmemGenericAllocationHandle handle[BLOCKS];
static size_t unit;

__global__ void add(unsigned int *p, size_t n, unsigned int what)
{
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		p[i] += what;
}

static void map_block(CUdeviceptr at, int i)
{
	CHECK_CU(CU(cuMemMap)(at + i * unit, unit, 0, handle[i], 0));
	CHECK_CU(CU(cuMemSetAccess)(at + i * unit, unit, access_desc, 2));
}

static unsigned int *at_block(CUdeviceptr at, int i)
{
	return (unsigned int *)(at + i * unit);
}

static size_t right(const unsigned int *p, unsigned int plus)
{
	size_t n = 0;

	for (size_t i = 0; i < WORDS; i++)
		n += p[i] == i + plus;
	return n;
}

static void describe(void)
{
	int device = 0, supported = 0;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	access_desc[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access_desc[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	for (int i = 0; i < 2; i++)
		access_desc[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cudaDeviceGetAttribute(&supported, (cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				     device));
	EXPECT(supported);
	CHECK_CU(CU(cuMemGetAllocationGranularity)(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
}

/* Each block is written by the CPU, by a kernel, and by a copy. */
static void grow(CUdeviceptr at)
{
	unsigned int *copy = (unsigned int *)malloc(unit), *device;

	CHECK(cudaMalloc(&device, unit));
	for (int i = 0; i < BLOCKS; i++) {
		unsigned int *p = at_block(at, i);

		CHECK_CU(CU(cuMemCreate)(&handle[i], unit, &prop, 0));
		map_block(at, i);
		for (size_t k = 0; k < WORDS; k++)
			p[k] = k;
		add<<<1, 128>>>(p, WORDS, 5);
		CHECK(cudaDeviceSynchronize());
		EXPECT(right(p, 5) == WORDS);
		CHECK(cudaMemcpy(device, p, unit, cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(copy, device, unit, cudaMemcpyDeviceToHost));
		EXPECT(right(copy, 5) == WORDS);
		add<<<1, 128>>>(device, WORDS, 1);
		CHECK(cudaMemcpy(p, device, unit, cudaMemcpyDeviceToHost));
		EXPECT(right(p, 6) == WORDS);
		p[1] += 0;
	}
	CHECK(cudaFree(device));
	free(copy);
}

static void look(CUdeviceptr at)
{
	CUmemGenericAllocationHandle again;
	CUmemAllocationProp known = {};
	unsigned long long flags = 0;
	unsigned int type = 0, managed = 1;
	void *host = NULL;

	CHECK_CU(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 8));
	CHECK_CU(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at + 8));
	CHECK_CU(CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at + 8));
	EXPECT(type == CU_MEMORYTYPE_HOST && !(managed & 0xff) && host == (void *)(at + 8));
	CHECK_CU(CU(cuMemGetAccess)(&flags, &access_desc[1].location, at));
	EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CHECK_CU(CU(cuMemRetainAllocationHandle)(&again, (void *)at));
	CHECK_CU(CU(cuMemGetAllocationPropertiesFromHandle)(&known, again));
	EXPECT(known.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA);
	CHECK_CU(CU(cuMemRelease)(again));
	EXPECT_CU(CUDA_ERROR_INVALID_VALUE, CU(cuMemFree)(at));
}

/* What the CPU has written last is in no page of the device yet. */
static void move(CUdeviceptr from, CUdeviceptr to)
{
	for (int i = 0; i < BLOCKS; i++) {
		for (size_t k = 0; k < WORDS; k++)
			at_block(from, i)[k] = k + 100 * i;
	}
	CHECK_CU(CU(cuMemUnmap)(from, BLOCKS * unit));
	for (int i = 0; i < BLOCKS; i++) {
		map_block(to, i);
		EXPECT(right(at_block(to, i), 100 * i) == WORDS);
		add<<<1, 128>>>(at_block(to, i), WORDS, 7);
	}
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < BLOCKS; i++)
		EXPECT(right(at_block(to, i), 100 * i + 7) == WORDS);
}

int main(void)
{
	CUdeviceptr first, second;

	CHECK(cudaFree(NULL));
	describe();
	CHECK_CU(CU(cuMemAddressReserve)(&first, BLOCKS * unit, 0, 0, 0));
	CHECK_CU(CU(cuMemAddressReserve)(&second, BLOCKS * unit, 0, 0, 0));
	grow(first);
	look(first);
	move(first, second);
	CHECK_CU(CU(cuMemUnmap)(second, BLOCKS * unit));
	for (int i = 0; i < BLOCKS; i++)
		CHECK_CU(CU(cuMemRelease)(handle[i]));
	CHECK_CU(CU(cuMemAddressFree)(first, BLOCKS * unit));
	CHECK_CU(CU(cuMemAddressFree)(second, BLOCKS * unit));
	printf("%d blocks of the host were used by both sides, at two places\n", BLOCKS);
	return 0;
}
