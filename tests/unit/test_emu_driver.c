/*
 * tests/unit/test_emu_driver.c - the emulated driver, as a program sees it: its calls by name,
 * devices, contexts. Memory: test_emu_memory.c; modules and launches: test_emu_launch.c.
 */
#include "tests/unit/emu_fixture.h"

/* The address that a program of @version gets for a call. */
static void *address_of(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *address = NULL;

	ok(cuGetProcAddress_v2(name, &address, version, flags, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	return address;
}

static void a_call_is_given_in_the_form_of_the_version_asked_for(void **state)
{
	const cuuint64_t per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	(void)state;
	assert_ptr_equal(address_of("cuMemAlloc", 12000, 0), (void *)cuMemAlloc_v2);
	assert_ptr_equal(address_of("cuCtxCreate", 4000, 0), (void *)cuCtxCreate_v2);
	assert_ptr_equal(address_of("cuCtxCreate", 13000, 0), (void *)cuCtxCreate_v4);
	assert_ptr_equal(address_of("cuStreamGetCaptureInfo", 11030, 0),
			 (void *)cuStreamGetCaptureInfo_v2);
	assert_ptr_equal(address_of("cuStreamQuery", 12000, 0), (void *)cuStreamQuery);
	assert_ptr_equal(address_of("cuStreamQuery", 12000, per_thread),
			 (void *)cuStreamQuery_ptsz);
	assert_ptr_equal(address_of("cuMemcpyHtoD", 12000, per_thread),
			 (void *)cuMemcpyHtoD_v2_ptds);
}

/* --- the driver and its devices --- */

static void calls_before_init_are_refused_but_version_and_names_work(void **state)
{
	const char *text;
	CUcontext context;
	int number;

	(void)state;
	assert_int_equal(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
	ok(cuDriverGetVersion(&number));
	assert_int_equal(number, 13050);
	ok(cuGetErrorName(CUDA_ERROR_INVALID_PTX, &text));
	assert_string_equal(text, "CUDA_ERROR_INVALID_PTX");
	ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "out of memory");
	assert_int_equal(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void a_table_that_is_not_known_is_refused(void **state)
{
	const CUuuid id = {{1, 2, 3}};
	const void *table = &id;

	(void)state;
	assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
	assert_null(table);
	assert_int_equal(ckDriverAcceptsCubin(), 0);
}

static void an_unknown_name_has_no_address(void **state)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *address = &status;

	(void)state;
	ok(cuGetProcAddress_v2("cuNoSuchCall", &address, 13000, 0, &status));
	assert_null(address);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_int_equal(cuGetProcAddress("cuNoSuchCall", &address, 13000, 0),
			 CUDA_ERROR_NOT_FOUND);
	ok(cuGetProcAddress_v2("cuGetProcAddress", &address, 10000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static void the_environment_sets_count_and_memory_of_devices(void **state)
{
	size_t bytes;
	int count;

	(void)state;
	ok(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	ok(cuDeviceTotalMem_v2(&bytes, 1));
	assert_int_equal(bytes, MEMORY);
	assert_int_equal(cuDeviceGet(&count, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void every_attribute_has_a_value_and_what_is_missing_reads_0(void **state)
{
	int value;

	(void)state;
	for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
		ok(cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0));
	assert_int_equal(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	assert_int_equal(value, 16);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	assert_int_equal(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	assert_int_equal(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
	assert_int_equal(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0));
	assert_int_equal(value, 0);
}

static void a_pci_address_leads_back_to_its_device(void **state)
{
	char text[16];
	CUdevice device;

	(void)state;
	ok(cuDeviceGetPCIBusId(text, sizeof(text), 1));
	ok(cuDeviceGetByPCIBusId(&device, text));
	assert_int_equal(device, 1);
	assert_int_equal(cuDeviceGetByPCIBusId(&device, "0000:7F:00.0"), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetByPCIBusId(&device, "bus"), CUDA_ERROR_INVALID_VALUE);
}

static void two_devices_have_two_uuids(void **state)
{
	CUuuid a, b;

	(void)state;
	ok(cuDeviceGetUuid(&a, 0));
	ok(cuDeviceGetUuid_v2(&b, 1));
	assert_memory_not_equal(&a, &b, sizeof(a));
}

/* --- contexts --- */

static void a_call_without_a_context_is_refused(void **state)
{
	CUdeviceptr p = 42;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(p, 42);
}

static void what_is_a_context_s_goes_with_none_current(void **state)
{
	static const char nothing[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
	size_t before, after, total;
	static char bytes[8192];
	CUcontext context;
	CUmodule module;
	void *pinned;
	CUdeviceptr p;

	(void)state;
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuMemGetInfo_v2(&before, &total));
	ok(cuMemAlloc_v2(&p, 1 << 20));
	ok(cuModuleLoadData(&module, nothing));
	ok(cuMemHostAlloc(&pinned, 100, 0));
	ok(cuMemHostRegister_v2(bytes, sizeof(bytes), 0));
	ok(cuCtxPopCurrent_v2(NULL));
	ok(cuMemFreeHost(pinned));
	ok(cuMemHostUnregister(bytes));
	ok(cuMemFree_v2(p));
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	ok(cuModuleUnload(module));
	assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxPushCurrent_v2(context));
	ok(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
	ok(cuCtxDestroy_v2(context));
}

static void the_stack_of_contexts_is_last_in_first_out(void **state)
{
	CUcontext a, b, current;
	CUdevice device;

	(void)state;
	ok(cuCtxCreate_v2(&a, 0, 0));
	ok(cuCtxCreate_v4(&b, NULL, 0, 1));
	ok(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	ok(cuCtxPopCurrent_v2(&current));
	assert_ptr_equal(current, b);
	ok(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, a);
	ok(cuCtxDestroy_v2(a));
	ok(cuCtxGetCurrent(&current));
	assert_null(current);
	ok(cuCtxDestroy_v2(b));
	assert_int_equal(cuCtxDestroy_v2(b), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxSetCurrent((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_primary_context_keeps_its_handle_and_loses_its_memory(void **state)
{
	CUcontext first, second;
	unsigned int flags;
	CUdeviceptr p;
	int active;

	(void)state;
	ok(cuDevicePrimaryCtxRetain(&first, 0));
	ok(cuCtxSetCurrent(first));
	ok(cuMemAlloc_v2(&p, 4096));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 1);
	ok(cuDevicePrimaryCtxRelease(0));
	ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ok(cuDevicePrimaryCtxRetain(&second, 0));
	assert_ptr_equal(first, second);
	assert_int_equal(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	ok(cuDevicePrimaryCtxReset_v2(0));
	ok(cuDevicePrimaryCtxRelease_v2(0)); /* a reset releases nothing */
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxSetCurrent(NULL));
}

static void limits_answer_as_documented(void **state)
{
	unsigned int version;
	size_t value;
	int least, greatest;

	(void)state;
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	assert_int_equal(value, 1024);
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	assert_int_equal(value, 4096);
	assert_int_equal(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
			 CUDA_ERROR_UNSUPPORTED_LIMIT);
	assert_int_equal(cuCtxGetLimit(&value, (CUlimit)99), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_int_equal(least, 0);
	assert_int_equal(greatest, -5);
	ok(cuCtxGetApiVersion(NULL, &version));
	assert_int_equal(version, 3020);
}

static void peer_access_is_enabled_once(void **state)
{
	CUcontext peer;
	int can;

	ok(cuDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	ok(cuCtxCreate_v2(&peer, 0, 1));
	ok(cuCtxPopCurrent_v2(NULL));
	assert_int_equal(cuCtxDisablePeerAccess(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	ok(cuCtxEnablePeerAccess(peer, 0));
	assert_int_equal(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	assert_int_equal(cuCtxEnablePeerAccess(*state, 0), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxDisablePeerAccess(peer));
	ok(cuCtxDestroy_v2(peer));
}

static void a_context_is_detached_as_often_as_it_was_attached(void **state)
{
	CUcontext context, same, current;

	(void)state;
	ok(cuCtxCreate_v2(&context, 0, 0));
	ok(cuCtxAttach(&same, 0));
	assert_ptr_equal(same, context);
	assert_int_equal(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCtxDetach((CUcontext)0x1234), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxDetach(context));
	ok(cuCtxSynchronize());
	ok(cuCtxDetach(context));
	ok(cuCtxGetCurrent(&current));
	assert_null(current);
	assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_stack_is_no_larger_than_a_threads_memory(void **state)
{
	size_t value;

	(void)state;
	ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512 << 10));
	assert_int_equal(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (512 << 10) + 1),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	assert_int_equal(value, 512 << 10);
}

static void notice(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
	(void)info, (void)data, (void)handle;
}

static void notifications_are_registered_and_ended(void **state)
{
	CUasyncCallbackHandle handle;

	(void)state;
	assert_int_equal(cuDeviceRegisterAsyncNotification(9, notice, NULL, &handle),
			 CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceRegisterAsyncNotification(0, NULL, NULL, &handle),
			 CUDA_ERROR_INVALID_VALUE);
	ok(cuDeviceRegisterAsyncNotification(0, notice, NULL, &handle));
	assert_int_equal(cuDeviceUnregisterAsyncNotification(1, handle), CUDA_ERROR_INVALID_VALUE);
	ok(cuDeviceUnregisterAsyncNotification(0, handle));
	assert_int_equal(cuDeviceUnregisterAsyncNotification(0, handle), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	const struct CMUnitTest before[] = {
		cmocka_unit_test(calls_before_init_are_refused_but_version_and_names_work),
		cmocka_unit_test(a_table_that_is_not_known_is_refused),
		cmocka_unit_test(an_unknown_name_has_no_address),
		cmocka_unit_test(a_call_is_given_in_the_form_of_the_version_asked_for),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_sets_count_and_memory_of_devices),
		cmocka_unit_test(every_attribute_has_a_value_and_what_is_missing_reads_0),
		cmocka_unit_test(a_pci_address_leads_back_to_its_device),
		cmocka_unit_test(two_devices_have_two_uuids),
		cmocka_unit_test(a_call_without_a_context_is_refused),
		cmocka_unit_test(what_is_a_context_s_goes_with_none_current),
		cmocka_unit_test(the_stack_of_contexts_is_last_in_first_out),
		cmocka_unit_test(a_primary_context_keeps_its_handle_and_loses_its_memory),
		in_context(limits_answer_as_documented),
		in_context(peer_access_is_enabled_once),
		cmocka_unit_test(a_context_is_detached_as_often_as_it_was_attached),
		in_context(a_stack_is_no_larger_than_a_threads_memory),
		cmocka_unit_test(notifications_are_registered_and_ended),
	};
	int failed = cmocka_run_group_tests(before, NULL, NULL);

	return failed + cmocka_run_group_tests(tests, devices_setup, NULL);
}
