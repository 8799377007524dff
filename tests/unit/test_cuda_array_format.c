/*
 * tests/unit/test_cuda_array_format.c - the sizes of elements that client, server and emulated
 * driver count with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/array_format.h"

static void a_channel_has_the_bytes_of_its_format(void **state)
{
	(void)state;
	assert_int_equal(ck_channel_bytes(CU_AD_FORMAT_UNSIGNED_INT8), 1);
	assert_int_equal(ck_channel_bytes(CU_AD_FORMAT_SIGNED_INT16), 2);
	assert_int_equal(ck_channel_bytes(CU_AD_FORMAT_HALF), 2);
	assert_int_equal(ck_channel_bytes(CU_AD_FORMAT_UNSIGNED_INT32), 4);
	assert_int_equal(ck_channel_bytes(CU_AD_FORMAT_FLOAT), 4);
}

static void an_unknown_format_has_none(void **state)
{
	(void)state;
	assert_int_equal(ck_channel_bytes((CUarray_format)0), 0);
	assert_int_equal(ck_channel_bytes((CUarray_format)0xb0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_channel_has_the_bytes_of_its_format),
		cmocka_unit_test(an_unknown_format_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
