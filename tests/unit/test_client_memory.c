/*
 * tests/unit/test_client_memory.c - pools, mappings, sharing and batches as they reach the server,
 * which the test plays.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"

#define UNIT ((size_t)2 << 20)
#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define OWN_POOL (1u << 23) /* an id that the server has picked */

static uint64_t next; /* where the server's driver puts the next allocation */
static CUresult refusal;
static CUstream stream;

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (refusal)
		return refusal;
	if (m->number == CK_PROC_cuMemAlloc_v2)
		((cuMemAlloc_v2_res *)res)->dptr = next;
	else if (m->number == CK_PROC_cuMemAllocAsync)
		((cuMemAllocAsync_res *)res)->dptr = next;
	else if (m->number == CK_PROC_cuMemAllocFromPoolAsync)
		((cuMemAllocFromPoolAsync_res *)res)->dptr = next;
	else if (m->number == CK_PROC_cuMemAddressReserve) {
		const cuMemAddressReserve_args *a = m->args;

		((cuMemAddressReserve_res *)res)->ptr = a->addr ? a->addr : next;
	} else if (m->number == CK_PROC_cuDeviceGetDefaultMemPool)
		((cuDeviceGetDefaultMemPool_res *)res)->pool_out = OWN_POOL;
	else if (m->number == CK_PROC_cuDeviceGetMemPool)
		((cuDeviceGetMemPool_res *)res)->pool = OWN_POOL;
	else if (m->number == CK_PROC_pointer_pool)
		((ck_pointer_pool_res *)res)->pool = OWN_POOL;
	else if (m->number == CK_PROC_pool_attribute)
		((ck_pool_attribute_res *)res)->result = 0x123456789abcull;
	return CUDA_SUCCESS;
}

static uint64_t unused(size_t size)
{
	char *at = mmap(NULL, size + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	munmap(at, size + UNIT);
	return ((uint64_t)(uintptr_t)at + UNIT - 1) & ~(uint64_t)(UNIT - 1);
}

static int begin(void **state)
{
	setenv("CRICKET_DEBUG", "no-arena", 1); /* test_client_arena.c has the other way */
	peer.call = answer;
	return peer_begin(state) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static int clear(void **state)
{
	(void)state;
	peer_clear();
	refusal = CUDA_SUCCESS;
	next = unused(16 * UNIT);
	return 0;
}

static CUmemoryPool make_pool(int device)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = POSIX_FD,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
				.win32SecurityAttributes = (void *)0xdead};
	CUmemoryPool pool = NULL;

	assert_int_equal(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
	return pool;
}

static CUmemGenericAllocationHandle make_physical(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = POSIX_FD,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1},
				    .win32HandleMetaData = (void *)0xdead};
	CUmemGenericAllocationHandle handle = 0;

	assert_int_equal(cuMemCreate(&handle, UNIT, &prop, 0), CUDA_SUCCESS);
	return handle;
}

static void memory_of_a_pool_is_known_and_freed_once(void **state)
{
	CUmemoryPool pool = make_pool(1), of = NULL;
	const cuMemPoolCreate_args *created = peer_args(CK_PROC_cuMemPoolCreate, 0);
	CUmemPoolProps sent;
	CUcontext context = (CUcontext)1;
	CUdeviceptr p = 0, nothing = 1;
	int device = -1;

	(void)state;
	memcpy(&sent, created->poolProps, sizeof(sent));
	assert_null(sent.win32SecurityAttributes);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, 100, pool, stream), CUDA_SUCCESS);
	assert_int_equal(p, next);
	assert_true(ckc_on_device(p + 99));
	assert_int_equal(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p), 0);
	assert_int_equal(device, 1); /* the pool's, not the stream's */
	assert_int_equal(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p), 0);
	assert_null(context);
	assert_int_equal(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p), 0);
	assert_non_null(of);
	assert_int_equal(cuMemFreeAsync(p, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeAsync(0, stream), CUDA_SUCCESS);
	peer_await_all();
	assert_int_equal(peer_count(CK_PROC_cuMemFreeAsync), 1);
	assert_int_equal(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	assert_int_equal(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, 1, pool, stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMemAllocAsync(NULL, 1, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAllocAsync(&nothing, 0, stream), CUDA_SUCCESS); /* so says an H200 */
	assert_int_equal(nothing, 0);
}

/* The driver may have the stream wait for the memory's last use. */
static void a_stream_that_has_allocated_is_waited_for(void **state)
{
	CUmemoryPool pool = make_pool(0);
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? cuMemAllocFromPoolAsync(&p, 100, pool, stream)
				   : cuMemAllocAsync(&p, 100, stream),
				 CUDA_SUCCESS);
		next += UNIT;
		peer_clear();
		assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
		assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
		assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
		assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
		assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 1);
	}
}

