/*
 * tests/unit/test_emu_vmm.c - the emulated driver's virtual memory management.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "emu/core/emu.h"
#include "tests/unit/emu_kernels.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define refused(call) assert_int_equal(call, CUDA_ERROR_INVALID_VALUE)

#define UNIT (2ul << 20)
#define MEMORY (64ul << 20)

static CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUmemAccessDesc all = {
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static int setup(void **state)
{
	setenv("CRICKET_EMU", "devices=2,memory=64M", 1);
	return cuInit(0) || cuCtxCreate_v2((CUcontext *)state, 0, 0) ? -1 : 0;
}

static size_t memory_free(void)
{
	size_t left, total;

	ok(cuMemGetInfo_v2(&left, &total));
	return left;
}

/* @count units of device memory mapped from @at on, with access. */
static void map(CUdeviceptr at, size_t count)
{
	CUmemGenericAllocationHandle handle;

	ok(cuMemCreate(&handle, count * UNIT, &prop, 0));
	ok(cuMemMap(at, count * UNIT, 0, handle, 0));
	ok(cuMemSetAccess(at, count * UNIT, &all, 1));
	ok(cuMemRelease(handle));
}

static void addresses_are_where_they_were_asked_for_if_they_are_free(void **state)
{
	CUdeviceptr a = 0, b = 0, c = 0;

	(void)state;
	ok(cuMemAddressReserve(&a, 8 * UNIT, 0, 0, 0));
	assert_int_equal(a % UNIT, 0);
	ok(cuMemAddressReserve(&b, UNIT, 0, a, 0));
	assert_int_not_equal(b, a);
	ok(cuMemAddressFree(a, 8 * UNIT));
	ok(cuMemAddressReserve(&c, 8 * UNIT, 0, a, 0));
	assert_int_equal(c, a);
	ok(cuMemAddressFree(c, 8 * UNIT));
	ok(cuMemAddressFree(b, UNIT));
	ok(cuMemAddressReserve(&a, UNIT, 1ul << 30, 0, 0));
	assert_int_equal(a % (1ul << 30), 0);
	ok(cuMemAddressFree(a, UNIT));
}

static void wrong_reservations_are_refused(void **state)
{
	CUdeviceptr a;

	(void)state;
	refused(cuMemAddressReserve(NULL, UNIT, 0, 0, 0));
	refused(cuMemAddressReserve(&a, 0, 0, 0, 0));
	refused(cuMemAddressReserve(&a, UNIT + 4096, 0, 0, 0));
	refused(cuMemAddressReserve(&a, UNIT, 3 * UNIT, 0, 0));
	refused(cuMemAddressReserve(&a, UNIT, 0, 0, 1));
	ok(cuMemAddressReserve(&a, 2 * UNIT, 0, 0, 0));
	refused(cuMemAddressFree(a, UNIT));
	refused(cuMemAddressFree(a + UNIT, UNIT));
	map(a, 1);
	refused(cuMemAddressFree(a, 2 * UNIT));
	ok(cuMemUnmap(a, UNIT));
	ok(cuMemAddressFree(a, 2 * UNIT));
	refused(cuMemAddressFree(a, 2 * UNIT));
}

static void physical_memory_counts_until_its_last_use_has_gone(void **state)
{
	size_t before = memory_free();
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr a;

	(void)state;
	ok(cuMemAddressReserve(&a, 4 * UNIT, 0, 0, 0));
	assert_int_equal(memory_free(), before);
	ok(cuMemCreate(&h, 4 * UNIT, &prop, 0));
	assert_int_equal(memory_free(), before - 4 * UNIT);
	ok(cuMemMap(a, 4 * UNIT, 0, h, 0));
	ok(cuMemRelease(h));
	refused(cuMemRelease(h));
	assert_int_equal(memory_free(), before - 4 * UNIT);
	ok(cuMemRetainAllocationHandle(&again, (void *)(a + 5)));
	assert_int_equal(again, h);
	ok(cuMemUnmap(a, 4 * UNIT));
	assert_int_equal(memory_free(), before - 4 * UNIT);
	ok(cuMemRelease(again));
	assert_int_equal(memory_free(), before);
	refused(cuMemRetainAllocationHandle(&again, (void *)a));
	ok(cuMemAddressFree(a, 4 * UNIT));
	assert_int_equal(cuMemCreate(&h, MEMORY + UNIT, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	refused(cuMemCreate(&h, UNIT / 2, &prop, 0));
}

static void mappings_of_the_same_memory_show_the_same_bytes(void **state)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr a;
	uint32_t word = 0;

	(void)state;
	ok(cuMemAddressReserve(&a, 4 * UNIT, 0, 0, 0));
	ok(cuMemCreate(&h, 2 * UNIT, &prop, 0));
	ok(cuMemMap(a, 2 * UNIT, 0, h, 0));
	ok(cuMemMap(a + 2 * UNIT, UNIT, UNIT, h, 0));
	refused(cuMemMap(a + UNIT, UNIT, 0, h, 0));
	refused(cuMemMap(a + 3 * UNIT, 2 * UNIT, 0, h, 0));
	refused(cuMemMap(a + 3 * UNIT, UNIT, 2 * UNIT, h, 0));
	ok(cuMemSetAccess(a, 3 * UNIT, &all, 1));
	ok(cuMemsetD32_v2(a + UNIT + 8, 0xfeed, 1));
	ok(cuMemcpyDtoH_v2(&word, a + 2 * UNIT + 8, 4));
	assert_int_equal(word, 0xfeed);
	/* a copy may run over from one mapping to the next */
	ok(cuMemcpyDtoD_v2(a + 2 * UNIT - 4, a + 8, 8));
	refused(cuMemcpyDtoD_v2(a + 3 * UNIT - 4, a, 8));
	ok(cuCtxSynchronize()); /* before the memory that the copy uses goes */
	refused(cuMemUnmap(a, UNIT));
	ok(cuMemUnmap(a, 3 * UNIT));
	refused(cuMemcpyDtoH_v2(&word, a, 4));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(a, 4 * UNIT));
}

