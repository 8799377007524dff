/*
 * tests/unit/test_emu_driver.c - the emulated driver, as a program sees it: devices, contexts,
 * memory, modules, launches, errors. Streams and events: test_emu_stream.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/emu.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)

#define MEMORY (64ul << 20) /* bytes of each device */

/* The address that a program of @version gets for a call. */
static void *address_of(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *address = NULL;

	ok(cuGetProcAddress_v2(name, &address, version, flags, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	return address;
}

static void a_call_is_given_in_the_form_of_the_version_asked_for(void **state)
{
	const cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	(void)state;
	/* names are looked up in the dynamic symbols: a program has them with -rdynamic */
	if (!dlsym(RTLD_DEFAULT, "cuInit"))
		skip();
	assert_ptr_equal(address_of("cuMemAlloc", 12000, 0), (void *)cuMemAlloc_v2);
	assert_ptr_equal(address_of("cuCtxCreate", 4000, 0), (void *)cuCtxCreate_v2);
	assert_ptr_equal(address_of("cuCtxCreate", 13000, 0), (void *)cuCtxCreate_v4);
	assert_ptr_equal(address_of("cuStreamGetCaptureInfo", 11030, 0),
			 (void *)cuStreamGetCaptureInfo_v2);
	assert_ptr_equal(address_of("cuStreamQuery", 12000, 0), (void *)cuStreamQuery);
	assert_ptr_equal(address_of("cuStreamQuery", 12000, per_thread),
			 (void *)cuStreamQuery_ptsz);
	assert_ptr_equal(address_of("cuMemcpyHtoD", 12000, per_thread),
			 (void *)cuMemcpyHtoD_v2_ptds);
}

static int devices_setup(void **state)
{
	(void)state;
	setenv("CRICKET_EMU_DEVICES", "2", 1);
	setenv("CRICKET_EMU_MEMORY", "64M", 1);
	return cuInit(0) == CUDA_SUCCESS ? 0 : -1;
}

static int context_setup(void **state)
{
	CUcontext context;

	if (cuCtxCreate_v2(&context, 0, 0))
		return -1;
	*state = context;
	return 0;
}

static int context_teardown(void **state)
{
	return cuCtxDestroy_v2(*state) ? -1 : 0;
}

static CUmodule kernels_load(void)
{
	CUmodule module = NULL;

	ok(cuModuleLoadData(&module, emu_kernels));
	return module;
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function = NULL;

	ok(cuModuleGetFunction(&function, module, name));
	return function;
}

/* --- the driver and its devices --- */

static void calls_before_init_are_refused_but_version_and_names_work(void **state)
{
	const char *text;
	CUcontext context;
	int number;

	(void)state;
	assert_int_equal(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
	ok(cuDriverGetVersion(&number));
	assert_int_equal(number, 13000);
	ok(cuGetErrorName(CUDA_ERROR_INVALID_PTX, &text));
	assert_string_equal(text, "CUDA_ERROR_INVALID_PTX");
	ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "out of memory");
	assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void a_table_that_is_not_known_is_refused(void **state)
{
	const CUuuid id = {{1, 2, 3}};
	const void *table = &id;

	(void)state;
	assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
	assert_null(table);
	assert_int_equal(ckDriverAcceptsCubin(), 0);
}

static void an_unknown_name_has_no_address(void **state)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *address = &status;

	(void)state;
	ok(cuGetProcAddress_v2("cuNoSuchCall", &address, 13000, 0, &status));
	assert_null(address);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(cuGetProcAddress("cuNoSuchCall", &address, 13000, 0),
			 CUDA_ERROR_NOT_FOUND);
	ok(cuGetProcAddress_v2("cuGetProcAddress", &address, 10000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static void the_environment_sets_count_and_memory_of_devices(void **state)
{
	size_t bytes;
	int count;

	(void)state;
	ok(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	ok(cuDeviceTotalMem_v2(&bytes, 1));
	assert_int_equal(bytes, MEMORY);
	assert_int_equal(cuDeviceGet(&count, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void every_attribute_has_a_value_and_what_is_missing_reads_0(void **state)
{
	int value;

	(void)state;
	for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
		ok(cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0));
	assert_int_equal(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	assert_int_equal(value, 16);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	assert_int_equal(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	assert_int_equal(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
	assert_int_equal(value, 0);
}

static void a_pci_address_leads_back_to_its_device(void **state)
{
	char text[16];
	CUdevice device;

	(void)state;
	ok(cuDeviceGetPCIBusId(text, sizeof(text), 1));
	ok(cuDeviceGetByPCIBusId(&device, text));
	assert_int_equal(device, 1);
	assert_int_equal(cuDeviceGetByPCIBusId(&device, "0000:7F:00.0"), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetByPCIBusId(&device, "bus"), CUDA_ERROR_INVALID_VALUE);
}

static void two_devices_have_two_uuids(void **state)
{
	CUuuid a, b;

	(void)state;
	ok(cuDeviceGetUuid(&a, 0));
	ok(cuDeviceGetUuid_v2(&b, 1));
	assert_memory_not_equal(&a, &b, sizeof(a));
}

/* --- contexts --- */

static void a_call_without_a_context_is_refused(void **state)
{
	CUdeviceptr p = 42;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(p, 42);
}

static void the_stack_of_contexts_is_last_in_first_out(void **state)
{
	CUcontext a, b, current;
	CUdevice device;

	(void)state;
	ok(cuCtxCreate_v2(&a, 0, 0));
	ok(cuCtxCreate_v4(&b, NULL, 0, 1));
	ok(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	ok(cuCtxPopCurrent_v2(&current));
	assert_ptr_equal(current, b);
	ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, a);
	ok(cuCtxDestroy_v2(a));
	ok(cuCtxGetCurrent(&current));
	assert_null(current);
	ok(cuCtxDestroy_v2(b));
	assert_int_equal(cuCtxDestroy_v2(b), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxSetCurrent((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_primary_context_keeps_its_handle_and_loses_its_memory(void **state)
{
	CUcontext first, second;
	unsigned int flags;
	CUdeviceptr p;
	int active;

	(void)state;
	ok(cuDevicePrimaryCtxRetain(&first, 0));
	ok(cuCtxSetCurrent(first));
	ok(cuMemAlloc_v2(&p, 4096));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 1);
	ok(cuDevicePrimaryCtxRelease(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ok(cuDevicePrimaryCtxRetain(&second, 0));
	assert_ptr_equal(first, second);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	ok(cuDevicePrimaryCtxReset_v2(0));
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxSetCurrent(NULL));
}

static void limits_answer_as_documented(void **state)
{
	unsigned int version;
	size_t value;
	int least, greatest;

	(void)state;
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	assert_int_equal(value, 1024);
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	assert_int_equal(value, 4096);
	assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
			 CUDA_ERROR_UNSUPPORTED_LIMIT);
	assert_int_equal(cuCtxGetLimit(&value, (CUlimit)99), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_int_equal(least, 0);
	assert_int_equal(greatest, -5);
	ok(cuCtxGetApiVersion(NULL, &version));
	assert_int_equal(version, 3020);
}

static void peer_access_is_enabled_once(void **state)
{
	CUcontext peer;
	int can;

	ok(cuDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	ok(cuCtxCreate_v2(&peer, 0, 1));
	ok(cuCtxPopCurrent_v2(NULL));
	assert_int_equal(cuCtxDisablePeerAccess(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	ok(cuCtxEnablePeerAccess(peer, 0));
	assert_int_equal(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	assert_int_equal(cuCtxEnablePeerAccess(*state, 0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxDisablePeerAccess(peer));
	ok(cuCtxDestroy_v2(peer));
}

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
	assert_int_equal(cuMemHostUnregister(pinned), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ok(cuMemFreeHost(pinned));
	assert_int_equal(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
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

/* --- modules, kernels, launches --- */

static void images_that_are_no_ptx_are_told_apart(void **state)
{
	/* headers of fat binary containers (elf/fatbin.h), without entries */
	const uint32_t damaged[4] = {0xba55ed50, 0x000f0001, 0, 0};
	const uint32_t empty[4] = {0xba55ed50, 0x00100001, 0, 0};
	unsigned char elf[64] = "\177ELF";
	CUmodule module;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, elf), CUDA_ERROR_INVALID_IMAGE);
	elf[18] = 190;
	assert_int_equal(cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadData(&module, "hello"), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadFatBinary(&module, damaged), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadFatBinary(&module, empty), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void the_ptx_of_a_fat_binary_is_loaded(void **state)
{
	const size_t size = (sizeof(emu_kernels) + 7) / 8 * 8;
	const struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t files;
		uint16_t kind, one;
		uint32_t entry_header;
		uint64_t payload;
		uint32_t compressed, options;
		uint16_t minor, major;
		uint32_t sm;
		uint32_t name[2];
		uint64_t flags, zero, uncompressed;
	} head = {0xba55ed50, 1, 16, 64 + size, 1, 0x101, 64, size, 0, 0, 0, 8, 90, {0}, 1, 0, 0};
	char *image = calloc(1, sizeof(head) + size);
	CUmodule module;

	(void)state;
	assert_non_null(image);
	assert_int_equal(sizeof(head), 16 + 64);
	memcpy(image, &head, sizeof(head));
	memcpy(image + sizeof(head), emu_kernels, sizeof(emu_kernels));
	ok(cuModuleLoadData(&module, image));
	free(image);
	ok(cuLaunchKernel(kernel(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuModuleUnload(module));
}

static void bad_ptx_is_refused_with_a_message(void **state)
{
	char log[256] = "";
	CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[2] = {log, (void *)sizeof(log)};
	CUmodule module = NULL;

	(void)state;
	assert_int_equal(cuModuleLoadDataEx(&module, "// text\n" EMU_PTX_HEAD ".entry {", 2,
					    options, values),
			 CUDA_ERROR_INVALID_PTX);
	assert_null(module);
	assert_non_null(strstr(log, "line "));
	assert_int_equal((uintptr_t)values[1], strlen(log));
}

static void handles_of_another_kind_or_none_are_refused(void **state)
{
	CUfunction function = (CUfunction)0x10;
	CUmodule module = kernels_load();
	int value;

	(void)state;
	assert_int_equal(cuModuleGetFunction(&function, (CUmodule)0x8, "store"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunction(&function, *state, "store"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunction(&function, module, "missing"), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(function, (CUfunction)0x10);
	assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
			 CUDA_ERROR_INVALID_HANDLE);
	function = kernel(module, "store");
	ok(cuModuleUnload(module));
	assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
}

static void arguments_are_taken_at_the_launch_in_both_forms(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store");
	struct {
		CUdeviceptr p;
		uint32_t value;
	} block;
	uint32_t value = 7, back[2] = {0};
	CUdeviceptr p, second;
	void *params[] = {&p, &value};
	size_t size = sizeof(block);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};

	(void)state;
	ok(cuMemAlloc_v2(&p, 8));
	ok(cuMemsetD32_v2(p, 0, 2));
	second = p + 4;
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	value = 1;
	block.p = second;
	block.value = 9;
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	block.value = 2;
	ok(cuMemcpyDtoH_v2(back, p, 8));
	assert_int_equal(back[0], 7);
	assert_int_equal(back[1], 9);
	size = 11;
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	ok(cuModuleUnload(module));
}

static void impossible_launches_are_refused_at_once(void **state)
{
	CUmodule module = kernels_load();
	CUfunction nothing = kernel(module, "nothing"), tile = kernel(module, "tile");
	CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
				     .value.clusterDim = {2, 1, 1}};
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &cluster, 1};
	int size;

	(void)state;
	assert_int_equal(cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(nothing, 1, 1, 1, 32, 32, 2, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(tile, 1, 1, 1, 65, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 48128, NULL, NULL, NULL));
	assert_int_equal(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 48129, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncSetAttribute(tile, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	ok(cuLaunchKernel(tile, 1, 1, 1, 64, 1, 1, 100000, NULL, NULL, NULL));
	assert_int_equal(
		cuFuncSetAttribute(tile, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
		CUDA_ERROR_INVALID_VALUE);
	/* clusters: the grid is a multiple of them, and they have eight blocks unless more are allowed */
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	cluster.value.clusterDim.x = 1;
	ok(cuLaunchKernelEx(&config, nothing, NULL, NULL));
	config.gridDimX = 32;
	cluster.value.clusterDim.x = 16;
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	ok(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
	ok(cuLaunchKernelEx(&config, nothing, NULL, NULL));
	cluster.value.clusterDim.x = 32;
	assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL),
			 CUDA_ERROR_INVALID_CLUSTER_SIZE);
	ok(cuOccupancyMaxPotentialClusterSize(&size, nothing, &config));
	assert_int_equal(size, 16);
	cluster.value.clusterDim.x = 4;
	ok(cuOccupancyMaxActiveClusters(&size, nothing, &config));
	assert_int_equal(size, 16 * 32 / 4);
	assert_int_equal(cuLaunchCooperativeKernel(nothing, 1000, 1, 1, 1024, 1, 1, 0, NULL, NULL),
			 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	ok(cuCtxSynchronize());
	ok(cuModuleUnload(module));
}

static void a_variable_starts_with_its_value_and_kernels_change_it(void **state)
{
	CUmodule module = kernels_load();
	uint32_t value = 0;
	CUdeviceptr p;
	size_t size;

	(void)state;
	ok(cuModuleGetGlobal_v2(&p, &size, module, "counter"));
	assert_int_equal(size, 4);
	ok(cuMemcpyDtoH_v2(&value, p, 4));
	assert_int_equal(value, 5);
	ok(cuLaunchKernel(kernel(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuMemcpyDtoH_v2(&value, p, 4));
	assert_int_equal(value, 6);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &size, module, "none"), CUDA_ERROR_NOT_FOUND);
	ok(cuModuleUnload(module));
	assert_int_equal(cuMemcpyDtoH_v2(&value, p, 4), CUDA_ERROR_INVALID_VALUE);
}

static void functions_tell_their_parameters_and_limits(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store"), tile = kernel(module, "tile");
	size_t offset, size;
	unsigned int count;
	const char *name;
	int value;

	(void)state;
	ok(cuFuncGetParamInfo(store, 1, &offset, &size));
	assert_int_equal(offset, 8);
	assert_int_equal(size, 4);
	assert_int_equal(cuFuncGetParamInfo(store, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	ok(cuFuncGetName(&name, store));
	assert_string_equal(name, "store");
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, tile));
	assert_int_equal(value, 1024);
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, tile));
	assert_int_equal(value, 64);
	ok(cuModuleGetFunctionCount(&count, module));
	assert_int_equal(count, EMU_KERNEL_COUNT);
	ok(cuModuleUnload(module));
}

static void a_kernel_of_a_library_runs_in_each_context(void **state)
{
	CUcontext other;
	CUlibrary library;
	CUkernel bump;
	uint32_t value;
	CUdeviceptr a, b;

	ok(cuLibraryLoadData(&library, emu_kernels, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetKernel(&bump, library, "bump"));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLibraryGetGlobal(&a, NULL, library, "counter"));
	ok(cuCtxCreate_v2(&other, 0, 1));
	ok(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ok(cuLibraryGetGlobal(&b, NULL, library, "counter"));
	assert_int_not_equal(a, b);
	ok(cuMemcpyDtoH_v2(&value, b, 4));
	assert_int_equal(value, 6);
	ok(cuCtxSetCurrent(*state));
	ok(cuMemcpyDtoH_v2(&value, a, 4));
	assert_int_equal(value, 7);
	ok(cuCtxDestroy_v2(other));
	ok(cuLibraryUnload(library));
	assert_int_equal(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemcpyDtoH_v2(&value, a, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

static void a_kernels_setting_holds_for_its_functions(void **state)
{
	CUlibrary library;
	CUfunction function;
	CUkernel tile;
	int value;

	(void)state;
	ok(cuLibraryLoadData(&library, emu_kernels, NULL, NULL, 0, NULL, NULL, 0));
	ok(cuLibraryGetKernel(&tile, library, "tile"));
	ok(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, tile, 0));
	ok(cuKernelGetFunction(&function, tile));
	ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	assert_int_equal(value, 60000);
	ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60000, NULL, NULL, NULL));
	ok(cuCtxSynchronize());
	ok(cuLibraryUnload(library));
}

static void occupancy_follows_threads_and_shared_memory(void **state)
{
	CUmodule module = kernels_load();
	CUfunction nothing = kernel(module, "nothing"), tile = kernel(module, "tile");
	int blocks, grid, size;
	size_t shared;

	(void)state;
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
	assert_in_range(blocks, 1, 2);
	ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 40000));
	assert_int_equal(blocks, 5);
	ok(cuOccupancyMaxPotentialBlockSize(&grid, &size, tile, NULL, 0, 0));
	assert_int_equal(size, 64);
	assert_int_equal(grid % 16, 0);
	ok(cuOccupancyAvailableDynamicSMemPerBlock(&shared, tile, 2, 64));
	assert_int_equal(shared, 233472 / 2 - 1024 - 1024);
	assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuModuleUnload(module));
}

static void a_fault_stays_with_its_context(void **state)
{
	CUdeviceptr p = 64;
	uint32_t value = 1;
	void *params[] = {&p, &value};
	CUcontext broken;
	CUmodule module;
	CUresult fault;

	(void)state;
	ok(cuCtxCreate_v2(&broken, 0, 0));
	module = kernels_load();
	ok(cuLaunchKernel(kernel(module, "store"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	fault = cuCtxSynchronize();
	assert_int_equal(fault, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuMemAlloc_v2(&p, 16), fault);
	assert_int_equal(cuStreamSynchronize(NULL), fault);
	ok(cuCtxDestroy_v2(broken));
	/* the context below it on the stack is as well as before */
	ok(cuMemAlloc_v2(&p, 16));
	ok(cuMemFree_v2(p));
}

static void a_kernel_reaches_a_peers_memory_only_when_enabled(void **state)
{
	CUmodule module = kernels_load();
	CUfunction store = kernel(module, "store");
	uint32_t value = 3, back = 0;
	CUcontext peer;
	CUdeviceptr p;
	void *params[] = {&p, &value};

	ok(cuCtxCreate_v2(&peer, 0, 1));
	ok(cuMemAlloc_v2(&p, 4));
	ok(cuCtxSetCurrent(*state));
	ok(cuCtxEnablePeerAccess(peer, 0));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuCtxSynchronize());
	ok(cuMemcpyDtoH_v2(&back, p, 4));
	assert_int_equal(back, 3);
	ok(cuCtxDisablePeerAccess(peer));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(cuCtxDestroy_v2(peer));
}

static void what_kernels_print_appears_at_the_next_synchronisation(void **state)
{
	struct ck_emu_context *context = *state;
	int pipe_ends[2], saved = dup(1);
	char text[32] = "";

	assert_int_equal(pipe(pipe_ends), 0);
	dup2(pipe_ends[1], 1);
	ck_emu_print(context, "hello\n", 6);
	assert_int_equal(context->print_size, 6);
	ok(cuCtxSynchronize());
	dup2(saved, 1);
	assert_int_equal(read(pipe_ends[0], text, sizeof(text) - 1), 6);
	assert_string_equal(text, "hello\n");
	close(saved);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

#define in_context(f) cmocka_unit_test_setup_teardown(f, context_setup, context_teardown)

int main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(calls_before_init_are_refused_but_version_and_names_work),
		cmocka_unit_test(a_table_that_is_not_known_is_refused),
		cmocka_unit_test(an_unknown_name_has_no_address),
		cmocka_unit_test(a_call_is_given_in_the_form_of_the_version_asked_for),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_sets_count_and_memory_of_devices),
		cmocka_unit_test(every_attribute_has_a_value_and_what_is_missing_reads_0),
		cmocka_unit_test(a_pci_address_leads_back_to_its_device),
		cmocka_unit_test(two_devices_have_two_uuids),
		cmocka_unit_test(a_call_without_a_context_is_refused),
		cmocka_unit_test(the_stack_of_contexts_is_last_in_first_out),
		cmocka_unit_test(a_primary_context_keeps_its_handle_and_loses_its_memory),
		in_context(limits_answer_as_documented),
		in_context(peer_access_is_enabled_once),
		in_context(alloc_of_nothing_is_refused_and_leaves_the_output),
		in_context(memory_is_accounted_and_runs_out),
		in_context(gaps_between_allocations_are_used_again),
		in_context(pages_go_back_when_their_last_allocation_is_freed),
		in_context(freeing_what_was_not_allocated_is_refused),
		in_context(a_copy_comes_back_as_it_went),
		in_context(a_copy_past_the_end_is_refused_and_moves_nothing),
		in_context(memset_fills_elements_of_each_width),
		in_context(a_2d_copy_moves_the_rectangle_only),
		in_context(a_3d_copy_steps_over_slices),
		in_context(registered_memory_overlaps_nothing_and_is_its_own_device_pointer),
		in_context(a_pointer_tells_its_owner_and_kind),
		in_context(images_that_are_no_ptx_are_told_apart),
		in_context(the_ptx_of_a_fat_binary_is_loaded),
		in_context(bad_ptx_is_refused_with_a_message),
		in_context(handles_of_another_kind_or_none_are_refused),
		in_context(arguments_are_taken_at_the_launch_in_both_forms),
		in_context(impossible_launches_are_refused_at_once),
		in_context(a_variable_starts_with_its_value_and_kernels_change_it),
		in_context(functions_tell_their_parameters_and_limits),
		in_context(a_kernel_of_a_library_runs_in_each_context),
		in_context(a_kernels_setting_holds_for_its_functions),
		in_context(occupancy_follows_threads_and_shared_memory),
		in_context(a_fault_stays_with_its_context),
		in_context(a_kernel_reaches_a_peers_memory_only_when_enabled),
		in_context(what_kernels_print_appears_at_the_next_synchronisation),
	};
	int failed = cmocka_run_group_tests(before, NULL, NULL);

	return failed + cmocka_run_group_tests(tests, devices_setup, NULL);
}