static void a_lack_of_memory_is_told_at_once(void **state)
{
	CUdeviceptr p = 77;

	(void)state;
	refusal = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(cuMemAllocAsync(&p, 100, stream), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(p, 77);
}

static void a_pool_that_the_driver_told_of_has_one_handle(void **state)
{
	CUmemoryPool first = NULL, current = NULL;

	(void)state;
	assert_int_equal(cuDeviceGetDefaultMemPool(&first, 0), CUDA_SUCCESS);
	assert_int_equal(cuDeviceGetMemPool(&current, 0), CUDA_SUCCESS);
	assert_non_null(first);
	assert_ptr_equal(first, current);
	assert_int_equal(cuDeviceGetMemPool(&current, 7), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetMemPool(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void attributes_have_their_own_sizes(void **state)
{
	CUmemoryPool pool = make_pool(0);
	int small[2] = {0, 5};
	cuuint64_t large = 0;

	(void)state;
	assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &large), 0);
	assert_int_equal(large, 0x123456789abcull);
	assert_int_equal(
		cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, small), 0);
	assert_int_equal(small[0], 0x56789abc);
	assert_int_equal(small[1], 5);
	assert_int_equal(cuMemPoolGetAttribute(pool, 77, &large), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemPoolSetAttribute(pool, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	cuMemPoolDestroy(pool);
}

/* Nothing of this process can be mapped at @at. */
static bool is_kept(CUdeviceptr at)
{
	void *own = mmap((void *)(uintptr_t)at, 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (own == MAP_FAILED)
		return true;
	munmap(own, 4096);
	return false;
}

#ifndef __SANITIZE_THREAD__ /* there is no place for the arena beside TSan's memory */
static void reservations_are_parts_of_one_that_both_sides_have(void **state)
{
	CUmemGenericAllocationHandle handle = make_physical();
	CUdeviceptr p = 0, q = 0, wished = 0;

	(void)state;
	assert_int_equal(cuMemAddressReserve(&p, 4 * UNIT, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressReserve(&q, UNIT, 16 * UNIT, 0, 0), CUDA_SUCCESS);
	assert_true(q >= p + 4 * UNIT && q % (16 * UNIT) == 0);
	assert_int_equal(cuMemAddressReserve(&wished, UNIT, 0, q + 5 * UNIT, 0), CUDA_SUCCESS);
	assert_int_equal(wished, q + 5 * UNIT);
	assert_int_equal(peer_count(CK_PROC_cuMemAddressReserve), 1);
	assert_true(is_kept(p) && is_kept(q));
	/* what lies between them is not reserved */
	assert_int_equal(cuMemMap(p + 3 * UNIT, 2 * UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(q - UNIT, UNIT, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(p, UNIT, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(p, UNIT), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, 3 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAddressFree(p + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAddressFree(p, 4 * UNIT), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAddressFree(q, UNIT), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(wished, UNIT), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuMemAddressFree), 0);
	cuMemRelease(handle);
}
#endif

/* A size that is no multiple of the unit: it is the driver's to judge. */
static void a_reservation_of_the_drivers_is_kept_and_given_back(void **state)
{
	CUdeviceptr p = 0;

	(void)state;
	assert_int_equal(cuMemAddressReserve(&p, UNIT + 4096, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(p, next);
	assert_true(is_kept(p));
	assert_int_equal(cuMemAddressFree(p, UNIT + 4096), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuMemAddressFree), 1);
	refusal = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(cuMemAddressReserve(&p, UNIT + 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

static void reservations_in_the_way_are_given_back(void **state)
{
	char *own = mmap((void *)(uintptr_t)next, 4096, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CUdeviceptr p = 0;

	(void)state;
	assert_ptr_not_equal(own, MAP_FAILED);
	assert_int_equal(cuMemAddressReserve(&p, UNIT + 4096, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_true(peer_count(CK_PROC_cuMemAddressReserve) > 1);
	assert_int_equal(peer_count(CK_PROC_cuMemAddressFree),
			 peer_count(CK_PROC_cuMemAddressReserve));
	munmap(own, 4096);
}

static void what_is_mapped_is_device_memory_once_it_has_access(void **state)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
				CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle = make_physical();
	CUmemAllocationProp prop;
	CUdeviceptr p = 0;
	char byte = 0;

	(void)state;
	assert_int_equal(cuMemAddressReserve(&p, 4 * UNIT, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(p, UNIT, 0, handle + 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemMap(p, UNIT, 0, handle, 0), CUDA_SUCCESS);
	assert_true(ckc_on_device(p + 5));
	assert_false(ckc_on_device(p + UNIT));
	assert_int_equal(cuMemcpyHtoD_v2(p, &byte, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemSetAccess(p, UNIT, &desc, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemSetAccess(p, UNIT, &desc, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2(p, &byte, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemGetAllocationPropertiesFromHandle(&prop, handle), CUDA_SUCCESS);
	assert_int_equal(prop.location.id, 1);
	refusal = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(cuMemUnmap(p, UNIT / 2), CUDA_ERROR_INVALID_VALUE);
	assert_true(ckc_on_device(p));
	refusal = CUDA_SUCCESS;
	assert_int_equal(cuMemUnmap(p, UNIT), CUDA_SUCCESS);
	assert_false(ckc_on_device(p));
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void a_descriptor_stands_for_its_object_in_this_session_only(void **state)
{
	CUmemGenericAllocationHandle handle = make_physical(), other = 0;
	CUmemoryPool pool = NULL;
	int fd = -1;

	(void)state;
	assert_int_equal(cuMemExportToShareableHandle(&fd, handle, POSIX_FD, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, POSIX_FD),
			 CUDA_SUCCESS);
	assert_int_not_equal(other, handle);
	assert_int_equal(
		cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, POSIX_FD, 0),
		CUDA_ERROR_INVALID_VALUE);
	ckc_client_current()->hello.session[0] ^= 1; /* as in another process */
	assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, POSIX_FD),
			 CUDA_ERROR_NOT_SUPPORTED);
	ckc_client_current()->hello.session[0] ^= 1;
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, POSIX_FD),
			 CUDA_ERROR_INVALID_VALUE);
	close(fd);
	assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, POSIX_FD),
			 CUDA_ERROR_INVALID_VALUE);
}

static void copies_of_a_batch_between_devices_are_one_message(void **state)
{
	static char host[64];
	CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dsts[4], srcs[4];
	size_t sizes[4] = {8, 8, 8, 8}, first = 0, fail = 99;
	CUdeviceptr p = 0;

	(void)state;
	assert_int_equal(cuMemAllocAsync(&p, 100, stream), CUDA_SUCCESS);
	for (int i = 0; i < 4; i++) {
		dsts[i] = p + 8 * (unsigned int)i;
		srcs[i] = p + 50 + 8 * (unsigned int)i;
	}
	assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attrs, &first, 1, &fail, stream),
			 CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_copy_batch), 1);
	srcs[2] = (CUdeviceptr)(uintptr_t)host; /* between others, and in their order */
	assert_int_equal(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 4, &attrs, &first, 1, stream),
			 CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_copy_batch), 3);
	assert_int_equal(peer_count(CK_PROC_upload), 1);
	srcs[2] = p + 99;
	assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attrs, &first, 1, &fail, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fail, 2);
	attrs.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	assert_int_equal(cuMemcpyBatchAsync(dsts, srcs, sizes, 4, &attrs, &first, 1, &fail, stream),
			 CUDA_ERROR_INVALID_VALUE);
	assert_true(fail == SIZE_MAX);
	assert_int_equal(cuMemFreeAsync(p, stream), CUDA_SUCCESS);
}

/* As in the driver: who frees last has often popped the context already. */
static void memory_is_freed_in_its_own_context_with_none_current(void **state)
{
	const ck_head *head;
	CUcontext here;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
	head = peer_args(CK_PROC_cuMemAlloc_v2, 0);
	assert_int_equal(cuCtxPopCurrent_v2(&here), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxPushCurrent_v2(here), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuMemFree_v2), 1);
	assert_int_equal(((ck_head *)peer_args(CK_PROC_cuMemFree_v2, 0))->ctx, head->ctx);
}

static void contexts_of_a_copy_between_peers_are_looked_at(void **state)
{
	CUcontext here = (CUcontext)ckc_context_current();
	CUdeviceptr p = 0;

	(void)state;
	assert_int_equal(cuMemAllocAsync(&p, 100, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyPeer(p, here, p + 50, here, 50), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyPeerAsync(p, here, p + 50, (CUcontext)&p, 50, stream),
			 CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuMemcpyPeerAsync(p, NULL, p + 50, here, 50, stream),
			 CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuMemcpyPeer(p, here, p + 50, here, 51), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_cuMemcpyPeer), 1);
	assert_int_equal(cuMemFreeAsync(p, stream), CUDA_SUCCESS);
}

#define memory_test(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		memory_test(memory_of_a_pool_is_known_and_freed_once),
		memory_test(a_stream_that_has_allocated_is_waited_for),
		memory_test(a_lack_of_memory_is_told_at_once),
		memory_test(memory_is_freed_in_its_own_context_with_none_current),
		memory_test(a_pool_that_the_driver_told_of_has_one_handle),
		memory_test(attributes_have_their_own_sizes),
#ifndef __SANITIZE_THREAD__
		memory_test(reservations_are_parts_of_one_that_both_sides_have),
#endif
		memory_test(a_reservation_of_the_drivers_is_kept_and_given_back),
		memory_test(reservations_in_the_way_are_given_back),
		memory_test(what_is_mapped_is_device_memory_once_it_has_access),
		memory_test(a_descriptor_stands_for_its_object_in_this_session_only),
		memory_test(copies_of_a_batch_between_devices_are_one_message),
		memory_test(contexts_of_a_copy_between_peers_are_looked_at),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
