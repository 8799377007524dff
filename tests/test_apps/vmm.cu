/*
 * vmm.cu - virtual memory management through the driver's API: a range that grows, memory at two
 * addresses, access, sharing inside the process, and mistakes.
 */
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include "check.h"

#define CALLS(X)                                                                                  \
	X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap)     \
	X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAccess) X(cuMemGetAllocationGranularity)        \
	X(cuMemGetAllocationPropertiesFromHandle) X(cuMemRetainAllocationHandle)                  \
	X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)                         \
	X(cuPointerGetAttribute) X(cuMemGetAddressRange) X(cuGetErrorName) X(cuMemFree)           \
	X(cuMemcpyHtoD) X(cuMemcpyDtoH)

#define DECLARE(name) static decltype(&name) p_##name;
CALLS(DECLARE)

static void open_driver(void)
{
	cudaDriverEntryPointQueryResult found;

#define LOOK_UP(name)                                                                             \
	CHECK(cudaGetDriverEntryPointByVersion(#name, (void **)&p_##name, 12000,                  \
					       cudaEnableDefault, &found));                       \
	EXPECT(found == cudaDriverEntryPointSuccess);
	CALLS(LOOK_UP)
}

static const char *name_of(CUresult err)
{
	const char *name = "?";

	p_cuGetErrorName(err, &name);
	return name;
}

#define DRV(call) check_driver((call), #call, __LINE__)

static void check_driver(CUresult err, const char *call, int line)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "vmm.cu:%d: %s: %s\n", line, call, name_of(err));
	exit(1);
}

static CUmemAllocationProp prop;
static CUmemAccessDesc access_desc;
static size_t unit;

__global__ void fill(unsigned int *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = (unsigned int)i * 3;
}

static CUmemGenericAllocationHandle add(CUdeviceptr at, size_t size)
{
	CUmemGenericAllocationHandle handle;

	DRV(p_cuMemCreate(&handle, size, &prop, 0));
	DRV(p_cuMemMap(at, size, 0, handle, 0));
	DRV(p_cuMemSetAccess(at, size, &access_desc, 1));
	return handle;
}

