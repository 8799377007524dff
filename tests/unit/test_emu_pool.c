/*
 * tests/unit/test_emu_pool.c - the emulated driver's memory pools, sharing, and peers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "emu/memory/arena.h"
#include "emu/core/emu.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define bad(call) assert_int_equal(call, CUDA_ERROR_INVALID_VALUE)

#define MEMORY (64ul << 20) /* bytes of each device */
#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUstream stream;

static int setup(void **state)
{
	CUcontext context;

	(void)state;
	setenv("CRICKET_EMU", "devices=2,memory=64M", 1);
	return cuInit(0) || cuCtxCreate_v2(&context, 0, 0) ||
	       cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static CUmemoryPool make_pool(int device, unsigned int handles)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = (CUmemAllocationHandleType)handles,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
	};
	CUmemoryPool pool;

	ok(cuMemPoolCreate(&pool, &props));
	return pool;
}

static uint64_t word(CUmemoryPool pool, CUmemPool_attribute attr)
{
	uint64_t value = ~0ull;

	ok(cuMemPoolGetAttribute(pool, attr, &value));
	return value;
}

static size_t free_now(void)
{
	size_t avail, total;

	ok(cuMemGetInfo_v2(&avail, &total));
	return avail;
}

static void memory_is_freed_when_the_stream_gets_there(void **state)
{
	unsigned char in[64], out[64];
	size_t before = free_now();
	CUdeviceptr p;

	(void)state;
	memset(in, 7, sizeof(in));
	ok(cuMemAllocAsync(&p, sizeof(in), stream));
	ok(cuMemcpyHtoDAsync_v2(p, in, sizeof(in), stream));
	ok(cuMemcpyDtoHAsync_v2(out, p, sizeof(out), stream));
	ok(cuMemFreeAsync(p, stream));
	ok(cuStreamSynchronize(stream));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(free_now(), before);
	bad(cuMemcpyHtoD_v2(p, in, 1));
}

static void freeing_twice_is_refused_by_the_call(void **state)
{
	CUdeviceptr p;

	(void)state;
	ok(cuMemAllocAsync(&p, 100, stream));
	ok(cuMemFreeAsync(p, stream));
	bad(cuMemFreeAsync(p, stream));
	bad(cuMemFree_v2(p));
	bad(cuMemFreeAsync(12345, stream));
	ok(cuMemFreeAsync(0, stream));
	ok(cuMemAlloc_v2(&p, 100));
	ok(cuMemFreeAsync(p, stream));
	bad(cuMemFree_v2(p));
	ok(cuMemAllocAsync(&p, 100, stream));
	ok(cuMemFree_v2(p));
	bad(cuMemFreeAsync(p, stream));
	ok(cuStreamSynchronize(stream));
}

static void a_pool_keeps_what_its_threshold_says(void **state)
{
	CUmemoryPool pool = make_pool(0, 0);
	uint64_t keep = 1 << 20;
	CUdeviceptr p;

	(void)state;
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ok(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream));
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1 << 20);
	ok(cuMemFreeAsync(p, stream));
	ok(cuStreamSynchronize(stream));
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 1 << 20);
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1 << 20);
	keep = 0;
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &keep));
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
	bad(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &keep));
	ok(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(word(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	ok(cuMemPoolDestroy(pool));
	bad(cuMemPoolTrimTo(pool, 0));
}

static void frees_that_are_queued_make_room(void **state)
{
	CUdeviceptr p, q;

	(void)state;
	ok(cuMemAllocAsync(&p, MEMORY * 3 / 4, stream));
	assert_int_equal(cuMemAllocAsync(&q, MEMORY / 2, stream), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFreeAsync(p, stream));
	ok(cuMemAllocAsync(&q, MEMORY * 3 / 4, stream));
	ok(cuMemFreeAsync(q, stream));
	ok(cuStreamSynchronize(stream));
}

static void memory_outlives_its_pool_and_its_context(void **state)
{
	CUmemoryPool pool = make_pool(0, 0), of = NULL;
	unsigned char byte = 9, back = 0;
	CUcontext context, popped;
	CUdeviceptr p;

	(void)state;
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuMemAllocFromPoolAsync(&p, 10, pool, CU_STREAM_LEGACY));
	ok(cuCtxPopCurrent_v2(&popped));
	ok(cuCtxDestroy_v2(context));
	ok(cuMemPoolDestroy(pool));
	ok(cuMemcpyHtoD_v2(p, &byte, 1));
	ok(cuMemcpyDtoH_v2(&back, p, 1));
	assert_int_equal(back, 9);
	ok(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	ok(cuMemFree_v2(p));
}

static void a_destroyed_current_pool_gives_way_to_the_default_one(void **state)
{
	CUmemoryPool pool = make_pool(0, 0), first, now;

	(void)state;
	ok(cuDeviceGetDefaultMemPool(&first, 0));
	ok(cuDeviceSetMemPool(0, pool));
	ok(cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, pool);
	bad(cuDeviceSetMemPool(1, pool));
	ok(cuMemPoolDestroy(pool));
	ok(cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, first);
	bad(cuMemPoolDestroy(first));
}

static void another_device_needs_access(void **state)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 1},
				CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool = make_pool(0, 0);
	struct ck_emu_memory memory;
	CUmemAccess_flags flags;
	CUdeviceptr p;

	(void)state;
	ok(cuMemAllocFromPoolAsync(&p, 10, pool, stream));
	ok(cuMemPoolGetAccess(&flags, pool, &desc.location));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ok(cuMemPoolSetAccess(pool, &desc, 1));
	ok(cuMemPoolGetAccess(&flags, pool, &desc.location));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_true(ck_emu_arena_find(p, &memory));
	assert_int_equal(memory.writers, 3);
	desc.location.id = 0;
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	bad(cuMemPoolSetAccess(pool, &desc, 1));
	ok(cuMemFreeAsync(p, stream));
	ok(cuMemPoolDestroy(pool));
}

