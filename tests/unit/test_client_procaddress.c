/*
 * tests/unit/test_client_procaddress.c - which variant of a call cuGetProcAddress gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/link/client.h"
#include "libcuda/procaddress.h"

static void *get(const char *name, int version, cuuint64_t flags)
{
	void *f = (void *)1;

	assert_int_equal(cuGetProcAddress_v2(name, &f, version, flags, NULL), CUDA_SUCCESS);
	return f;
}

static void the_table_is_sorted_by_name_then_newest_first(void **state)
{
	(void)state;
	assert_true(ck_entry_count > 600);
	for (unsigned int i = 1; i < ck_entry_count; i++) {
		const struct ck_entry *a = &ck_entries[i - 1], *b = &ck_entries[i];
		int order = strcmp(a->name, b->name);

		assert_true(order < 0 || (order == 0 && a->since >= b->since));
		assert_non_null(b->function);
	}
}

static void every_name_is_found_at_the_newest_version(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < ck_entry_count; i++) {
		if (!ck_entries[i].per_thread)
			assert_non_null(get(ck_entries[i].name, 13050, 0));
	}
}

static void the_newest_variant_not_above_the_version_is_given(void **state)
{
	(void)state;
	assert_ptr_equal(get("cuMemAlloc", 3020, 0), cuMemAlloc_v2);
	assert_ptr_equal(get("cuMemAlloc", 13000, 0), cuMemAlloc_v2);
	assert_ptr_not_equal(get("cuMemAlloc", 2000, 0), cuMemAlloc_v2);
	assert_ptr_equal(get("cuDevicePrimaryCtxRelease", 7000, 0), cuDevicePrimaryCtxRelease);
	assert_ptr_equal(get("cuDevicePrimaryCtxRelease", 11000, 0), cuDevicePrimaryCtxRelease_v2);
	assert_ptr_equal(get("cuDeviceGetUuid", 9020, 0), cuDeviceGetUuid);
	assert_ptr_equal(get("cuDeviceGetUuid", 11040, 0), cuDeviceGetUuid_v2);
	assert_ptr_equal(get("cuCtxCreate", 3020, 0), cuCtxCreate_v2);
	assert_ptr_equal(get("cuCtxCreate", 12050, 0), cuCtxCreate_v4);
	assert_ptr_equal(get("cuCtxGetDevice", 12090, 0), cuCtxGetDevice);
	assert_ptr_equal(get("cuCtxGetDevice", 13000, 0), cuCtxGetDevice_v2);
	assert_ptr_equal(get("cuStreamGetCaptureInfo", 12020, 0), cuStreamGetCaptureInfo_v2);
	assert_ptr_equal(get("cuGetProcAddress", 11030, 0), cuGetProcAddress);
	assert_ptr_equal(get("cuGetProcAddress", 12000, 0), cuGetProcAddress_v2);
	assert_ptr_equal(get("cuLaunchHostFunc", 13000, 0), cuLaunchHostFunc);
	assert_ptr_equal(get("cuLaunchHostFunc", 13010, 0), cuLaunchHostFunc_v2);
	assert_ptr_equal(get("cuGraphAddNode", 13040, 0), cuGraphAddNode_v3);
}

static void per_thread_forms_are_given_where_there_are_any(void **state)
{
	(void)state;
	assert_ptr_equal(get("cuLaunchKernel", 7000, 2), cuLaunchKernel_ptsz);
	assert_ptr_equal(get("cuLaunchKernel", 7000, 1), cuLaunchKernel);
	assert_ptr_equal(get("cuMemcpyHtoDAsync", 13000, 2), cuMemcpyHtoDAsync_v2_ptsz);
	assert_ptr_equal(get("cuStreamGetCaptureInfo", 11030, 2), cuStreamGetCaptureInfo_v2_ptsz);
	assert_ptr_equal(get("cuStreamGetCaptureInfo", 10010, 2), cuStreamGetCaptureInfo_ptsz);
	assert_ptr_equal(get("cuStreamCreate", 7000, 2), cuStreamCreate);
	assert_ptr_equal(get("cuMemAlloc", 7000, 2), cuMemAlloc_v2);
}

static void a_per_thread_form_is_given_for_a_version_older_than_such_forms(void **state)
{
	(void)state;
	assert_ptr_equal(get("cuMemcpy", 4000, 2), cuMemcpy_ptds);
	assert_ptr_equal(get("cuMemcpyHtoD", 3020, 2), cuMemcpyHtoD_v2_ptds);
}

/* The arguments of the old variant are narrower: its caller must not get the new one. */
static void a_per_thread_form_of_another_variant_is_not_given(void **state)
{
	(void)state;
	assert_ptr_equal(get("cuMemcpyHtoD", 2000, 2), get("cuMemcpyHtoD", 2000, 0));
	assert_ptr_not_equal(get("cuMemcpyHtoD", 2000, 2), cuMemcpyHtoD_v2_ptds);
}