/* As an allocator does whose segments expand: pieces side by side are one stretch of memory. */
static void growing(void)
{
	size_t words = 3 * unit / 4;
	std::vector<unsigned int> host(words);
	CUmemGenericAllocationHandle handles[3];
	CUdeviceptr base, start;
	size_t size;
	int bad = 0;

	DRV(p_cuMemAddressReserve(&base, (size_t)1 << 40, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		handles[i] = add(base + i * unit, unit);
	fill<<<(words + 255) / 256, 256>>>((unsigned int *)base, words);
	DRV(p_cuMemcpyDtoH(host.data(), base, words * 4));
	for (size_t i = 0; i < words; i++)
		bad += host[i] != (unsigned int)i * 3;
	printf("three pieces: %d wrong\n", bad);
	DRV(p_cuMemcpyHtoD(base + unit - 100, host.data(), 200));
	DRV(p_cuMemcpyDtoH(host.data() + 100, base + unit - 100, 200));
	EXPECT(host[100] == 0 && host[149] == 49 * 3);
	DRV(p_cuMemGetAddressRange(&start, &size, base + unit + 5));
	EXPECT(start == base + unit && size == unit);

	printf("beyond the last: %s\n", name_of(p_cuMemcpyDtoH(host.data(), base + 2 * unit,
							       unit + 4)));
	printf("mapped already: %s\n", name_of(p_cuMemMap(base, unit, 0, handles[1], 0)));
	printf("part of a piece: %s\n", name_of(p_cuMemUnmap(base, unit / 2)));
	printf("freed as if allocated: %s\n", name_of(p_cuMemFree(base)));
	printf("reservation in use: %s\n", name_of(p_cuMemAddressFree(base, (size_t)1 << 40)));
	DRV(p_cuMemUnmap(base + unit, unit));
	printf("unmapped: %s\n", name_of(p_cuMemcpyDtoH(host.data(), base + unit, 4)));
	printf("over the gap: %s\n", name_of(p_cuMemcpyDtoH(host.data(), base + unit - 4, 8)));
	DRV(p_cuMemUnmap(base, unit));
	DRV(p_cuMemUnmap(base + 2 * unit, unit));
	for (int i = 0; i < 3; i++)
		DRV(p_cuMemRelease(handles[i]));
	DRV(p_cuMemAddressFree(base, (size_t)1 << 40));
}

static void at_two_places(void)
{
	CUmemGenericAllocationHandle handle, again, imported;
	CUmemAllocationProp got;
	CUdeviceptr a, b;
	unsigned int word = 0x12345678, back = 0;
	int fd = -1;

	DRV(p_cuMemAddressReserve(&a, unit, 0, 0, 0));
	DRV(p_cuMemAddressReserve(&b, unit, unit, 0, 0));
	handle = add(a, unit);
	DRV(p_cuMemcpyHtoD(a + 64, &word, 4));
	DRV(p_cuMemGetAllocationPropertiesFromHandle(&got, handle));
	EXPECT(got.location.id == prop.location.id && got.type == prop.type);
	DRV(p_cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	EXPECT(fd >= 0);
	DRV(p_cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	DRV(p_cuMemRetainAllocationHandle(&again, (void *)(a + 100)));
	EXPECT(again == handle);
	DRV(p_cuMemRelease(handle));
	DRV(p_cuMemGetAllocationPropertiesFromHandle(&got, again));
	DRV(p_cuMemRelease(again));
	DRV(p_cuMemMap(b, unit, 0, imported, 0));
	DRV(p_cuMemSetAccess(b, unit, &access_desc, 1));
	DRV(p_cuMemcpyDtoH(&back, b + 64, 4));
	printf("at two places: %s\n", back == word ? "the same" : "another");
	DRV(p_cuMemUnmap(a, unit));
	DRV(p_cuMemcpyDtoH(&back, b + 64, 4));
	EXPECT(back == word);
	DRV(p_cuMemUnmap(b, unit));
	DRV(p_cuMemRelease(imported));
	/* not before: a driver may import the same memory as the same handle */
	EXPECT(p_cuMemRelease(again) == CUDA_ERROR_INVALID_VALUE);
	DRV(p_cuMemAddressFree(a, unit));
	DRV(p_cuMemAddressFree(b, unit));
	fd = open("/dev/null", 0);
	EXPECT(p_cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
	       CUDA_SUCCESS);
	close(fd);
}

static void access_is_needed(void)
{
	CUmemGenericAllocationHandle handle;
	unsigned long long flags = 7;
	unsigned int type = 0;
	CUdeviceptr at;
	char byte = 0;

	DRV(p_cuMemAddressReserve(&at, unit, 0, 0, 0));
	DRV(p_cuMemCreate(&handle, unit, &prop, 0));
	DRV(p_cuMemMap(at, unit, 0, handle, 0));
	DRV(p_cuMemGetAccess(&flags, &prop.location, at));
	EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
	if (driver_looks())
		EXPECT(p_cuMemcpyHtoD(at, &byte, 1) == CUDA_ERROR_INVALID_VALUE);
	DRV(p_cuMemSetAccess(at, unit, &access_desc, 1));
	DRV(p_cuMemGetAccess(&flags, &prop.location, at));
	EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	DRV(p_cuMemcpyHtoD(at, &byte, 1));
	DRV(p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 1));
	EXPECT(type == CU_MEMORYTYPE_DEVICE);
	CHECK(cudaDeviceSynchronize()); /* a copy so small may have returned before it is made */
	DRV(p_cuMemUnmap(at, unit));
	DRV(p_cuMemRelease(handle));
	DRV(p_cuMemAddressFree(at, unit));
	printf("freed twice: %s\n", name_of(p_cuMemAddressFree(at, unit)));
}

static void too_much(void)
{
	CUmemGenericAllocationHandle handle;
	size_t avail, total;

	CHECK(cudaMemGetInfo(&avail, &total));
	total = (total * 2 + unit - 1) / unit * unit;
	printf("too much: %s\n", name_of(p_cuMemCreate(&handle, total, &prop, 0)));
	printf("no multiple: %s\n", name_of(p_cuMemCreate(&handle, unit + 1, &prop, 0)));
}

int main(void)
{
	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(0));
	open_driver();
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	access_desc.location = prop.location;
	access_desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DRV(p_cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	EXPECT(unit > 0);
	growing();
	at_two_places();
	access_is_needed();
	too_much();
	CHECK(cudaDeviceSynchronize());
	return 0;
}
