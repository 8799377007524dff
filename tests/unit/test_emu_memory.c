/*
 * tests/unit/test_emu_memory.c - memory of the emulated driver: allocating, copies and fills,
 * pointers, managed memory.
 */
#include "tests/unit/emu_fixture.h"

/* --- memory and copies --- */

static void alloc_of_nothing_is_refused_and_leaves_the_output(void **state)
{
	CUdeviceptr p = 42;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(p, 42);
}

static void memory_is_accounted_and_runs_out(void **state)
{
	size_t before, after, total;
	CUdeviceptr p, q;

	(void)state;
	ok(cuMemGetInfo_v2(&before, &total));
	assert_int_equal(total, MEMORY);
	ok(cuMemAlloc_v2(&p, 40ul << 20));
	assert_int_equal(p % 256, 0);
	ok(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(before - after, 40ul << 20);
	assert_int_equal(cuMemAlloc_v2(&q, 40ul << 20), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAlloc_v2(&q, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFree_v2(p));
	ok(cuMemAlloc_v2(&q, 40ul << 20));
	ok(cuMemFree_v2(q));
	ok(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(before, after);
}

static void gaps_between_allocations_are_used_again(void **state)
{
	CUdeviceptr p[64], q;

	(void)state;
	for (int i = 0; i < 64; i++)
		ok(cuMemAlloc_v2(&p[i], 1000 + (size_t)i));
	for (int round = 0; round < 2000; round++) {
		int i = round * 7 % 64;

		ok(cuMemFree_v2(p[i]));
		ok(cuMemAlloc_v2(&p[i], 100000));
	}
	ok(cuMemAlloc_v2(&q, 40ul << 20));
	ok(cuMemFree_v2(q));
	for (int i = 0; i < 64; i++)
		ok(cuMemFree_v2(p[i]));
}

static void large_pieces_begin_at_pages_of_2_mib(void **state)
{
	CUdeviceptr small, large[2], between;

	(void)state;
	ok(cuMemAlloc_v2(&small, 700));
	ok(cuMemAlloc_v2(&large[0], 1 << 20));
	ok(cuMemAlloc_v2(&between, 700));
	ok(cuMemAlloc_v2(&large[1], (3 << 20) + 1));
	assert_int_equal(large[0] % (2 << 20), 0);
	assert_int_equal(large[1] % (2 << 20), 0);
	ok(cuMemFree_v2(large[1]));
	ok(cuMemFree_v2(between));
	ok(cuMemFree_v2(large[0]));
	ok(cuMemFree_v2(small));
}

static void pages_go_back_when_their_last_allocation_is_freed(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	ok(cuMemAlloc_v2(&p, 700));
	ok(cuMemAlloc_v2(&q, 700));
	assert_int_equal(p / 4096, q / 4096);
	*(volatile char *)p = 1;
	*(volatile char *)q = 2;
	ok(cuMemFree_v2(p));
	assert_int_equal(*(volatile char *)q, 2);
	ok(cuMemFree_v2(q));
	/* the addresses stay mapped, and a page that has gone back reads as zero */
	assert_int_equal(*(volatile char *)p, 0);
	assert_int_equal(*(volatile char *)q, 0);
}

static void freeing_what_was_not_allocated_is_refused(void **state)
{
	CUdeviceptr p;

	(void)state;
	ok(cuMemFree_v2(0));
	ok(cuMemAlloc_v2(&p, 4096));
	assert_int_equal(cuMemFree_v2(p + 256), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

static void a_copy_comes_back_as_it_went(void **state)
{
	char out[5000], back[5000];
	CUdeviceptr p, q;

	(void)state;
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7);
	ok(cuMemAlloc_v2(&p, sizeof(out)));
	ok(cuMemAlloc_v2(&q, sizeof(out)));
	ok(cuMemcpyHtoD_v2(p, out, sizeof(out)));
	ok(cuMemcpyDtoD_v2(q, p, sizeof(out)));
	ok(cuMemcpyDtoH_v2(back, q, sizeof(out)));
	assert_memory_equal(out, back, sizeof(out));
	memset(back, 0, sizeof(back));
	ok(cuMemcpy((CUdeviceptr)back, p, sizeof(out)));
	assert_memory_equal(out, back, sizeof(out));
	ok(cuMemFree_v2(p));
	ok(cuMemFree_v2(q));
}

static void a_copy_past_the_end_is_refused_and_moves_nothing(void **state)
{
	char bytes[512] = "kept";
	CUdeviceptr p, end;

	(void)state;
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuMemsetD8_v2(p, 1, 100));
	assert_int_equal(cuMemcpyHtoD_v2(p, bytes, 101), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(bytes, p + 50, 51), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(bytes, p, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(bytes, 0x1000, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH_v2(NULL, p, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD_v2((CUdeviceptr)bytes, bytes, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(p, 1, 26), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD2D8_v2(p, 30, 1, 10, 5), CUDA_ERROR_INVALID_VALUE);
	assert_string_equal(bytes, "kept");
	ok(cuMemGetAddressRange_v2(&end, NULL, p + 99));
	assert_int_equal(end, p);
	assert_int_equal(cuMemGetAddressRange_v2(&end, NULL, p + 100), CUDA_ERROR_NOT_FOUND);
	ok(cuMemFree_v2(p));
}

static void memset_fills_elements_of_each_width(void **state)
{
	uint32_t words[4];
	uint16_t halves[8];
	CUdeviceptr p;

	(void)state;
	ok(cuMemAlloc_v2(&p, 16));
	ok(cuMemsetD32_v2(p, 0x01020304, 4));
	ok(cuMemcpyDtoH_v2(words, p, 16));
	assert_int_equal(words[3], 0x01020304);
	ok(cuMemsetD16Async(p, 0xabcd, 7, NULL));
	ok(cuMemcpyDtoH_v2(halves, p, 16));
	assert_int_equal(halves[6], 0xabcd);
	assert_int_equal(halves[7], 0x0102);
	ok(cuMemsetD2D8_v2(p, 8, 0xff, 2, 2));
	ok(cuMemcpyDtoH_v2(halves, p, 16));
	assert_int_equal(halves[0], 0xffff);
	assert_int_equal(halves[1], 0xabcd);
	assert_int_equal(halves[4], 0xffff);
	ok(cuMemFree_v2(p));
}

static void a_2d_copy_moves_the_rectangle_only(void **state)
{
	char host[4][8], back[4][8];
	CUDA_MEMCPY2D copy = {0};
	CUdeviceptr p;
	size_t pitch;

	(void)state;
	memset(host, 'a', sizeof(host));
	memset(back, '.', sizeof(back));
	ok(cuMemAllocPitch_v2(&p, &pitch, 8, 4, 4));
	assert_int_equal(pitch % 512, 0);
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = host;
	copy.srcPitch = 8;
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = p;
	copy.dstPitch = pitch;
	copy.WidthInBytes = 8;
	copy.Height = 4;
	ok(cuMemcpy2D_v2(&copy));
	copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			       .srcDevice = p,
			       .srcPitch = pitch,
			       .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = back,
			       .dstPitch = 8,
			       .dstXInBytes = 2,
			       .dstY = 1,
			       .WidthInBytes = 3,
			       .Height = 2};
	ok(cuMemcpy2DAsync_v2(&copy, NULL));
	ok(cuCtxSynchronize());
	assert_memory_equal(back[0], "........", 8);
	assert_memory_equal(back[1], "..aaa...", 8);
	assert_memory_equal(back[2], "..aaa...", 8);
	assert_memory_equal(back[3], "........", 8);
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_HANDLE);
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcPitch = 2;
	assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	copy.srcPitch = pitch;
	copy.Height = 5;
	assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
}

static void a_3d_copy_steps_over_slices(void **state)
{
	char host[2][3][4], back[2][3][4];
	CUDA_MEMCPY3D copy = {0};
	CUdeviceptr p;

	(void)state;
	memset(back, '.', sizeof(back));
	for (size_t i = 0; i < sizeof(host); i++)
		((char *)host)[i] = (char)('a' + i);
	ok(cuMemAlloc_v2(&p, sizeof(host)));
	ok(cuMemcpyHtoD_v2(p, host, sizeof(host)));
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = p;
	copy.srcPitch = copy.dstPitch = 4;
	copy.srcHeight = copy.dstHeight = 3;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = back;
	copy.srcXInBytes = copy.dstXInBytes = 1;
	copy.srcY = copy.dstY = 1;
	copy.WidthInBytes = 2;
	copy.Height = 2;
	copy.Depth = 2;
	ok(cuMemcpy3D_v2(&copy));
	assert_memory_equal(back[0][0], "....", 4);
	assert_memory_equal(back[0][1], ".fg.", 4);
	assert_memory_equal(back[1][2], ".vw.", 4);
	copy.srcZ = 1;
	assert_int_equal(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
}

static void registered_memory_overlaps_nothing_and_is_its_own_device_pointer(void **state)
{
	static char bytes[8192];
	unsigned int flags;
	CUdeviceptr p;
	void *pinned;

	(void)state;
	ok(cuMemHostRegister_v2(bytes, 4096, 0));
	assert_int_equal(cuMemHostRegister_v2(bytes + 4000, 4096, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ok(cuMemHostGetDevicePointer_v2(&p, bytes + 10, 0));
	assert_int_equal(p, (CUdeviceptr)(bytes + 10));
	ok(cuMemHostUnregister(bytes));
	assert_int_equal(cuMemHostUnregister(bytes), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ok(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
	ok(cuMemHostGetFlags(&flags, pinned));
	assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
	assert_int_equal(cuMemHostUnregister(pinned), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeHost(pinned));
	assert_int_equal(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeHost(NULL)); /* as free() */
	assert_int_equal(cuMemHostRegister_v2((void *)0x1000, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostRegister_v2(bytes, SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_pointer_tells_its_owner_and_kind(void **state)
{
	CUpointer_attribute which[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned int type = 99;
	int ordinal = 99;
	void *data[2] = {&type, &ordinal};
	CUcontext context;
	CUdeviceptr p;
	size_t size;

	ok(cuMemAlloc_v2(&p, 300));
	ok(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p + 1));
	assert_ptr_equal(context, *state);
	ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 1));
	assert_int_equal(size, 300);
	ok(cuPointerGetAttributes(2, which, data, p));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_equal(ordinal, 0);
	ok(cuPointerGetAttributes(2, which, data, (CUdeviceptr)&size));
	assert_int_equal(type, 0);
	assert_int_equal(ordinal, -2);
	assert_int_equal(cuPointerGetAttribute(&type, which[0], (CUdeviceptr)&size),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
}

/* --- managed memory --- */

static const char managed_text[] =
	EMU_PTX_HEAD ".visible .global .align 4 .u32 plain = 1;\n"
		     ".visible .global .attribute(.managed) .align 4 .u32 shared = 7;\n"
		     ".visible .entry grow()\n"
		     "{\n"
		     "	.reg .b32 %r<3>;\n"
		     "	ld.global.u32 %r1, [shared];\n"
		     "	add.u32 %r1, %r1, 1;\n"
		     "	st.global.u32 [shared], %r1;\n"
		     "	ret;\n"
		     "}\n";

static void a_managed_variable_is_the_same_in_all_contexts(void **state)
{
	CUcontext context, other;
	CUdeviceptr at, again, plain;
	CUlibrary library;
	CUkernel grow;
	size_t size;

	/* the runtime asks before there is a context */
	ok(cuCtxPopCurrent_v2(&context));
	ok(cuLibraryLoadData(&library, managed_text, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetManaged(&at, &size, library, "shared"));
	assert_int_equal(size, 4);
	assert_int_equal(*(uint32_t *)at, 7);
	assert_int_equal(cuLibraryGetManaged(&again, NULL, library, "plain"), CUDA_ERROR_NOT_FOUND);
	ok(cuLibraryGetKernel(&grow, library, "grow"));
	ok(cuCtxPushCurrent_v2(context));
	ok(cuLaunchKernel((CUfunction)grow, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuCtxSynchronize());
	ok(cuCtxCreate_v2(&other, 0, 1));
	ok(cuLaunchKernel((CUfunction)grow, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuCtxSynchronize());
	assert_int_equal(*(uint32_t *)at, 9);
	ok(cuLibraryGetGlobal(&again, NULL, library, "shared"));
	assert_int_equal(again, at);
	ok(cuLibraryGetGlobal(&plain, NULL, library, "plain"));
	assert_int_equal(cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxDestroy_v2(other));
	ok(cuLibraryUnload(library));
	assert_int_equal(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at),
			 CUDA_ERROR_INVALID_VALUE);
	(void)state;
}

static void every_device_reaches_managed_memory(void **state)
{
	CUcontext other;
	CUdeviceptr p;
	uint32_t value = 5;
	void *params[] = {&p, &value};

	(void)state;
	ok(cuMemAllocManaged(&p, 4, CU_MEM_ATTACH_GLOBAL));
	ok(cuCtxCreate_v2(&other, 0, 1));
	ok(cuLaunchKernel(kernel(kernels_load(), "store"), 1, 1, 1, 1, 1, 1, 0, NULL, params,
			  NULL));
	ok(cuCtxSynchronize());
	assert_int_equal(*(uint32_t *)p, 5);
	ok(cuCtxDestroy_v2(other));
	ok(cuMemFree_v2(p));
}

static void advice_on_managed_memory_is_told_again(void **state)
{
	const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
	int value, list[2];
	CUdeviceptr p, plain;

	(void)state;
	ok(cuMemAllocManaged(&p, 8192, CU_MEM_ATTACH_GLOBAL));
	ok(cuMemAlloc_v2(&plain, 4096));
	ok(cuMemAdvise_v2(p, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
	ok(cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4096));
	assert_true(list[0] == 1 && list[1] == CU_DEVICE_INVALID);
	ok(cuMemPrefetchAsync(p, 8192, CU_DEVICE_CPU, NULL));
	ok(cuMemRangeGetAttribute(&value, sizeof(value),
				  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 8192));
	assert_int_equal(value, CU_DEVICE_CPU);
	assert_int_equal(cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 9),
			 CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(
		cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 1),
		CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	ok(cuMemFree_v2(plain));
}

/* --- batches --- */

static void a_batch_stops_at_the_copy_that_is_wrong(void **state)
{
	CUmemcpyAttributes order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	char from[3] = "ab", to[3] = "";
	CUdeviceptr p, srcs[2], dsts[2];
	size_t sizes[2] = {2, 2}, first = 0, fail = 9;
	CUstream stream;

	(void)state;
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&p, 2));
	srcs[0] = (CUdeviceptr)from;
	dsts[0] = srcs[1] = p;
	dsts[1] = (CUdeviceptr)to;
	ok(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &order, &first, 1, &fail, stream));
	ok(cuStreamSynchronize(stream));
	assert_string_equal(to, "ab");
	sizes[1] = 0;
	assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &order, &first, 1, &fail, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fail, 1);
	assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 1, &order, &first, 1, &fail, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_true(fail == SIZE_MAX);
	ok(cuMemFree_v2(p));
	ok(cuStreamDestroy_v2(stream));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_context(alloc_of_nothing_is_refused_and_leaves_the_output),
		in_context(memory_is_accounted_and_runs_out),
		in_context(gaps_between_allocations_are_used_again),
		in_context(large_pieces_begin_at_pages_of_2_mib),
		in_context(pages_go_back_when_their_last_allocation_is_freed),
		in_context(freeing_what_was_not_allocated_is_refused),
		in_context(a_copy_comes_back_as_it_went),
		in_context(a_copy_past_the_end_is_refused_and_moves_nothing),
		in_context(memset_fills_elements_of_each_width),
		in_context(a_2d_copy_moves_the_rectangle_only),
		in_context(a_3d_copy_steps_over_slices),
		in_context(registered_memory_overlaps_nothing_and_is_its_own_device_pointer),
		in_context(a_pointer_tells_its_owner_and_kind),
		in_context(a_managed_variable_is_the_same_in_all_contexts),
		in_context(every_device_reaches_managed_memory),
		in_context(advice_on_managed_memory_is_told_again),
		in_context(a_batch_stops_at_the_copy_that_is_wrong),
	};

	return cmocka_run_group_tests(tests, devices_setup, NULL);
}