static void every_per_thread_form_is_reached_by_its_own_version(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < ck_entry_count; i++) {
		const struct ck_entry *e = &ck_entries[i];

		if (e->per_thread)
			assert_ptr_equal(get(e->name, e->since, 2), e->function);
	}
}

static void what_is_not_found_is_null_with_the_reason(void **state)
{
	CUdriverProcAddressQueryResult why = CU_GET_PROC_ADDRESS_SUCCESS;
	void *f = (void *)1;

	(void)state;
	assert_int_equal(cuGetProcAddress_v2("cuNoSuchCall", &f, 12000, 0, &why), CUDA_SUCCESS);
	assert_null(f);
	assert_int_equal(why, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	f = (void *)1;
	assert_int_equal(cuGetProcAddress_v2("cuLibraryLoadData", &f, 11080, 0, &why),
			 CUDA_SUCCESS);
	assert_null(f);
	assert_int_equal(why, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(cuGetProcAddress_v2("cuLibraryLoadData", &f, 12000, 0, &why),
			 CUDA_SUCCESS);
	assert_int_equal(why, CU_GET_PROC_ADDRESS_SUCCESS);
	/* a name with its suffix is no base name; names without a version are only exported */
	assert_null(get("cuMemAlloc_v2", 13000, 0));
	assert_null(get("cudbgMain", 13000, 0));
}

static void the_probe_with_an_empty_name_is_survived(void **state)
{
	CUdriverProcAddressQueryResult why;
	void *f;

	(void)state;
	assert_null(get("", 0, 0));
	assert_int_equal(cuGetProcAddress_v2("", &f, 0, 0, &why), CUDA_SUCCESS);
	assert_int_equal(why, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void the_older_form_returns_not_found_and_leaves_the_output(void **state)
{
	void *f = (void *)1;

	(void)state;
	assert_int_equal(cuGetProcAddress("cuNoSuchCall", &f, 11030, 0), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(f, (void *)1);
	assert_int_equal(cuGetProcAddress("cuMemAlloc", &f, 11030, 0), CUDA_SUCCESS);
	assert_ptr_equal(f, cuMemAlloc_v2);
}

static void bad_arguments_and_versions_above_the_drivers_are_refused(void **state)
{
	void *f = (void *)1;

	(void)state;
	assert_int_equal(cuGetProcAddress_v2(NULL, &f, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress_v2("cuInit", NULL, 12000, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress_v2("cuInit", &f, 12000, 3, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress_v2("cuInit", &f, 13051, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ckc_client_current()->driver_version = 12040;
	assert_int_equal(cuGetProcAddress_v2("cuInit", &f, 12041, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress("cuInit", &f, 13000, 0), CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(f, (void *)1);
	assert_int_equal(cuGetProcAddress_v2("cuInit", &f, 12040, 0, NULL), CUDA_SUCCESS);
	ckc_client_current()->driver_version = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_sorted_by_name_then_newest_first),
		cmocka_unit_test(every_name_is_found_at_the_newest_version),
		cmocka_unit_test(the_newest_variant_not_above_the_version_is_given),
		cmocka_unit_test(per_thread_forms_are_given_where_there_are_any),
		cmocka_unit_test(a_per_thread_form_is_given_for_a_version_older_than_such_forms),
		cmocka_unit_test(a_per_thread_form_of_another_variant_is_not_given),
		cmocka_unit_test(every_per_thread_form_is_reached_by_its_own_version),
		cmocka_unit_test(what_is_not_found_is_null_with_the_reason),
		cmocka_unit_test(the_probe_with_an_empty_name_is_survived),
		cmocka_unit_test(the_older_form_returns_not_found_and_leaves_the_output),
		cmocka_unit_test(bad_arguments_and_versions_above_the_drivers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
