/*
 * tests/test_apps/arrays.c - arrays, mipmapped arrays and texture references by the driver API, and
 * what wrong calls on them return.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/types.h"

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *))                            \
	X(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *))                        \
	X(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *, CUarray))                             \
	X(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *, CUarray))                         \
	X(cuArrayDestroy, (CUarray))                                                               \
	X(cuMipmappedArrayCreate,                                                                  \
	  (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int))                     \
	X(cuMipmappedArrayGetLevel, (CUarray *, CUmipmappedArray, unsigned int))                   \
	X(cuMipmappedArrayDestroy, (CUmipmappedArray))                                             \
	X(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *))                                                  \
	X(cuMemcpyHtoA_v2, (CUarray, size_t, const void *, size_t))                                \
	X(cuMemcpyAtoH_v2, (void *, CUarray, size_t, size_t))                                      \
	X(cuMemcpyAtoA_v2, (CUarray, size_t, CUarray, size_t, size_t))                             \
	X(cuMemcpyAtoD_v2, (CUdeviceptr, CUarray, size_t, size_t))                                 \
	X(cuMemcpyDtoA_v2, (CUarray, size_t, CUdeviceptr, size_t))                                 \
	X(cuMemcpyHtoAAsync_v2, (CUarray, size_t, const void *, size_t, CUstream))                 \
	X(cuMemcpyAtoHAsync_v2, (void *, CUarray, size_t, size_t, CUstream))                       \
	X(cuTexObjectCreate, (CUtexObject *, const CUDA_RESOURCE_DESC *,                           \
			      const CUDA_TEXTURE_DESC *, const CUDA_RESOURCE_VIEW_DESC *))         \
	X(cuTexObjectDestroy, (CUtexObject))                                                       \
	X(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC *, CUtexObject))                         \
	X(cuTexObjectGetResourceViewDesc, (CUDA_RESOURCE_VIEW_DESC *, CUtexObject))                \
	X(cuSurfObjectCreate, (CUsurfObject *, const CUDA_RESOURCE_DESC *))                        \
	X(cuSurfObjectDestroy, (CUsurfObject))                                                     \
	X(cuModuleGetTexRef, (CUtexref *, CUmodule, const char *))                                 \
	X(cuModuleGetSurfRef, (CUsurfref *, CUmodule, const char *))                               \
	X(cuTexRefSetArray, (CUtexref, CUarray, unsigned int))                                     \
	X(cuTexRefGetArray, (CUarray *, CUtexref))                                                 \
	X(cuTexRefSetAddress_v2, (size_t *, CUtexref, CUdeviceptr, size_t))                        \
	X(cuTexRefSetFormat, (CUtexref, CUarray_format, int))                                      \
	X(cuTexRefSetAddressMode, (CUtexref, int, CUaddress_mode))                                 \
	X(cuTexRefGetAddressMode, (CUaddress_mode *, CUtexref, int))                               \
	X(cuTexRefSetFilterMode, (CUtexref, CUfilter_mode))                                        \
	X(cuTexRefSetFlags, (CUtexref, unsigned int))                                              \
	X(cuTexRefGetFlags, (unsigned int *, CUtexref))                                            \
	X(cuTexRefSetBorderColor, (CUtexref, float *))                                             \
	X(cuTexRefGetBorderColor, (float *, CUtexref))                                             \
	X(cuSurfRefSetArray, (CUsurfref, CUarray, unsigned int))                                   \
	X(cuSurfRefGetArray, (CUarray *, CUsurfref))                                               \
	X(cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned int, CUstream))                          \
	X(cuArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES *, CUarray))                   \
	X(cuMemBatchDecompressAsync,                                                               \
	  (CUmemDecompressParams *, size_t, unsigned int, size_t *, CUstream))                     \
	X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                             \
	X(cuDeviceGetTexture1DLinearMaxWidth, (size_t *, CUarray_format, unsigned int, CUdevice))

#include "driver_api.h"

#define N 32

static const char ptx[] = ".version 7.0\n"
			  ".target sm_75\n"
			  ".address_size 64\n"
			  ".global .texref picture;\n"
			  ".global .surfref canvas;\n"
			  ".visible .entry look(.param .u64 out)\n"
			  "{\n"
			  "	.reg .b32 %r<4>;\n"
			  "	.reg .f32 %f<8>;\n"
			  "	.reg .b64 %rd<4>;\n"
			  "	ld.param.u64 %rd1, [out];\n"
			  "	cvta.to.global.u64 %rd1, %rd1;\n"
			  "	mov.u32 %r1, %tid.x;\n"
			  "	cvt.rn.f32.u32 %f1, %r1;\n"
			  "	tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [picture, {%f1}];\n"
			  "	mul.wide.u32 %rd2, %r1, 4;\n"
			  "	add.s64 %rd3, %rd1, %rd2;\n"
			  "	st.global.f32 [%rd3], %f2;\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry draw()\n"
			  "{\n"
			  "	.reg .b32 %r<4>;\n"
			  "	mov.u32 %r1, %tid.x;\n"
			  "	shl.b32 %r2, %r1, 2;\n"
			  "	sust.b.1d.b32.trap [canvas, {%r2}], {%r1};\n"
			  "	ret;\n"
			  "}\n";

#define CHECK(call) check((call), #call, __LINE__)

static void check(CUresult err, const char *call, int line)
{
	const char *name = "?";

	if (err == CUDA_SUCCESS)
		return;
	cu.cuGetErrorName(err, &name);
	fprintf(stderr, "arrays.c:%d: %s: %s\n", line, call, name);
	exit(1);
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect(int holds, const char *condition, int line)
{
	if (holds)
		return;
	fprintf(stderr, "arrays.c:%d: does not hold: %s\n", line, condition);
	exit(1);
}

/* A wrong call: refused for what it is, at once, and not for want of support. */
#define REFUSED(call) refused((call), #call, __LINE__)

