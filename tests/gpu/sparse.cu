/*
 * tests/gpu/sparse.cu - an array without memory, of which some tiles get some: what is written
 * there is read again, and a tile that gave its memory back refuses nothing and keeps nothing.
 */
#include <dlfcn.h>

#include <cuda.h>

#include "check.h"

#define DRIVER(call) reinterpret_cast<decltype(&call)>(dlsym(library, #call))
#define DONE(call)                                                       \
	do {                                                             \
		CUresult err_ = (call);                                  \
		if (err_) {                                              \
			fprintf(stderr, "%s: %d\n", #call, (int)err_);   \
			exit(1);                                         \
		}                                                        \
	} while (0)

static void *library;

/* TILE x TILE elements at (X, Y) of ARRAY get HANDLE's memory from OFFSET on; without a handle
 * theirs is taken. */
static CUresult map(CUarray array, CUDA_ARRAY_SPARSE_PROPERTIES p, unsigned x, unsigned y,
		    CUmemGenericAllocationHandle handle, size_t offset)
{
	CUarrayMapInfo info = {};

	info.resourceType = CU_RESOURCE_TYPE_ARRAY;
	info.resource.array = array;
	info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	info.subresource.sparseLevel.offsetX = x * p.tileExtent.width;
	info.subresource.sparseLevel.offsetY = y * p.tileExtent.height;
	info.subresource.sparseLevel.extentWidth = p.tileExtent.width;
	info.subresource.sparseLevel.extentHeight = p.tileExtent.height;
	info.subresource.sparseLevel.extentDepth = 1;
	info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
	info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	info.memHandle.memHandle = handle;
	info.offset = offset;
	info.deviceBitMask = 1;
	return DRIVER(cuMemMapArrayAsync)(&info, 1, nullptr);
}

/* Copies a tile of floats between HOST and (X, Y) of ARRAY. */
static void copy(CUarray array, CUDA_ARRAY_SPARSE_PROPERTIES p, unsigned x, unsigned y, float *host, bool up)
{
	CUDA_MEMCPY2D c = {};
	size_t pitch = p.tileExtent.width * sizeof(float);

	c.srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
	c.dstMemoryType = up ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
	c.srcHost = c.dstHost = host;
	c.srcArray = c.dstArray = array;
	(up ? c.srcPitch : c.dstPitch) = pitch;
	(up ? c.dstXInBytes : c.srcXInBytes) = x * pitch;
	(up ? c.dstY : c.srcY) = (size_t)y * p.tileExtent.height;
	c.WidthInBytes = pitch;
	c.Height = p.tileExtent.height;
	DONE(DRIVER(cuMemcpy2D_v2)(&c));
}

int main()
{
	CUDA_ARRAY3D_DESCRIPTOR form = {};
	CUDA_ARRAY_SPARSE_PROPERTIES p = {};
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle memory;
	size_t granularity;
	CUarray array;
	int can = 0;

	CHECK(cudaFree(0)); /* the primary context */
	library = dlopen("libcuda.so.1", RTLD_NOW);
	DONE(DRIVER(cuDeviceGetAttribute)(&can, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 0));
	printf("sparse arrays: %d\n", can);
	if (!can)
		return 0;
	form.Width = form.Height = 1024;
	form.Format = CU_AD_FORMAT_FLOAT;
	form.NumChannels = 1;
	form.Flags = CUDA_ARRAY3D_SPARSE;
	DONE(DRIVER(cuArray3DCreate_v2)(&array, &form));
	DONE(DRIVER(cuArrayGetSparseProperties)(&p, array));
	printf("tiles of %u x %u x %u, tail from level %u, %llu bytes, flags %u\n", p.tileExtent.width,
	       p.tileExtent.height, p.tileExtent.depth, p.miptailFirstLevel, p.miptailSize, p.flags);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	DONE(DRIVER(cuMemGetAllocationGranularity)(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	DONE(DRIVER(cuMemCreate)(&memory, granularity, &prop, 0));

	size_t tile = (size_t)p.tileExtent.width * p.tileExtent.height, bytes = tile * sizeof(float);
	float *in = (float *)malloc(bytes), *out = (float *)malloc(bytes);

	for (unsigned t = 0; t < 2; t++) {
		for (size_t i = 0; i < tile; i++)
			in[i] = (float)(i + t * tile);
		DONE(map(array, p, t, t + 1, memory, t * bytes));
		copy(array, p, t, t + 1, in, true);
		copy(array, p, t, t + 1, out, false);
		printf("tile %u: %s\n", t, memcmp(in, out, bytes) ? "other bytes" : "the same bytes");
	}
	copy(array, p, 0, 1, out, false);
	printf("the first still ends with %.0f\n", out[tile - 1]);
	/* the first tile's memory a second time: two places, one memory */
	DONE(map(array, p, 2, 0, memory, 0));
	copy(array, p, 2, 0, out, false);
	printf("at its second place too: %.0f\n", out[tile - 1]);
	printf("offset beyond: %d\n", map(array, p, 3, 0, memory, granularity));
	printf("half a tile: %d\n", map(array, p, 3, 0, memory, bytes / 2));
	for (unsigned t = 0; t < 2; t++)
		DONE(map(array, p, t, t + 1, 0, 0));
	DONE(map(array, p, 2, 0, 0, 0));
	CHECK(cudaDeviceSynchronize());
	DONE(DRIVER(cuArrayDestroy)(array));
	DONE(DRIVER(cuMemRelease)(memory));
	free(in);
	free(out);
	printf("ended\n");
	return 0;
}
