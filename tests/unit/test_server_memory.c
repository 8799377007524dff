/*
 * tests/unit/test_server_memory.c - the server's table of device memory, pools and mappings, on a
 * driver that hands out addresses and checks nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

#define BASE 0x100000000ull
#define UNIT (2u << 20)

static struct cks_session *session;
static struct cks_request request;
static CUdeviceptr next; /* what the driver gives next */
static unsigned int freed, released;
static cuuint64_t threshold;
static CUmemAllocationProp made;
static const char pool_object, physical_object;

static CUresult give_async(CUdeviceptr *out, size_t size, CUstream stream)
{
	(void)stream;
	*out = next;
	return size > UNIT ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult give_from(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
	assert_ptr_equal(pool, &pool_object);
	return give_async(out, size, stream);
}

static CUresult take_async(CUdeviceptr address, CUstream stream)
{
	(void)address;
	(void)stream;
	freed++;
	return CUDA_SUCCESS;
}

static CUresult take(CUdeviceptr address)
{
	(void)address;
	freed++;
	return CUDA_SUCCESS;
}

static CUresult pool_create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	assert_null(props->win32SecurityAttributes);
	*pool = (CUmemoryPool)(uintptr_t)&pool_object;
	return CUDA_SUCCESS;
}

static CUresult pool_destroy(CUmemoryPool pool)
{
	(void)pool;
	released++;
	return CUDA_SUCCESS;
}

static CUresult attribute_get(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	(void)pool;
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		memcpy(value, &threshold, sizeof(threshold));
	else
		memcpy(value, &(int){1}, sizeof(int));
	return CUDA_SUCCESS;
}

static CUresult attribute_set(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	(void)pool;
	(void)attr;
	memcpy(&threshold, value, sizeof(threshold));
	return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)size;
	(void)flags;
	made = *prop;
	*handle = (uintptr_t)&physical_object;
	return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	assert_int_equal(handle, (uintptr_t)&physical_object);
	released++;
	return CUDA_SUCCESS;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
	(void)address;
	*handle = (uintptr_t)&physical_object;
	return CUDA_SUCCESS;
}

static CUresult props_get(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	(void)handle;
	*prop = made;
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	(void)at;
	(void)size;
	(void)offset;
	(void)flags;
	assert_int_equal(handle, (uintptr_t)&physical_object);
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
	(void)at;
	(void)size;
	return CUDA_SUCCESS;
}

static size_t access_count;

static CUresult set_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	(void)at;
	(void)size;
	(void)desc;
	access_count = count;
	return CUDA_SUCCESS;
}

/* Nothing is known besides the table, so that it alone decides. */
static CUresult no_range(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	(void)at;
	*base = 0;
	*size = 0;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuMemAllocAsync = give_async;
	ck_driver.cuMemAllocFromPoolAsync = give_from;
	ck_driver.cuMemFreeAsync = take_async;
	ck_driver.cuMemFree_v2 = take;
	ck_driver.cuMemPoolCreate = pool_create;
	ck_driver.cuMemPoolDestroy = pool_destroy;
	ck_driver.cuMemPoolGetAttribute = attribute_get;
	ck_driver.cuMemPoolSetAttribute = attribute_set;
	ck_driver.cuMemCreate = create;
	ck_driver.cuMemRelease = release;
	ck_driver.cuMemRetainAllocationHandle = retain;
	ck_driver.cuMemGetAllocationPropertiesFromHandle = props_get;
	ck_driver.cuMemMap = map;
	ck_driver.cuMemUnmap = unmap;
	ck_driver.cuMemSetAccess = set_access;
	ck_driver.cuMemGetAddressRange_v2 = no_range;
	freed = released = 0;
	next = BASE;
	session = session_without_client();
	request = (struct cks_request){.session = session};
	return 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

static CUresult alloc_async(size_t size, uint64_t pool)
{
	cuMemAllocFromPoolAsync_args from = {.bytesize = size, .pool = pool};
	cuMemAllocFromPoolAsync_res from_res;
	cuMemAllocAsync_args a = {.bytesize = size};
	cuMemAllocAsync_res res;

	return pool ? ck_serve_cuMemAllocFromPoolAsync(&request, &from, &from_res)
		    : ck_serve_cuMemAllocAsync(&request, &a, &res);
}

static CUresult free_async(CUdeviceptr at)
{
	cuMemFreeAsync_args a = {.dptr = at};

	return ck_serve_cuMemFreeAsync(&request, &a, NULL);
}

static CUresult do_map(CUdeviceptr at, size_t size)
{
	cuMemMap_args a = {.ptr = at, .size = size, .handle = 20};
	cuMemMap_res res;

	return ck_serve_cuMemMap(&request, &a, &res);
}

static CUresult do_create(uint64_t id)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .win32HandleMetaData = (void *)0xdead};
	cuMemCreate_args a = {.handle = id, .size = UNIT};
	cuMemCreate_res res;

	memcpy(a.prop, &prop, sizeof(prop));
	return ck_serve_cuMemCreate(&request, &a, &res);
}