static void access_is_given_for_each_device(void **state)
{
	CUmemAccessDesc other = all;
	CUmemGenericAllocationHandle h;
	unsigned long long flags = 9;
	CUdeviceptr a;
	uint32_t word;

	(void)state;
	other.location.id = 1;
	other.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	ok(cuMemAddressReserve(&a, 2 * UNIT, 0, 0, 0));
	ok(cuMemCreate(&h, UNIT, &prop, 0));
	refused(cuMemSetAccess(a, UNIT, &all, 1));
	ok(cuMemMap(a, UNIT, 0, h, 0));
	refused(cuMemcpyDtoH_v2(&word, a, 4));
	ok(cuMemGetAccess(&flags, &all.location, a));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	refused(cuMemSetAccess(a, 2 * UNIT, &all, 1));
	ok(cuMemSetAccess(a, UNIT, (CUmemAccessDesc[]){all, other}, 2));
	ok(cuMemGetAccess(&flags, &other.location, a + 1));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	ok(cuMemcpyDtoH_v2(&word, a, 4));
	other.location.id = 2;
	assert_int_equal(cuMemSetAccess(a, UNIT, &other, 1), CUDA_ERROR_INVALID_DEVICE);
	ok(cuMemUnmap(a, UNIT));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(a, 2 * UNIT));
}

static void a_kernel_without_access_faults(void **state)
{
	CUmemGenericAllocationHandle h;
	CUfunction store;
	CUmodule module;
	CUdeviceptr a;
	uint32_t value = 77, word = 0;
	void *params[] = {&a, &value};

	(void)state;
	ok(cuModuleLoadData(&module, emu_kernels));
	ok(cuModuleGetFunction(&store, module, "store"));
	ok(cuMemAddressReserve(&a, UNIT, 0, 0, 0));
	ok(cuMemCreate(&h, UNIT, &prop, 0));
	ok(cuMemMap(a, UNIT, 0, h, 0));
	ok(cuMemSetAccess(a, UNIT, &all, 1));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	ok(cuMemcpyDtoH_v2(&word, a, 4));
	assert_int_equal(word, 77);
	all.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ok(cuMemSetAccess(a, UNIT, &all, 1));
	ok(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void what_can_be_asked_of_it_is_answered(void **state)
{
	CUmemAllocationProp got = prop, host = prop;
	CUmemGenericAllocationHandle h;
	size_t unit = 0;

	(void)state;
	host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	ok(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_int_equal(unit, UNIT);
	assert_int_equal(cuMemCreate(&h, UNIT, &host, 0), CUDA_ERROR_NOT_SUPPORTED);
	prop.location.id = 1;
	ok(cuMemCreate(&h, UNIT, &prop, 0));
	ok(cuMemGetAllocationPropertiesFromHandle(&got, h));
	assert_int_equal(got.location.id, 1);
	ok(cuMemRelease(h));
	refused(cuMemGetAllocationPropertiesFromHandle(&got, h));
	refused(cuMemGetAllocationPropertiesFromHandle(&got, 0x1234));
	prop.location.id = 2;
	assert_int_equal(cuMemCreate(&h, UNIT, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
	prop.location.id = 0;
}

static void managed_memory_is_touched_by_both(void **state)
{
	unsigned char byte = 0, *p = NULL;
	unsigned int managed = 7;
	CUdeviceptr a = 0;

	(void)state;
	refused(cuMemAllocManaged(&a, 0, CU_MEM_ATTACH_GLOBAL));
	refused(cuMemAllocManaged(&a, 64, CU_MEM_ATTACH_SINGLE));
	ok(cuMemAllocManaged(&a, 64, CU_MEM_ATTACH_GLOBAL));
	p = (unsigned char *)a;
	ok(cuMemsetD8_v2(a, 3, 64));
	ok(cuCtxSynchronize());
	assert_int_equal(p[5], 3);
	p[6] = 9;
	ok(cuMemcpyDtoH_v2(&byte, a + 6, 1));
	assert_int_equal(byte, 9);
	ok(cuMemcpyHtoD_v2(a, p + 6, 1));
	ok(cuCtxSynchronize());
	assert_int_equal(p[0], 9);
	managed = 0;
	ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, a + 1));
	assert_int_equal(managed, 1);
	ok(cuMemPrefetchAsync(a, 64, 0, NULL));
	assert_int_equal(cuMemPrefetchAsync(a, 64, 5, NULL), CUDA_ERROR_INVALID_DEVICE);
	refused(cuMemPrefetchAsync(a, 65, 0, NULL));
	refused(cuStreamAttachMemAsync(NULL, a, 0, CU_MEM_ATTACH_SINGLE));
	ok(cuStreamAttachMemAsync(NULL, a, 64, CU_MEM_ATTACH_HOST));
	ok(cuMemFree_v2(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_where_they_were_asked_for_if_they_are_free),
		cmocka_unit_test(wrong_reservations_are_refused),
		cmocka_unit_test(physical_memory_counts_until_its_last_use_has_gone),
		cmocka_unit_test(mappings_of_the_same_memory_show_the_same_bytes),
		cmocka_unit_test(access_is_given_for_each_device),
		cmocka_unit_test(what_can_be_asked_of_it_is_answered),
		cmocka_unit_test(managed_memory_is_touched_by_both),
		/* the last: its context is lost */
		cmocka_unit_test(a_kernel_without_access_faults),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
