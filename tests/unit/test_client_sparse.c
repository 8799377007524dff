/*
 * tests/unit/test_client_sparse.c - memory behind sparse arrays, and decompression: what is refused
 * at once, and what is sent. The first device has both, the second neither.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/link/object.h"
#include "tests/unit/client_peer.h"

#define ADDRESS 0x700000000000ull
#define SIZE 8192

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define refused(call, error) assert_int_equal(call, CUDA_ERROR_##error)

static CUcontext first, second;
static CUarray array;
static CUmipmappedArray mipmap;
static CUmemGenericAllocationHandle pool, plain;

static unsigned int flags = CUDA_ARRAY3D_SPARSE; /* of every array */

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_cuMemAlloc_v2)
		((cuMemAlloc_v2_res *)res)->dptr = ADDRESS;
	else if (m->number == CK_PROC_cuArray3DGetDescriptor_v2)
		memcpy(((cuArray3DGetDescriptor_v2_res *)res)->pArrayDescriptor,
		       &(CUDA_ARRAY3D_DESCRIPTOR){.Width = 256, .Height = 256, .Flags = flags},
		       sizeof(CUDA_ARRAY3D_DESCRIPTOR));
	else if (m->number == CK_PROC_cuMipmappedArrayGetLevel)
		((cuMipmappedArrayGetLevel_res *)res)->pLevelArray = 1ull
								     << 32; /* the server's ids */
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 256,
					.Height = 256,
					.NumChannels = 1,
					.Format = CU_AD_FORMAT_FLOAT,
					.Flags = CUDA_ARRAY3D_SPARSE};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUdeviceptr memory;

	peer.call = answer;
	if (peer_begin(state) < 0 || cuCtxGetCurrent(&first) ||
	    cuDevicePrimaryCtxRetain(&second, 1) || cuMemAlloc_v2(&memory, SIZE) ||
	    cuArray3DCreate_v2(&array, &desc) || cuMipmappedArrayCreate(&mipmap, &desc, 2) ||
	    cuMemCreate(&plain, 2 << 20, &prop, 0))
		return -1;
	prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	return (int)cuMemCreate(&pool, 2 << 20, &prop, 0);
}

/* --- arrays */

static CUarrayMapInfo map_of(void)
{
	return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
				.resource.array = array,
				.subresource.sparseLevel = {.extentWidth = 128},
				.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
				.memHandle.memHandle = pool,
				.offset = 65536,
				.deviceBitMask = 1};
}

#define MAP(member, value)                                                                         \
	({                                                                                         \
		CUarrayMapInfo list[2] = {map_of(), map_of()};                                     \
		list[1].member = (value);                                                          \
		cuMemMapArrayAsync(list, 2, NULL);                                                 \
	})

static void what_is_mapped_travels_with_ids(void **state)
{
	CUarrayMapInfo list[2] = {map_of(), map_of()}, sent[2];
	ck_map_arrays_args *args;
	CUstream stream;

	(void)state;
	ok(cuStreamCreate(&stream, 0));
	list[1].resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	list[1].resource.mipmap = mipmap;
	list[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	list[1].memHandle.memHandle = 0;
	ok(cuMemMapArrayAsync(list, 2, stream));
	args = peer_args(CK_PROC_map_arrays, 0);
	assert_non_null(args);
	assert_int_equal(args->stream, ((struct ckc_object *)stream)->id);
	assert_int_equal(args->maps.maps_len, sizeof(sent));
	memcpy(sent, args->maps.maps_val, sizeof(sent));
	assert_int_equal((uintptr_t)sent[0].resource.array, ((struct ckc_object *)array)->id);
	assert_int_equal(sent[0].memHandle.memHandle, ((struct ckc_object *)pool)->id);
	assert_int_equal(sent[0].subresource.sparseLevel.extentWidth, 128);
	assert_int_equal(sent[0].offset, 65536);
	assert_int_equal((uintptr_t)sent[1].resource.mipmap, ((struct ckc_object *)mipmap)->id);
	assert_int_equal(sent[1].memHandle.memHandle, 0);
	ok(cuStreamDestroy_v2(stream));
}

static void a_long_list_goes_in_several_messages(void **state)
{
	static CUarrayMapInfo list[600];

	(void)state;
	peer_clear();
	for (size_t i = 0; i < 600; i++)
		list[i] = map_of();
	ok(cuMemMapArrayAsync(list, 600, NULL));
	assert_int_equal(peer_count(CK_PROC_map_arrays), 3);
	list[599].deviceBitMask = 2;
	refused(cuMemMapArrayAsync(list, 600, NULL), INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_map_arrays), 3); /* nothing of it */
}

