/*
 * tests/unit/test_server_sparse.c - what a hostile client may have mapped behind arrays, and
 * decompressed: the driver gets what is whole and names what there is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "server/session/handles.h"
#include "server/memory/memory.h"
#include "server/session/session.h"

static struct cks_session session;
static struct cks_request request = {.session = &session};
static unsigned int driver_calls;

static CUresult fake_map_arrays(CUarrayMapInfo *maps, unsigned int count, CUstream stream)
{
	(void)stream;
	driver_calls += count;
	assert_ptr_equal(maps[0].resource.array, (void *)0x4000);
	assert_int_equal(maps[0].memHandle.memHandle, 0x4200);
	assert_int_equal(maps[0].offset, 65536);
	if (count > 1) {
		assert_ptr_equal(maps[1].resource.mipmap, (void *)0x4100);
		assert_int_equal(maps[1].memHandle.memHandle, 0);
	}
	return CUDA_SUCCESS;
}

static CUresult fake_decompress(CUmemDecompressParams *params, size_t count, unsigned int flags,
				size_t *fail, CUstream stream)
{
	(void)stream;
	driver_calls += (unsigned int)count;
	assert_int_equal(flags, 0);
	assert_null(fail);
	assert_int_equal(params[count - 1].srcNumBytes, 100);
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	ck_driver.cuMemMapArrayAsync = fake_map_arrays;
	ck_driver.cuMemBatchDecompressAsync = fake_decompress;
	return cks_memory_create(&session.memory) < 0 ? -1 : cks_handles_create(&session.handles);
}

static int end(void **state)
{
	(void)state;
	cks_handles_destroy(session.handles);
	cks_memory_destroy(session.memory);
	return 0;
}

static int fresh(void **state)
{
	(void)state;
	driver_calls = 0;
	return 0;
}

/* --- memory behind arrays */

static CUresult map_arrays(const CUarrayMapInfo *maps, size_t size)
{
	ck_map_arrays_args args = {0};

	args.maps.maps_val = (char *)(uintptr_t)maps;
	args.maps.maps_len = (u_int)size;
	return ck_serve_map_arrays(&request, &args, NULL);
}

static void test_arrays_are_mapped_by_objects_that_there_are(void **state)
{
	const CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
				    .resource.array = (CUarray)40,
				    .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
				    .memHandle.memHandle = 42,
				    .offset = 65536,
				    .deviceBitMask = 1};
	CUarrayMapInfo maps[2] = {map, map};

	(void)state;
	cks_handles_put(session.handles, 40, CK_KIND_ARRAY, 0, (void *)0x4000);
	cks_handles_put(session.handles, 41, CK_KIND_MIPMAP, 0, (void *)0x4100);
	cks_handles_put(session.handles, 42, CK_KIND_PHYSICAL, 0, (void *)0x4200);
	assert_int_equal(map_arrays(maps, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(map_arrays(maps, sizeof(maps) - 1), CUDA_ERROR_INVALID_VALUE);
	maps[1].resource.array = (CUarray)41; /* no array */
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_HANDLE);
	maps[1] = map;
	maps[1].resourceType = CU_RESOURCE_TYPE_LINEAR;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_VALUE);
	maps[1] = map;
	maps[1].memHandle.memHandle = 40;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_HANDLE);
	maps[1] = map;
	maps[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_VALUE);
	maps[1].memOperationType = 3;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_VALUE);
	maps[1] = map;
	maps[1].memHandleType = 1;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 0);
	maps[1] = map;
	maps[1].resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	maps[1].resource.mipmap = (CUmipmappedArray)41;
	maps[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	maps[1].memHandle.memHandle = 0;
	assert_int_equal(map_arrays(maps, sizeof(maps)), CUDA_SUCCESS);
	assert_int_equal(driver_calls, 2);
}

/* --- decompression */

static CUresult decompress(const CUmemDecompressParams *params, size_t size)
{
	ck_decompress_args args = {0};

	args.params.params_val = (char *)(uintptr_t)params;
	args.params.params_len = (u_int)size;
	return ck_serve_decompress(&request, &args, NULL);
}

static void test_only_device_memory_is_decompressed(void **state)
{
	const CUmemDecompressParams good = {.srcNumBytes = 100,
					    .dstNumBytes = 1000,
					    .src = (void *)0x700000000000,
					    .dst = (void *)0x700000000100,
					    .dstActBytes = (void *)0x700000000ffc,
					    .algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4};
	CUmemDecompressParams params[2] = {good, good};
	char here[8];

	(void)state;
	assert_int_equal(cks_memory_note(session.memory, 0, 0x700000000000, 4096), CUDA_SUCCESS);
	assert_int_equal(decompress(params, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(decompress(params, sizeof(params) - 1), CUDA_ERROR_INVALID_VALUE);
	params[1].src = here;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1] = good;
	params[1].dst = here;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1] = good;
	params[1].dstActBytes = (void *)here;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1].dstActBytes = (void *)0x700000000ffd; /* a byte too far */
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1] = good;
	params[1].srcNumBytes = 4097;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1].srcNumBytes = SIZE_MAX;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	params[1] = good;
	params[1].dstNumBytes = 4000;
	assert_int_equal(decompress(params, sizeof(params)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 0);
	assert_int_equal(decompress(&good, sizeof(good)), CUDA_SUCCESS);
	assert_int_equal(driver_calls, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_arrays_are_mapped_by_objects_that_there_are, fresh),
		cmocka_unit_test_setup(test_only_device_memory_is_decompressed, fresh),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
