/*
 * tests/unit/test_client_tensor_map.c - the server encodes a tensor descriptor once.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"

#define MANY 10000 /* more than are kept */

static CUresult refusal; /* what the peer answers */

/* The peer's descriptor is a sum over the arguments. */
static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static unsigned char bytes[sizeof(CUtensorMap)];
	const ck_tensor_map_args *a = m->args;
	ck_tensor_map_res *r = res;
	uint64_t sum;

	(void)payload;
	if (m->number != CK_PROC_tensor_map || refusal)
		return m->number == CK_PROC_tensor_map ? refusal : CUDA_SUCCESS;
	sum = a->address + 3 * a->rank + 5 * a->kind + 7 * a->swizzle;
	for (u_int i = 0; i < a->box.box_len / 4; i++)
		sum = 31 * sum + (uint64_t)((const char *)a->box.box_val)[4 * i];
	for (u_int i = 0; i < a->lower.lower_len / 4; i++)
		sum = 37 * sum + (uint64_t)((const char *)a->lower.lower_val)[4 * i];
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, &sum, sizeof(sum));
	r->map.map_val = (char *)bytes;
	r->map.map_len = sizeof(bytes);
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	return peer_begin(state);
}

static CUresult tile(CUtensorMap *map, uintptr_t address, cuuint32_t rank, cuuint32_t box,
		     CUtensorMapSwizzle swizzle)
{
	const cuuint64_t dims[] = {64, 64, 8}, strides[] = {128, 8192};
	const cuuint32_t boxes[] = {16, box, 1}, steps[] = {1, 1, 1};

	return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)address,
				      dims, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
				      swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
				      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult column(CUtensorMap *map, int lower)
{
	const cuuint64_t dims[] = {64, 32, 32, 8}, strides[] = {128, 4096, 131072};
	const cuuint32_t steps[] = {1, 1, 1, 1};
	const int lowers[] = {lower, -1}, uppers[] = {1, 1};

	return cuTensorMapEncodeIm2col(
		map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)4096, dims, strides, lowers,
		uppers, 16, 4, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void a_descriptor_is_asked_for_once(void **state)
{
	CUtensorMap first, again;

	(void)state;
	peer_clear();
	assert_int_equal(tile(&first, 4096, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
	for (int i = 0; i < 100; i++) {
		memset(&again, i, sizeof(again));
		assert_int_equal(tile(&again, 4096, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE),
				 CUDA_SUCCESS);
		assert_memory_equal(&again, &first, sizeof(first));
	}
	assert_int_equal(peer_count(CK_PROC_tensor_map), 1);
}

static void each_argument_makes_another_one(void **state)
{
	CUtensorMap maps[7];

	(void)state;
	peer_clear();
	for (int pass = 0; pass < 2; pass++) {
		CUtensorMap now[7];

		assert_int_equal(tile(&now[0], 8192, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), 0);
		assert_int_equal(tile(&now[1], 16384, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), 0);
		assert_int_equal(tile(&now[2], 8192, 3, 8, CU_TENSOR_MAP_SWIZZLE_NONE), 0);
		assert_int_equal(tile(&now[3], 8192, 2, 16, CU_TENSOR_MAP_SWIZZLE_NONE), 0);
		assert_int_equal(tile(&now[4], 8192, 2, 8, CU_TENSOR_MAP_SWIZZLE_32B), 0);
		assert_int_equal(column(&now[5], -1), 0);
		assert_int_equal(column(&now[6], -2), 0);
		for (size_t i = 0; i < 7; i++) {
			for (size_t k = 0; k < i; k++)
				assert_memory_not_equal(&now[i], &now[k], sizeof(now[i]));
		}
		if (pass > 0)
			assert_memory_equal(now, maps, sizeof(maps));
		memcpy(maps, now, sizeof(maps));
	}
	assert_int_equal(peer_count(CK_PROC_tensor_map), 7);
}

static void errors_are_not_kept(void **state)
{
	CUtensorMap map;

	(void)state;
	peer_clear();
	refusal = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(tile(&map, 4112, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), refusal);
	refusal = CUDA_SUCCESS;
	assert_int_equal(tile(&map, 4112, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
	assert_int_equal(tile(&map, 4112, 0, 8, CU_TENSOR_MAP_SWIZZLE_NONE),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_count(CK_PROC_tensor_map), 2);
}

/* Memory for them is bounded, and all of them are right. */
static void older_ones_make_room(void **state)
{
	CUtensorMap map;

	(void)state;
	for (uint64_t i = 1; i <= MANY; i++) {
		uint64_t sum = 0, expected = 16 * i + 3 * 2;

		assert_int_equal(tile(&map, 16 * i, 2, 8, CU_TENSOR_MAP_SWIZZLE_NONE), 0);
		memcpy(&sum, &map, sizeof(sum));
		expected = 31 * (31 * expected + 16) + 8;
		assert_int_equal(sum, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_is_asked_for_once),
		cmocka_unit_test(each_argument_makes_another_one),
		cmocka_unit_test(errors_are_not_kept),
		cmocka_unit_test(older_ones_make_room),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