static void wrong_maps_are_refused_and_nothing_is_sent(void **state)
{
	CUarrayMapInfo good = map_of();
	CUarray level;

	(void)state;
	peer_clear();
	refused(cuMemMapArrayAsync(NULL, 1, NULL), INVALID_VALUE);
	refused(cuMemMapArrayAsync(&good, 0, NULL), INVALID_VALUE);
	refused(cuMemMapArrayAsync(&good, 1, (CUstream)&good), INVALID_HANDLE);
	refused(MAP(resourceType, CU_RESOURCE_TYPE_LINEAR), INVALID_VALUE);
	refused(MAP(resource.array, (CUarray)&good), INVALID_HANDLE);
	refused(MAP(resource.mipmap, mipmap), INVALID_HANDLE);
	refused(MAP(resourceType, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY), INVALID_HANDLE);
	refused(MAP(memOperationType, 0), INVALID_VALUE);
	refused(MAP(memOperationType, CU_MEM_OPERATION_TYPE_UNMAP), INVALID_VALUE); /* of memory */
	refused(MAP(memHandleType, 1), INVALID_VALUE);
	refused(MAP(memHandle.memHandle, 0), INVALID_VALUE);
	refused(MAP(memHandle.memHandle, plain), INVALID_VALUE);
	refused(MAP(subresourceType, 2), INVALID_VALUE);
	refused(MAP(deviceBitMask, 0), INVALID_VALUE);
	refused(MAP(deviceBitMask, 2), INVALID_VALUE);
	refused(MAP(deviceBitMask, 3), INVALID_VALUE);
	refused(MAP(flags, 1), INVALID_VALUE);
	refused(MAP(reserved[1], 1), INVALID_VALUE);
	ok(cuMipmappedArrayGetLevel(&level, mipmap, 0));
	refused(MAP(resource.array, level), INVALID_VALUE);
	flags = 0;
	ok(cuArray3DCreate_v2(&level, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = 256}));
	refused(MAP(resource.array, level), INVALID_VALUE);
	ok(cuCtxSetCurrent(second));
	refused(cuMemMapArrayAsync(&good, 1, NULL), NOT_SUPPORTED);
	ok(cuCtxSetCurrent(first));
	assert_int_equal(peer_count(CK_PROC_map_arrays), 0);
}

/* --- decompression */

static CUmemDecompressParams params_of(void)
{
	return (CUmemDecompressParams){.srcNumBytes = 100,
				       .dstNumBytes = 1000,
				       .src = (void *)ADDRESS,
				       .dst = (void *)(ADDRESS + 4096),
				       .dstActBytes = (void *)(ADDRESS + SIZE - 4),
				       .algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4};
}

#define DECOMPRESS(member, value)                                                                  \
	({                                                                                         \
		CUmemDecompressParams list[2] = {params_of(), params_of()};                        \
		list[1].member = (value);                                                          \
		fail = 77;                                                                         \
		cuMemBatchDecompressAsync(list, 2, 0, &fail, NULL);                                \
	})
#define refused_second(call)                                                                       \
	do {                                                                                       \
		assert_int_equal(call, CUDA_ERROR_INVALID_VALUE);                                  \
		assert_int_equal(fail, 1);                                                         \
	} while (0)

static void operations_travel_as_they_are(void **state)
{
	static CUmemDecompressParams list[300];
	ck_decompress_args *args;
	size_t fail = 77;

	(void)state;
	for (size_t i = 0; i < 300; i++)
		list[i] = params_of();
	ok(cuMemBatchDecompressAsync(list, 300, 0, &fail, NULL));
	assert_int_equal(fail, 77);
	assert_int_equal(peer_count(CK_PROC_decompress), 2);
	args = peer_args(CK_PROC_decompress, 1);
	assert_int_equal(args->params.params_len, 44 * sizeof(list[0]));
	assert_memory_equal(args->params.params_val, list, 44 * sizeof(list[0]));
}

static void the_operation_that_is_wrong_is_told(void **state)
{
	CUmemDecompressParams good = params_of();
	size_t fail;
	int capable = 0;

	(void)state;
	peer_clear();
	refused_second(DECOMPRESS(algo, CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY));
	refused_second(DECOMPRESS(algo, 0));
	refused_second(DECOMPRESS(algo, 5));
	refused_second(DECOMPRESS(srcNumBytes, 0));
	refused_second(DECOMPRESS(srcNumBytes, 4097));
	refused_second(DECOMPRESS(dstNumBytes, SIZE_MAX));
	refused_second(DECOMPRESS(src, (void *)(ADDRESS + SIZE - 99)));
	refused_second(DECOMPRESS(dst, &good));
	refused_second(DECOMPRESS(dstActBytes, NULL));
	refused_second(DECOMPRESS(padding[19], 1));
	refused(cuMemBatchDecompressAsync(&good, 1, 1, &fail, NULL), INVALID_VALUE);
	assert_int_equal(fail, SIZE_MAX);
	refused(cuMemBatchDecompressAsync(NULL, 1, 0, &fail, NULL), INVALID_VALUE);
	refused(cuMemBatchDecompressAsync(&good, 0, 0, NULL, NULL), INVALID_VALUE);
	ok(cuCtxSetCurrent(second));
	refused(cuMemBatchDecompressAsync(&good, 1, 0, &fail, NULL), NOT_SUPPORTED);
	assert_int_equal(fail, SIZE_MAX);
	ok(cuCtxSetCurrent(first));
	assert_int_equal(peer_count(CK_PROC_decompress), 0);
	ok(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, ADDRESS));
	assert_int_equal(capable, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_mapped_travels_with_ids),
		cmocka_unit_test(a_long_list_goes_in_several_messages),
		cmocka_unit_test(wrong_maps_are_refused_and_nothing_is_sent),
		cmocka_unit_test(operations_travel_as_they_are),
		cmocka_unit_test(the_operation_that_is_wrong_is_told),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
