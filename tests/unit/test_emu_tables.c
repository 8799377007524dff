/*
 * tests/unit/test_emu_tables.c - what NVIDIA's runtime asks of the emulated driver beside the
 * documented calls, and what becomes of it when contexts go. The tables' own rules are in
 * test_client_export_tables.c: both libraries serve the same ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu/core/emu_api.h"
#include "libcuda/local.h"

typedef const void *const *words;

static const CUuuid interface_id = {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87,
				     0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}};
static const CUuuid tpc_id = {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0,
			       0xf1, 0xe7, 0xdd, 0x8b, 0xca}};

static void ok(CUresult result)
{
	assert_int_equal(result, CUDA_SUCCESS);
}

static words table(const CUuuid *id)
{
	const void *found = NULL;

	ok(cuGetExportTable(&found, id));
	return found;
}

static char keys[2];
static struct {
	CUcontext context, current;
	int count;
} seen;

static void destructor(CUcontext context, void *key, void *value)
{
	assert_ptr_equal(key, &keys[0]);
	assert_string_equal(value, "state");
	seen.context = context;
	cuCtxGetCurrent(&seen.current); /* calls are allowed: no lock is held */
	seen.count++;
}

static void the_primary_context_is_handed_out_without_being_retained(void **state)
{
	CUresult (*primary)(CUcontext *, CUdevice) =
		(CUresult(*)(CUcontext *, CUdevice))table(&interface_id)[2];
	CUcontext context, retained;
	unsigned int flags, version;
	int active;

	(void)state;
	ok(primary(&context, 0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	ok(cuCtxSetCurrent(context));
	assert_int_equal(cuCtxGetApiVersion(context, &version), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuDevicePrimaryCtxRetain(&retained, 0));
	assert_ptr_equal(retained, context);
	ok(cuCtxGetApiVersion(context, &version));
	ok(cuDevicePrimaryCtxRelease(0));
	ok(cuCtxSetCurrent(NULL));
	assert_int_equal(primary(&context, 9), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(primary(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void what_is_kept_of_a_context_goes_with_it(void **state)
{
	CUcontext context;
	void *value;

	(void)state;
	seen.count = 0;
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(ck_local_put(NULL, &keys[0], "state", destructor));
	ok(ck_local_get(&value, context, &keys[0]));
	assert_string_equal(value, "state");
	assert_int_equal(ck_local_get(&value, (CUcontext)-1, &keys[1]), CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxDestroy_v2(context));
	assert_int_equal(seen.count, 1);
	assert_ptr_equal(seen.context, context);
	assert_ptr_equal(seen.current, context);
	assert_int_equal(ck_local_get(&value, context, &keys[0]), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(ck_local_get(&value, NULL, &keys[0]), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_primary_context_loses_it_by_its_last_release_and_by_reset(void **state)
{
	CUcontext context;
	void *value;

	(void)state;
	seen.count = 0;
	ok(cuDevicePrimaryCtxRetain(&context, 0));
	ok(cuDevicePrimaryCtxRetain(&context, 0));
	ok(ck_local_put(context, &keys[0], "state", destructor));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	assert_int_equal(seen.count, 0);
	ok(ck_local_get(&value, context, &keys[0]));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	assert_int_equal(seen.count, 1);
	assert_int_equal(ck_local_get(&value, context, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	ok(cuDevicePrimaryCtxRetain(&context, 0));
	ok(ck_local_put(context, &keys[0], "state", destructor));
	ok(cuDevicePrimaryCtxReset_v2(0));
	assert_int_equal(seen.count, 2);
	ok(cuDevicePrimaryCtxRelease_v2(0)); /* the reset has released nothing */
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_green_context_is_its_primary_one_by_another_handle(void **state)
{
	CUcontext primary, view, current;
	CUdevResource whole, part, has;
	CUdevResourceDesc desc;
	unsigned int groups = 1;
	CUgreenCtx green, of;
	CUstream stream;
	void *value;

	(void)state;
	ok(cuDevicePrimaryCtxRetain(&primary, 0));
	ok(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
	ok(cuDevSmResourceSplitByCount(&part, &groups, &whole, NULL, 0, 8));
	ok(cuDevResourceGenerateDesc(&desc, &part, 1));
	ok(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	ok(cuCtxFromGreenCtx(&view, green));
	assert_ptr_not_equal(view, primary);
	ok(ck_local_put(primary, &keys[0], "state", NULL));
	ok(ck_local_get(&value, view, &keys[0])); /* the runtime's state is of one context */
	ok(cuCtxPushCurrent_v2(view));
	ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, view);
	ok(cuCtxGetDevResource(view, &has, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(has.sm.smCount, part.sm.smCount);
	ok(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	ok(cuStreamGetGreenCtx(stream, &of));
	assert_ptr_equal(of, green);
	ok(cuStreamGetGreenCtx(NULL, &of));
	assert_null(of);
	assert_int_equal(cuStreamGetGreenCtx(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxPopCurrent_v2(&current));
	assert_ptr_equal(current, view);
	ok(cuGreenCtxDestroy(green));
	assert_int_equal(cuCtxPushCurrent_v2(view), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuDevicePrimaryCtxReset_v2(0));
}

static void the_tpc_map_has_a_place_for_each_pair_of_multiprocessors(void **state)
{
	CUresult (*get)(unsigned char **, unsigned char **) =
		(CUresult(*)(unsigned char **, unsigned char **))table(&tpc_id)[4];
	CUresult (*release)(void *, void *) = (CUresult(*)(void *, void *))table(&tpc_id)[13];
	unsigned char *gpc = NULL, *index = NULL;
	CUcontext context;
	int count;

	(void)state;
	assert_int_equal(get(&gpc, &index), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	ok(get(&gpc, &index));
	for (int i = 0; i < count / 2; i++)
		assert_true(gpc[i] == 0 && index[i] == i);
	ok(release(gpc, index));
	ok(cuCtxDestroy_v2(context));
}

static void each_form_of_a_call_has_its_own_address(void **state)
{
	CUdriverProcAddressQueryResult status;
	void *plain, *threads, *old;

	(void)state;
	ok(cuGetProcAddress_v2("cuMemsetD8Async", &plain, 13000, 0, &status));
	ok(cuGetProcAddress_v2("cuMemsetD8Async", &threads, 13000,
			       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_ptr_equal(plain, cuMemsetD8Async);
	assert_ptr_equal(threads, cuMemsetD8Async_ptsz);
	ok(cuGetProcAddress_v2("cuCtxGetDevice", &old, 12090, 0, &status));
	assert_ptr_equal(old, cuCtxGetDevice);
	ok(cuGetProcAddress_v2("cuCtxGetDevice", &plain, 13000, 0, &status));
	assert_ptr_equal(plain, cuCtxGetDevice_v2);
	ok(cuGetProcAddress_v2("cuMemcpyBatchAsync", &old, 12000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_null(old);
	assert_int_equal(cuGetProcAddress_v2("cuInit", &old, 13060, 0, &status),
			 CUDA_ERROR_INVALID_VALUE);
}

static int group_begin(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", "devices=2", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cuInit(0) == CUDA_SUCCESS ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_primary_context_is_handed_out_without_being_retained),
		cmocka_unit_test(what_is_kept_of_a_context_goes_with_it),
		cmocka_unit_test(a_primary_context_loses_it_by_its_last_release_and_by_reset),
		cmocka_unit_test(a_green_context_is_its_primary_one_by_another_handle),
		cmocka_unit_test(the_tpc_map_has_a_place_for_each_pair_of_multiprocessors),
		cmocka_unit_test(each_form_of_a_call_has_its_own_address),
	};

	return cmocka_run_group_tests(tests, group_begin, NULL);
}
