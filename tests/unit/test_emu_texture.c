/*
 * tests/unit/test_emu_texture.c - arrays, mipmapped arrays, texture and surface objects and
 * references of the emulated driver: what is refused, and what goes with what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu/core/emu.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define bad(call) assert_int_equal(call, CUDA_ERROR_INVALID_VALUE)
#define gone(call) assert_int_equal(call, CUDA_ERROR_INVALID_HANDLE)

static const char kernels[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			      ".global .texref picture;\n"
			      ".visible .entry look(.param .u64 out)\n"
			      "{\n"
			      "	.reg .b64 %rd<2>;\n"
			      "	.reg .b32 %r<2>;\n"
			      "	.reg .f32 %f<5>;\n"
			      "	ld.param.u64 %rd1, [out];\n"
			      "	tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [picture, {0}];\n"
			      "	st.global.f32 [%rd1], %f1;\n"
			      "	ret;\n"
			      "}\n";

static CUcontext context;

static int setup(void **state)
{
	(void)state;
	return cuInit(0) || cuCtxCreate_v2(&context, 0, 0);
}

static int teardown(void **state)
{
	(void)state;
	return cuCtxDestroy_v2(context) != CUDA_SUCCESS;
}

static size_t memory_used(void)
{
	size_t free, total;

	ok(cuMemGetInfo_v2(&free, &total));
	return total - free;
}

static CUDA_ARRAY3D_DESCRIPTOR described(size_t width, size_t height, size_t depth,
					 unsigned int flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
					 .Height = height,
					 .Depth = depth,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 1,
					 .Flags = flags};
}

static CUarray made(size_t width, size_t height, size_t depth, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = described(width, height, depth, flags);
	CUarray array = NULL;

	ok(cuArray3DCreate_v2(&array, &desc));
	return array;
}

static void an_arrays_memory_comes_and_goes_with_it(void **state)
{
	size_t before = memory_used();
	CUarray array = made(100, 50, 4, 0);

	(void)state;
	assert_true(memory_used() >= before + 100 * 50 * 4 * 4);
	ok(cuArrayDestroy(array));
	assert_int_equal(memory_used(), before);
	gone(cuArrayDestroy(array));
	gone(cuArrayDestroy(NULL));
}

static void extents_are_those_that_the_device_has(void **state)
{
	static const struct {
		size_t width, height, depth;
		unsigned int flags;
		CUresult result;
	} rows[] = {
		{0, 0, 0, 0, CUDA_ERROR_INVALID_VALUE},
		{131072, 0, 0, 0, CUDA_SUCCESS},
		{131073, 0, 0, 0, CUDA_ERROR_INVALID_VALUE},
		{32768, 0, 0, CUDA_ARRAY3D_SURFACE_LDST, CUDA_SUCCESS},
		{32769, 0, 0, CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE},
		{4, 65537, 0, 0, CUDA_ERROR_INVALID_VALUE},
		{4, 0, 4, 0, CUDA_ERROR_INVALID_VALUE},
		{4, 0, 2048, CUDA_ARRAY3D_LAYERED, CUDA_SUCCESS},
		{4, 0, 2049, CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 0, CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 32768, 0, CUDA_SUCCESS},
		{16384, 4, 32768, 0, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 6, CUDA_ARRAY3D_CUBEMAP, CUDA_SUCCESS},
		{4, 5, 6, CUDA_ARRAY3D_CUBEMAP, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 12, CUDA_ARRAY3D_CUBEMAP, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, CUDA_SUCCESS},
		{4, 4, 0, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_SUCCESS},
		{4, 4, 4, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 0, 0x8000, CUDA_ERROR_INVALID_VALUE},
		{4, 4, 0, CUDA_ARRAY3D_SPARSE, CUDA_ERROR_NOT_SUPPORTED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR desc =
			described(rows[i].width, rows[i].height, rows[i].depth, rows[i].flags);
		CUarray array;
		CUresult result = cuArray3DCreate_v2(&array, &desc);

		if (result != rows[i].result)
			fail_msg("row %zu: %d", i, (int)result);
		if (result == CUDA_SUCCESS)
			ok(cuArrayDestroy(array));
	}
}

static void a_descriptor_without_elements_is_refused(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = described(4, 4, 0, 0);
	CUarray array;

	(void)state;
	desc.NumChannels = 3;
	bad(cuArray3DCreate_v2(&array, &desc));
	desc.NumChannels = 1;
	desc.Format = (CUarray_format)7;
	bad(cuArray3DCreate_v2(&array, &desc));
	bad(cuArray3DCreate_v2(&array, NULL));
	bad(cuArray3DCreate_v2(NULL, &desc));
}

static void copies_keep_to_the_extents(void **state)
{
	CUarray array = made(8, 4, 2, 0);
	float host[64];
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = array,
			   .WidthInBytes = 32,
			   .Height = 4,
			   .Depth = 2};

	(void)state;
	memset(host, 0, sizeof(host));
	ok(cuMemcpy3D_v2(&c));
	c.dstZ = 1;
	bad(cuMemcpy3D_v2(&c));
	c.dstZ = 0;
	c.dstXInBytes = 4;
	bad(cuMemcpy3D_v2(&c));
	c.dstXInBytes = 2; /* no whole element */
	c.WidthInBytes = 4;
	bad(cuMemcpy3D_v2(&c));
	c.dstXInBytes = (size_t)-4;
	bad(cuMemcpy3D_v2(&c));
	c.dstXInBytes = 0;
	c.WidthInBytes = 6;
	bad(cuMemcpy3D_v2(&c));
	c.WidthInBytes = 4;
	c.dstArray = (CUarray)&c;
	gone(cuMemcpy3D_v2(&c));
	bad(cuMemcpyHtoA_v2(array, 32, host, 4));
	ok(cuMemcpyHtoA_v2(array, 28, host, 4));
	ok(cuArrayDestroy(array));
	gone(cuMemcpyHtoA_v2(array, 0, host, 4));
}