static void memory_of_a_stream_is_freed_once(void **state)
{
	(void)state;
	assert_int_equal(alloc_async(100, 0), CUDA_SUCCESS);
	assert_int_equal(cks_memory_total(session->memory), 100);
	assert_int_equal(free_async(BASE + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(free_async(BASE), CUDA_SUCCESS);
	assert_int_equal(free_async(BASE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(freed, 1);
	assert_int_equal(cks_memory_total(session->memory), 0);
	assert_int_equal(alloc_async(UNIT + 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void memory_of_pools_stays_when_a_context_goes(void **state)
{
	struct cks_allocation a;

	(void)state;
	request.ctx = 16;
	assert_int_equal(alloc_async(100, 0), CUDA_SUCCESS);
	cks_memory_drop_context(session->memory, 16);
	assert_true(cks_memory_find(session->memory, BASE + 99, &a));
}

static void what_the_driver_gives_again_replaces_what_was_there(void **state)
{
	struct cks_allocation a;

	(void)state;
	assert_int_equal(alloc_async(100, 0), CUDA_SUCCESS);
	next = BASE + 50;
	assert_int_equal(alloc_async(10, 0), CUDA_SUCCESS);
	assert_false(cks_memory_find(session->memory, BASE, &a));
	assert_int_equal(cks_memory_total(session->memory), 10);
}

static void a_pool_is_found_by_its_number_only(void **state)
{
	cuMemPoolCreate_args a = {.pool = 30};
	cuMemPoolCreate_res res;
	CUmemPoolProps props = {.win32SecurityAttributes = (void *)0xdead};

	(void)state;
	memcpy(a.poolProps, &props, sizeof(props));
	assert_int_equal(alloc_async(10, 30), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ck_serve_cuMemPoolCreate(&request, &a, &res), CUDA_SUCCESS);
	assert_int_equal(alloc_async(10, 30), CUDA_SUCCESS);
	assert_int_equal(ck_serve_cuMemPoolCreate(&request, &a, &res), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(released, 1); /* the one that found no place */
}

static void attributes_of_a_pool_are_words_and_ints(void **state)
{
	cuMemPoolCreate_args create_args = {.pool = 30};
	ck_pool_attribute_args a = {.pool = 30,
				    .attr = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
				    .set = 1,
				    .value = 1ull << 40};
	cuMemPoolCreate_res created;
	ck_pool_attribute_res res = {0};

	(void)state;
	ck_serve_cuMemPoolCreate(&request, &create_args, &created);
	assert_int_equal(ck_serve_pool_attribute(&request, &a, &res), CUDA_SUCCESS);
	a.set = 0;
	assert_int_equal(ck_serve_pool_attribute(&request, &a, &res), CUDA_SUCCESS);
	assert_int_equal(res.result, 1ull << 40);
	a.attr = CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
	assert_int_equal(ck_serve_pool_attribute(&request, &a, &res), CUDA_SUCCESS);
	assert_int_equal(res.result, 1);
	a.attr = 99;
	assert_int_equal(ck_serve_pool_attribute(&request, &a, &res), CUDA_ERROR_INVALID_VALUE);
	a.pool = 31;
	assert_int_equal(ck_serve_pool_attribute(&request, &a, &res), CUDA_ERROR_INVALID_HANDLE);
}

static void mappings_side_by_side_are_one_piece(void **state)
{
	cuMemUnmap_args a = {.ptr = BASE, .size = UNIT};
	cuMemUnmap_res res;

	(void)state;
	assert_int_equal(do_map(BASE, UNIT), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(do_create(20), CUDA_SUCCESS);
	assert_null(made.win32HandleMetaData);
	assert_int_equal(do_map(BASE, UNIT), CUDA_SUCCESS);
	assert_int_equal(do_map(BASE + UNIT, UNIT), CUDA_SUCCESS);
	assert_true(cks_memory_covers(session->memory, BASE + 5, 2 * UNIT - 5));
	assert_false(cks_memory_covers(session->memory, BASE + 5, 2 * UNIT));
	assert_int_equal(cks_memory_free(session->memory, BASE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(free_async(BASE), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ck_serve_cuMemUnmap(&request, &a, &res), CUDA_SUCCESS);
	assert_false(cks_memory_covers(session->memory, BASE, 1));
	assert_true(cks_memory_covers(session->memory, BASE + UNIT, UNIT));
	assert_int_equal(freed, 0);
}

static void a_retained_handle_has_a_number_of_its_own(void **state)
{
	ck_physical_retain_args a = {.object = 21, .ptr = BASE};
	cuMemRelease_args release_args = {.handle = 20};
	ck_physical_retain_res res;

	(void)state;
	assert_int_equal(do_create(20), CUDA_SUCCESS);
	assert_int_equal(ck_serve_physical_retain(&request, &a, &res), CUDA_SUCCESS);
	assert_int_equal(ck_handlers[CK_PROC_cuMemRelease](&request, &release_args, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(ck_handlers[CK_PROC_cuMemRelease](&request, &release_args, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	release_args.handle = 21;
	assert_int_equal(ck_handlers[CK_PROC_cuMemRelease](&request, &release_args, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(released, 2);
}

static void a_list_of_odd_length_is_refused(void **state)
{
	char bytes[3 * sizeof(CUmemAccessDesc)] = {0};
	ck_set_access_args a = {.ptr = BASE, .size = UNIT, .desc = {sizeof(bytes), bytes}};
	ck_copy_batch_args batch = {.copies = {25, bytes}};
	ck_set_access_res res;

	(void)state;
	assert_int_equal(ck_serve_set_access(&request, &a, &res), CUDA_SUCCESS);
	assert_int_equal(access_count, 3);
	a.desc.desc_len--;
	assert_int_equal(ck_serve_set_access(&request, &a, &res), CUDA_ERROR_INVALID_VALUE);
	a.desc.desc_len = 0;
	assert_int_equal(ck_serve_set_access(&request, &a, &res), CUDA_ERROR_INVALID_VALUE);
	a.desc.desc_len = 1025 * sizeof(CUmemAccessDesc);
	assert_int_equal(ck_serve_set_access(&request, &a, &res), CUDA_ERROR_INVALID_VALUE);
	assert_int_not_equal(ck_serve_copy_batch(&request, &batch, NULL), CUDA_SUCCESS);
}

#define in_session(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_session(memory_of_a_stream_is_freed_once),
		in_session(memory_of_pools_stays_when_a_context_goes),
		in_session(what_the_driver_gives_again_replaces_what_was_there),
		in_session(a_pool_is_found_by_its_number_only),
		in_session(attributes_of_a_pool_are_words_and_ints),
		in_session(mappings_side_by_side_are_one_piece),
		in_session(a_retained_handle_has_a_number_of_its_own),
		in_session(a_list_of_odd_length_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