static void refused(CUresult err, const char *call, int line)
{
	if (err == CUDA_ERROR_INVALID_VALUE || err == CUDA_ERROR_INVALID_HANDLE)
		return;
	fprintf(stderr, "arrays.c:%d: %s: %d\n", line, call, (int)err);
	exit(1);
}

static CUarray array_1d(unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = N, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = flags};
	CUarray array;

	CHECK(cu.cuArray3DCreate_v2(&array, &desc));
	return array;
}

static void descriptors(void)
{
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 10, .Height = 6, .Format = CU_AD_FORMAT_SIGNED_INT16, .NumChannels = 2};
	CUDA_ARRAY_DESCRIPTOR bad = desc, told;
	CUDA_ARRAY3D_DESCRIPTOR told3;
	CUarray array;

	CHECK(cu.cuArrayCreate_v2(&array, &desc));
	memset(&told, 0xff, sizeof(told));
	CHECK(cu.cuArrayGetDescriptor_v2(&told, array));
	EXPECT(told.Width == 10 && told.Height == 6 && told.NumChannels == 2 &&
	       told.Format == CU_AD_FORMAT_SIGNED_INT16);
	memset(&told3, 0xff, sizeof(told3));
	CHECK(cu.cuArray3DGetDescriptor_v2(&told3, array));
	EXPECT(told3.Width == 10 && told3.Depth == 0 && told3.Flags == 0);
	CHECK(cu.cuArrayDestroy(array));
	bad.NumChannels = 3;
	REFUSED(cu.cuArrayCreate_v2(&array, &bad));
	bad = desc;
	bad.Width = 0;
	REFUSED(cu.cuArrayCreate_v2(&array, &bad));
	bad.Width = (size_t)1 << 30;
	REFUSED(cu.cuArrayCreate_v2(&array, &bad));
	bad = desc;
	bad.Format = (CUarray_format)5;
	REFUSED(cu.cuArrayCreate_v2(&array, &bad));
	REFUSED(cu.cuArrayCreate_v2(&array, NULL));
	printf("descriptors\n");
}

static void rows(void)
{
	CUarray a = array_1d(0), b = array_1d(0);
	float host[N], back[N] = {0};
	CUdeviceptr memory;

	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	CHECK(cu.cuMemAlloc_v2(&memory, sizeof(host)));
	CHECK(cu.cuMemcpyHtoA_v2(a, 0, host, sizeof(host)));
	CHECK(cu.cuMemcpyAtoA_v2(b, 0, a, 0, sizeof(host)));
	CHECK(cu.cuMemcpyAtoD_v2(memory, b, 4 * 4, 16 * 4));
	CHECK(cu.cuMemcpyDtoA_v2(b, 0, memory, 16 * 4));
	CHECK(cu.cuMemcpyAtoH_v2(back, b, 0, sizeof(back)));
	for (int i = 0; i < N; i++)
		EXPECT(back[i] == (i < 16 ? host[i + 4] : host[i]));
	host[0] = 77.0f;
	CHECK(cu.cuMemcpyHtoAAsync_v2(b, 8, host, 4, NULL));
	CHECK(cu.cuMemcpyAtoHAsync_v2(back, b, 8, 4, NULL));
	CHECK(cu.cuCtxSynchronize());
	EXPECT(back[0] == 77.0f);
	REFUSED(cu.cuMemcpyHtoA_v2(a, 4, host, sizeof(host)));
	CHECK(cu.cuMemFree_v2(memory));
	CHECK(cu.cuArrayDestroy(a));
	CHECK(cu.cuArrayDestroy(b));
	printf("rows\n");
}