static void a_level_goes_with_its_mipmapped_array(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = described(8, 2, 0, 0), told;
	CUmipmappedArray mipmap;
	CUarray level;

	(void)state;
	bad(cuMipmappedArrayCreate(&mipmap, &desc, 0));
	ok(cuMipmappedArrayCreate(&mipmap, &desc, 100)); /* as many as there can be */
	ok(cuMipmappedArrayGetLevel(&level, mipmap, 3));
	ok(cuArray3DGetDescriptor_v2(&told, level));
	assert_int_equal(told.Width, 1);
	assert_int_equal(told.Height, 1);
	bad(cuMipmappedArrayGetLevel(&level, mipmap, 4));
	bad(cuArrayDestroy(level));
	ok(cuMipmappedArrayDestroy(mipmap));
	gone(cuArray3DGetDescriptor_v2(&told, level));
	gone(cuMipmappedArrayDestroy(mipmap));
	gone(cuMipmappedArrayGetLevel(&level, mipmap, 0));
}

static CUDA_RESOURCE_DESC showing(CUarray array)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};

	resource.res.array.hArray = array;
	return resource;
}

static void objects_are_told_apart_and_checked(void **state)
{
	CUarray plain = made(8, 0, 0, 0), drawable = made(8, 0, 0, CUDA_ARRAY3D_SURFACE_LDST);
	CUDA_RESOURCE_DESC resource = showing(drawable), told;
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_4X8, .width = 8};
	CUDA_TEXTURE_DESC desc = {.filterMode = CU_TR_FILTER_MODE_LINEAR};
	CUtexObject texture, other;
	CUsurfObject surface;

	(void)state;
	ok(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	ok(cuTexObjectCreate(&other, &resource, &desc, &view));
	ok(cuSurfObjectCreate(&surface, &resource));
	ok(cuTexObjectGetResourceDesc(&told, texture));
	assert_ptr_equal(told.res.array.hArray, drawable);
	bad(cuTexObjectGetResourceViewDesc(&view, texture));
	ok(cuTexObjectGetResourceViewDesc(&view, other));
	bad(cuTexObjectGetResourceDesc(&told, surface));
	bad(cuSurfObjectGetResourceDesc(&told, texture));
	bad(cuSurfObjectDestroy(texture));
	ok(cuTexObjectDestroy(texture));
	ok(cuTexObjectDestroy(other));
	bad(cuTexObjectDestroy(texture));
	ok(cuTexObjectDestroy(0));
	ok(cuSurfObjectDestroy(0));
	ok(cuSurfObjectDestroy(surface));
	view.format = CU_RES_VIEW_FORMAT_UINT_4X16; /* of another size */
	bad(cuTexObjectCreate(&texture, &resource, &desc, &view));
	view.format = CU_RES_VIEW_FORMAT_NONE;
	view.lastLayer = 1;
	bad(cuTexObjectCreate(&texture, &resource, &desc, &view));
	desc.addressMode[2] = (CUaddress_mode)4;
	bad(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	resource = showing(plain);
	resource.resType = (CUresourcetype)9;
	bad(cuSurfObjectCreate(&surface, &resource));
	resource = showing((CUarray)&resource);
	gone(cuSurfObjectCreate(&surface, &resource));
	ok(cuArrayDestroy(plain));
	ok(cuArrayDestroy(drawable));
}

static void an_object_keeps_its_array(void **state)
{
	size_t before = memory_used();
	CUarray array = made(8, 0, 0, 0);
	CUDA_RESOURCE_DESC resource = showing(array);
	CUDA_TEXTURE_DESC desc = {0};
	CUtexObject texture;

	(void)state;
	ok(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	ok(cuArrayDestroy(array));
	assert_true(memory_used() > before);
	ok(cuTexObjectDestroy(texture));
	assert_int_equal(memory_used(), before);
}

static void linear_memory_must_be_there_and_aligned(void **state)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUDA_TEXTURE_DESC desc = {0};
	CUtexObject texture;
	CUdeviceptr memory;

	(void)state;
	ok(cuMemAlloc_v2(&memory, 4096));
	resource.res.linear.devPtr = memory;
	resource.res.linear.format = CU_AD_FORMAT_FLOAT;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = 4096;
	ok(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	ok(cuTexObjectDestroy(texture));
	resource.res.linear.sizeInBytes = 4097 + 512;
	bad(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	resource.res.linear.sizeInBytes = 16;
	resource.res.linear.devPtr = memory + 4;
	bad(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	resource.res.linear.devPtr = (CUdeviceptr)(uintptr_t)kernels & ~511ull;
	bad(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	ok(cuMemFree_v2(memory));
}

static void a_reference_shows_what_it_was_bound_to_last(void **state)
{
	CUarray first = made(4, 0, 0, 0), second = made(4, 0, 0, 0);
	float one = 1.0f, two = 2.0f, got = 0;
	CUtexref texture, same;
	CUfunction look;
	CUmodule module;
	CUdeviceptr out;
	void *params[] = {&out};

	(void)state;
	ok(cuMemAlloc_v2(&out, 4));
	ok(cuMemcpyHtoA_v2(first, 0, &one, 4));
	ok(cuMemcpyHtoA_v2(second, 0, &two, 4));
	ok(cuModuleLoadData(&module, kernels));
	ok(cuModuleGetFunction(&look, module, "look"));
	ok(cuModuleGetTexRef(&texture, module, "picture"));
	ok(cuModuleGetTexRef(&same, module, "picture"));
	assert_ptr_equal(texture, same);
	ok(cuTexRefSetArray(texture, first, CU_TRSA_OVERRIDE_FORMAT));
	ok(cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuTexRefSetArray(texture, second, CU_TRSA_OVERRIDE_FORMAT));
	ok(cuMemcpyDtoH_v2(&got, out, 4));
	assert_float_equal(got, 1, 0);
	ok(cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuMemcpyDtoH_v2(&got, out, 4));
	assert_float_equal(got, 2, 0);
	bad(cuTexRefDestroy(texture));
	ok(cuModuleUnload(module));
	gone(cuTexRefSetFlags(texture, 0));
	ok(cuMemFree_v2(out));
	ok(cuArrayDestroy(first));
	ok(cuArrayDestroy(second));
}

static void a_reference_of_ones_own_has_the_same_settings(void **state)
{
	float color[4] = {1, 2, 3, 4}, told[4], low, high;
	CUarray_format format;
	CUfilter_mode filter;
	CUtexref texture;
	CUarray array;
	int channels;

	(void)state;
	ok(cuTexRefCreate(&texture));
	bad(cuTexRefGetArray(&array, texture));
	ok(cuTexRefSetFormat(texture, CU_AD_FORMAT_HALF, 2));
	bad(cuTexRefSetFormat(texture, CU_AD_FORMAT_HALF, 3));
	ok(cuTexRefGetFormat(&format, &channels, texture));
	assert_int_equal(format, CU_AD_FORMAT_HALF);
	assert_int_equal(channels, 2);
	ok(cuTexRefSetMipmapLevelClamp(texture, 0.5f, 3));
	ok(cuTexRefGetMipmapLevelClamp(&low, &high, texture));
	assert_float_equal(low, 0.5f, 0);
	assert_float_equal(high, 3, 0);
	ok(cuTexRefSetMipmapFilterMode(texture, CU_TR_FILTER_MODE_LINEAR));
	ok(cuTexRefGetMipmapFilterMode(&filter, texture));
	assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
	ok(cuTexRefSetBorderColor(texture, color));
	ok(cuTexRefGetBorderColor(told, texture));
	assert_memory_equal(told, color, sizeof(color));
	bad(cuTexRefSetAddressMode(texture, 3, CU_TR_ADDRESS_MODE_WRAP));
	gone(cuTexRefSetArray(texture, (CUarray)&array, CU_TRSA_OVERRIDE_FORMAT));
	ok(cuTexRefDestroy(texture));
	gone(cuTexRefDestroy(texture));
}

static void a_reference_goes_with_the_library_of_its_module(void **state)
{
	CUaddress_mode mode;
	CUlibrary library;
	CUmodule module;
	CUtexref ref;

	(void)state;
	ok(cuLibraryLoadData(&library, kernels, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetModule(&module, library));
	ok(cuModuleGetTexRef(&ref, module, "picture"));
	ok(cuTexRefGetAddressMode(&mode, ref, 0));
	ok(cuLibraryUnload(library));
	gone(cuTexRefGetAddressMode(&mode, ref, 0));
}

static void all_of_it_goes_with_the_context(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = described(8, 8, 0, 0);
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture_desc = {0};
	size_t before = memory_used();
	CUmipmappedArray mipmap;
	CUtexObject texture;
	CUarray array, level;
	CUcontext other;
	CUmodule module;
	CUtexref ref;

	(void)state;
	ok(cuCtxCreate_v2(&other, 0, 0));
	array = made(8, 8, 0, 0);
	resource = showing(array);
	ok(cuTexObjectCreate(&texture, &resource, &texture_desc, NULL));
	ok(cuMipmappedArrayCreate(&mipmap, &desc, 2));
	ok(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	ok(cuModuleLoadData(&module, kernels));
	ok(cuModuleGetTexRef(&ref, module, "picture"));
	ok(cuTexRefSetArray(ref, array, CU_TRSA_OVERRIDE_FORMAT));
	ok(cuCtxDestroy_v2(other));
	ok(cuCtxSetCurrent(context));
	assert_int_equal(memory_used(), before);
	gone(cuArrayDestroy(array));
	gone(cuArray3DGetDescriptor_v2(&desc, level));
	gone(cuTexRefSetFlags(ref, 0));
	bad(cuTexObjectDestroy(texture));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_arrays_memory_comes_and_goes_with_it),
		cmocka_unit_test(extents_are_those_that_the_device_has),
		cmocka_unit_test(a_descriptor_without_elements_is_refused),
		cmocka_unit_test(copies_keep_to_the_extents),
		cmocka_unit_test(a_level_goes_with_its_mipmapped_array),
		cmocka_unit_test(objects_are_told_apart_and_checked),
		cmocka_unit_test(an_object_keeps_its_array),
		cmocka_unit_test(linear_memory_must_be_there_and_aligned),
		cmocka_unit_test(a_reference_shows_what_it_was_bound_to_last),
		cmocka_unit_test(a_reference_of_ones_own_has_the_same_settings),
		cmocka_unit_test(a_reference_goes_with_the_library_of_its_module),
		cmocka_unit_test(all_of_it_goes_with_the_context),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