static void a_pointer_is_imported_with_its_bytes(void **state)
{
	CUmemoryPool pool = make_pool(0, POSIX_FD), other, closed = make_pool(0, 0);
	unsigned char byte = 77, back = 0;
	CUmemPoolPtrExportData data;
	CUdeviceptr p, q;
	int fd = -1;

	(void)state;
	bad(cuMemPoolExportToShareableHandle(&fd, closed, POSIX_FD, 0));
	ok(cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0));
	ok(cuMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)fd, POSIX_FD, 0));
	close(fd);
	bad(cuMemAllocFromPoolAsync(&q, 10, other, stream));
	ok(cuMemAllocFromPoolAsync(&p, 100, pool, stream));
	ok(cuMemPoolExportPointer(&data, p));
	ok(cuMemPoolImportPointer(&q, other, &data));
	assert_int_not_equal(p, q);
	ok(cuMemcpyHtoD_v2(p + 5, &byte, 1));
	ok(cuMemcpyDtoH_v2(&back, q + 5, 1));
	assert_int_equal(back, 77);
	ok(cuMemFree_v2(q));
	ok(cuMemcpyDtoH_v2(&back, p + 5, 1));
	ok(cuMemFree_v2(p));
	bad(cuMemPoolImportPointer(&q, other, &data));
	ok(cuMemPoolDestroy(other));
	ok(cuMemPoolDestroy(pool));
	ok(cuMemPoolDestroy(closed));
}

static void allocations_of_a_capture_become_nodes(void **state)
{
	CUdeviceptr kept, p = 0;
	CUgraphExec exec;
	CUgraph graph;
	CUstream s;
	size_t nodes = 0;
	unsigned int out = 0, in = 1234;

	(void)state;
	ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&kept, 8));
	ok(cuMemcpyHtoD_v2(kept, &in, 4));
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	ok(cuMemAllocAsync(&p, 4, s));
	ok(cuMemcpyDtoDAsync_v2(p, kept, 4, s));
	ok(cuMemcpyDtoDAsync_v2(kept + 4, p, 4, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphGetNodes(graph, NULL, &nodes));
	assert_int_equal(nodes, 4);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 2; i++)
		ok(cuGraphLaunch(exec, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemcpyDtoH_v2(&out, kept + 4, 4));
	assert_int_equal(out, 1234);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFree_v2(kept));
}

static void boxes_go_from_device_to_device(void **state)
{
	CUDA_MEMCPY3D_PEER c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcPitch = 10,
				.dstPitch = 20,
				.WidthInBytes = 10,
				.Height = 3,
				.Depth = 1};
	unsigned char in[30], out[60] = {0};
	CUcontext here, other, popped;

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)i;
	ok(cuCtxGetCurrent(&here));
	ok(cuMemAlloc_v2(&c.srcDevice, sizeof(in)));
	ok(cuMemcpyHtoD_v2(c.srcDevice, in, sizeof(in)));
	ok(cuCtxCreate_v2(&other, 0, 1));
	ok(cuMemAlloc_v2(&c.dstDevice, sizeof(out)));
	c.srcContext = here;
	c.dstContext = other;
	ok(cuMemcpy3DPeer(&c));
	ok(cuMemcpyDtoH_v2(out, c.dstDevice, 50));
	for (size_t i = 0; i < sizeof(in); i++)
		assert_int_equal(out[i / 10 * 20 + i % 10], in[i]);
	c.dstContext = (CUcontext)in;
	assert_int_equal(cuMemcpy3DPeerAsync(&c, NULL), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxPopCurrent_v2(&popped));
	ok(cuCtxDestroy_v2(other));
	ok(cuMemFree_v2(c.srcDevice));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_freed_when_the_stream_gets_there),
		cmocka_unit_test(freeing_twice_is_refused_by_the_call),
		cmocka_unit_test(a_pool_keeps_what_its_threshold_says),
		cmocka_unit_test(frees_that_are_queued_make_room),
		cmocka_unit_test(memory_outlives_its_pool_and_its_context),
		cmocka_unit_test(a_destroyed_current_pool_gives_way_to_the_default_one),
		cmocka_unit_test(another_device_needs_access),
		cmocka_unit_test(a_pointer_is_imported_with_its_bytes),
		cmocka_unit_test(allocations_of_a_capture_become_nodes),
		cmocka_unit_test(boxes_go_from_device_to_device),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