static void levels(void)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 16,
					.Height = 8,
					.Depth = 4,
					.Format = CU_AD_FORMAT_UNSIGNED_INT8,
					.NumChannels = 4};
	unsigned char host[8 * 4 * 2 * 4], back[sizeof(host)];
	CUmipmappedArray mipmap;
	CUarray level, again;
	CUDA_MEMCPY3D c;

	CHECK(cu.cuMipmappedArrayCreate(&mipmap, &desc, 3));
	CHECK(cu.cuMipmappedArrayGetLevel(&level, mipmap, 1));
	CHECK(cu.cuMipmappedArrayGetLevel(&again, mipmap, 1));
	EXPECT(level == again);
	CHECK(cu.cuArray3DGetDescriptor_v2(&desc, level));
	EXPECT(desc.Width == 8 && desc.Height == 4 && desc.Depth == 2);
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (unsigned char)(i * 7);
	c = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = host,
			    .srcPitch = 32,
			    .srcHeight = 4,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .dstArray = level,
			    .WidthInBytes = 32,
			    .Height = 4,
			    .Depth = 2};
	CHECK(cu.cuMemcpy3D_v2(&c));
	c = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			    .srcArray = level,
			    .dstMemoryType = CU_MEMORYTYPE_HOST,
			    .dstHost = back,
			    .dstPitch = 32,
			    .dstHeight = 4,
			    .WidthInBytes = 32,
			    .Height = 4,
			    .Depth = 2};
	CHECK(cu.cuMemcpy3D_v2(&c));
	EXPECT(memcmp(host, back, sizeof(host)) == 0);
	c.srcZ = 1;
	REFUSED(cu.cuMemcpy3D_v2(&c));
	REFUSED(cu.cuMipmappedArrayGetLevel(&again, mipmap, 3));
	CHECK(cu.cuMipmappedArrayDestroy(mipmap));
	printf("levels\n");
}

static void objects(void)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY}, told;
	CUDA_TEXTURE_DESC desc = {.maxAnisotropy = 1};
	CUarray plain = array_1d(0), drawable = array_1d(CUDA_ARRAY3D_SURFACE_LDST);
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_1X32, .width = N};
	CUtexObject texture, other;
	CUsurfObject surface;

	resource.res.array.hArray = plain;
	CHECK(cu.cuTexObjectCreate(&texture, &resource, &desc, NULL));
	CHECK(cu.cuTexObjectCreate(&other, &resource, &desc, &view));
	CHECK(cu.cuTexObjectGetResourceDesc(&told, texture));
	EXPECT(told.resType == CU_RESOURCE_TYPE_ARRAY && told.res.array.hArray == plain);
	memset(&view, 0, sizeof(view));
	CHECK(cu.cuTexObjectGetResourceViewDesc(&view, other));
	EXPECT(view.format == CU_RES_VIEW_FORMAT_UINT_1X32 && view.width == N);
	CHECK(cu.cuTexObjectDestroy(other));
	CHECK(cu.cuTexObjectDestroy(texture));
	REFUSED(cu.cuTexObjectCreate(&texture, NULL, &desc, NULL));
	REFUSED(cu.cuTexObjectCreate(&texture, &resource, NULL, NULL));
	resource.res.array.hArray = drawable;
	CHECK(cu.cuSurfObjectCreate(&surface, &resource));
	CHECK(cu.cuSurfObjectDestroy(surface));
	resource.resType = CU_RESOURCE_TYPE_LINEAR;
	REFUSED(cu.cuSurfObjectCreate(&surface, &resource));
	CHECK(cu.cuArrayDestroy(plain));
	CHECK(cu.cuArrayDestroy(drawable));
	printf("objects\n");
}

/* What @out holds when each of 32 threads has looked at its place. */
static void look(CUmodule module, CUdeviceptr out, float back[N])
{
	void *params[] = {&out};
	CUfunction function;

	CHECK(cu.cuModuleGetFunction(&function, module, "look"));
	CHECK(cu.cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
	CHECK(cu.cuMemcpyDtoH_v2(back, out, N * sizeof(float)));
}

static void references(void)
{
	float host[N], back[N], color[4] = {5, 6, 7, 8}, told[4] = {0};
	CUarray array = array_1d(0), canvas = array_1d(CUDA_ARRAY3D_SURFACE_LDST), bound;
	unsigned int drawn[N], flags;
	CUaddress_mode mode;
	CUfunction draw;
	CUsurfref surface;
	CUtexref texture;
	CUmodule module;
	CUdeviceptr out;

	CHECK(cu.cuModuleLoadData(&module, ptx));
	CHECK(cu.cuMemAlloc_v2(&out, sizeof(back)));
	CHECK(cu.cuModuleGetTexRef(&texture, module, "picture"));
	EXPECT(cu.cuModuleGetTexRef(&texture, module, "no_picture") == CUDA_ERROR_NOT_FOUND);
	CHECK(cu.cuModuleGetTexRef(&texture, module, "picture"));
	for (int i = 0; i < N; i++)
		host[i] = (float)(i * i);
	CHECK(cu.cuMemcpyHtoA_v2(array, 0, host, sizeof(host)));
	CHECK(cu.cuTexRefSetAddressMode(texture, 0, CU_TR_ADDRESS_MODE_CLAMP));
	CHECK(cu.cuTexRefSetFilterMode(texture, CU_TR_FILTER_MODE_POINT));
	CHECK(cu.cuTexRefSetArray(texture, array, CU_TRSA_OVERRIDE_FORMAT));
	look(module, out, back);
	EXPECT(memcmp(host, back, sizeof(host)) == 0);
	CHECK(cu.cuTexRefSetFilterMode(texture, CU_TR_FILTER_MODE_LINEAR));
	look(module, out, back);
	for (int i = 1; i < N; i++)
		EXPECT(back[i] == (host[i - 1] + host[i]) / 2);
	CHECK(cu.cuTexRefGetArray(&bound, texture));
	EXPECT(bound == array);
	CHECK(cu.cuTexRefGetAddressMode(&mode, texture, 0));
	EXPECT(mode == CU_TR_ADDRESS_MODE_CLAMP);
	CHECK(cu.cuTexRefSetFlags(texture, CU_TRSF_NORMALIZED_COORDINATES));
	CHECK(cu.cuTexRefGetFlags(&flags, texture));
	EXPECT(flags == CU_TRSF_NORMALIZED_COORDINATES);
	CHECK(cu.cuTexRefSetBorderColor(texture, color));
	CHECK(cu.cuTexRefGetBorderColor(told, texture));
	EXPECT(memcmp(color, told, sizeof(told)) == 0);

	CHECK(cu.cuModuleGetSurfRef(&surface, module, "canvas"));
	CHECK(cu.cuSurfRefSetArray(surface, canvas, 0));
	CHECK(cu.cuSurfRefGetArray(&bound, surface));
	EXPECT(bound == canvas);
	CHECK(cu.cuModuleGetFunction(&draw, module, "draw"));
	CHECK(cu.cuLaunchKernel(draw, 1, 1, 1, N, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cu.cuMemcpyAtoH_v2(drawn, canvas, 0, sizeof(drawn)));
	for (unsigned int i = 0; i < N; i++)
		EXPECT(drawn[i] == i);
	CHECK(cu.cuMemFree_v2(out));
	CHECK(cu.cuModuleUnload(module));
	CHECK(cu.cuArrayDestroy(array));
	CHECK(cu.cuArrayDestroy(canvas));
	printf("references\n");
}

/* Of memory behind arrays and of decompression, what the device says decides. */
static void engines(CUdevice dev)
{
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .memOperationType = CU_MEM_OPERATION_TYPE_UNMAP,
			      .deviceBitMask = 1};
	CUmemDecompressParams op = {.algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4};
	CUDA_ARRAY_SPARSE_PROPERTIES properties;
	int sparse = 0, deferred = 0, algorithms = 0;
	CUarray array = array_1d(0);
	CUresult err;

	REFUSED(cu.cuArrayGetSparseProperties(&properties, array));
	CHECK(cu.cuDeviceGetAttribute(&sparse, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
				      dev));
	CHECK(cu.cuDeviceGetAttribute(
		&deferred, CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, dev));
	CHECK(cu.cuDeviceGetAttribute(&algorithms,
				      CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, dev));
	map.resource.array = array; /* which has memory */
	err = cu.cuMemMapArrayAsync(&map, 1, NULL);
	if (sparse || deferred || err != CUDA_ERROR_NOT_SUPPORTED)
		REFUSED(err);
	err = cu.cuMemBatchDecompressAsync(&op, 1, 0, NULL, NULL); /* of nothing */
	if (algorithms || err != CUDA_ERROR_NOT_SUPPORTED)
		REFUSED(err);
	CHECK(cu.cuArrayDestroy(array));
}

int main(void)
{
	size_t most = 0;
	CUcontext ctx;
	CUdevice dev;

	if (driver_open() < 0)
		return 1;
	CHECK(cu.cuInit(0));
	CHECK(cu.cuDeviceGet(&dev, 0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cu.cuCtxSetCurrent(ctx));
	CHECK(cu.cuDeviceGetTexture1DLinearMaxWidth(&most, CU_AD_FORMAT_FLOAT, 4, dev));
	EXPECT(most >= 1 << 20);
	descriptors();
	rows();
	levels();
	objects();
	references();
	engines(dev);
	CHECK(cu.cuDevicePrimaryCtxRelease_v2(dev));
	return 0;
}
