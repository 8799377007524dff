/*
 * tests/unit/test_client_context.c - contexts, context-local storage, devices, pinned memory and
 * pointers, as far as the client answers alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/objects/context.h"
#include "libcuda/local.h"
#include "tests/unit/client_session.h"

static char keys[3];

/* --- the stack of current contexts */

static void nothing_is_current_at_first(void **state)
{
	CUcontext c = (CUcontext)1;
	CUdevice device;
	uint64_t id = 7;

	(void)state;
	assert_int_equal(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	assert_null(c);
	assert_int_equal(cuCtxPopCurrent_v2(&c), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(ckc_enter(&id), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(ckc_enter_any(&id), CUDA_SUCCESS);
	assert_int_equal(id, 0);
	assert_int_equal(cuCtxDetach((CUcontext)&c), CUDA_ERROR_INVALID_CONTEXT);
}

static void contexts_are_pushed_popped_and_replaced(void **state)
{
	CUcontext a = (CUcontext)session_activate(0), b = (CUcontext)session_activate(1), c;
	uint64_t id;

	(void)state;
	assert_int_equal(cuCtxPushCurrent_v2(a), CUDA_SUCCESS);
	assert_int_equal(cuCtxPushCurrent_v2(b), CUDA_SUCCESS);
	assert_int_equal(ckc_enter(&id), CUDA_SUCCESS);
	assert_int_equal(id, ckc_gpu(1)->primary->object.id);
	assert_int_equal(cuCtxPopCurrent_v2(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, b);
	assert_int_equal(cuCtxSetCurrent(b), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetCurrent(&c), CUDA_SUCCESS);
	assert_ptr_equal(c, b);
	assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	assert_int_equal(cuCtxPopCurrent_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
}

static void the_stack_has_an_end(void **state)
{
	CUcontext a = (CUcontext)session_activate(0);
	int n = 0;

	(void)state;
	while (cuCtxPushCurrent_v2(a) == CUDA_SUCCESS && n < 1000)
		n++;
	assert_int_equal(n, CK_CONTEXT_STACK);
	assert_int_equal(cuCtxSetCurrent(a), CUDA_SUCCESS);
	while (n-- > 0)
		assert_int_equal(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
	assert_null(ckc_context_current());
}

/* All of it, more than there is, and then in reverse order. */
static void a_thread_has_memory_for_the_length_of_a_function(void **state)
{
	unsigned char *room[CK_THREAD_ROOM / 16 + 3], *first = ckc_room_take(1);
	const struct ckc_thread *t = ckc_thread();
	size_t n = CK_THREAD_ROOM / 16 + 3;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		room[i] = ckc_room_take(i % 2 ? 16 : 0);
		assert_non_null(room[i]);
		assert_int_equal((uintptr_t)room[i] % 16, 0);
		memset(room[i], (int)i, i % 2 ? 16 : 0);
	}
	assert_int_equal(t->room_used, CK_THREAD_ROOM);
	for (size_t i = n; i-- > 0;) {
		for (size_t k = 0; i % 2 && k < 16; k++)
			assert_int_equal(room[i][k], (unsigned char)i);
		ckc_room_give(room[i]);
	}
	assert_int_equal(t->room_used, 16);
	ckc_room_give(first);
	assert_int_equal(t->room_used, 0);
}

static void handles_that_are_none_are_refused(void **state)
{
	CUcontext bad = (CUcontext)keys;
	unsigned long long id;
	unsigned int version;

	(void)state;
	assert_int_equal(cuCtxSetCurrent(bad), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxPushCurrent_v2(bad), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCtxDestroy_v2(bad), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCtxDestroy_v2((CUcontext)ckc_gpu(0)->primary),
			 CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxGetApiVersion(bad, &version), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxGetId(bad, &id), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_dead_context_stays_current_and_takes_no_work(void **state)
{
	struct ckc_context *p = session_activate(0), *c;
	CUcontext handle = (CUcontext)p, now;
	unsigned long long number;
	unsigned int version;
	CUdevice device;

	(void)state;
	assert_int_equal(cuCtxSetCurrent(handle), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetApiVersion(handle, &version), CUDA_SUCCESS);
	assert_int_equal(version, 3020);
	p->active = false;
	assert_int_equal(cuCtxGetCurrent(&now), CUDA_SUCCESS);
	assert_ptr_equal(now, handle);
	assert_int_equal(cuCtxGetDevice(&device), CUDA_SUCCESS);
	assert_int_equal(ckc_context_usable(&c), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(cuCtxGetApiVersion(handle, &version), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxGetApiVersion(NULL, &version), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_int_equal(cuCtxGetId(handle, &number), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	p->active = true;
	assert_int_equal(ckc_context_usable(&c), CUDA_SUCCESS);
	cuCtxSetCurrent(NULL);
}

static void flags_have_one_way_of_waiting(void **state)
{
	unsigned int flags;
	int active;

	(void)state;
	assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(0, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(2, 0), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDevicePrimaryCtxGetState(0, NULL, &active), CUDA_ERROR_INVALID_VALUE);
	cuCtxSetCurrent((CUcontext)session_activate(0));
	assert_int_equal(cuCtxSetFlags(3), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCtxSetFlags(CU_CTX_SCHED_SPIN), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetFlags(&flags), CUDA_SUCCESS);
	assert_int_equal(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
	cuCtxSetCurrent(NULL);
}

static void a_release_too_many_is_refused(void **state)
{
	(void)state;
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(-1), CUDA_ERROR_INVALID_DEVICE);
}

static void without_cuinit_nothing_works(void **state)
{
	CUcontext c;
	int n;

	(void)state;
	ckc_client_current()->initialized = false;
	assert_int_equal(cuCtxGetCurrent(&c), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 16),
			 CUDA_ERROR_NOT_INITIALIZED);
	ckc_client_current()->initialized = true;
	ckc_client_current()->state = CK_STATE_EXITING;
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_DEINITIALIZED);
	assert_int_equal(ck_local_delete(NULL, keys), CUDA_ERROR_DEINITIALIZED);
	ckc_client_current()->state = CK_STATE_READY;
}

/* --- context-local storage */

static int destroyed;
static CUcontext destroyed_context;

static void destructor(CUcontext context, void *key, void *value)
{
	destroyed++;
	destroyed_context = context;
	assert_ptr_equal(value, (char *)key + 1);
	/* destructors of the runtime come back; the entry has gone */
	assert_int_equal(ck_local_delete(context, key), CUDA_ERROR_INVALID_HANDLE);
}

static void a_value_is_kept_for_each_context_and_key(void **state)
{
	CUcontext a = (CUcontext)session_activate(0), b = (CUcontext)session_activate(1);
	void *value = NULL;

	(void)state;
	assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ck_local_put(a, &keys[0], "a0", NULL), CUDA_SUCCESS);
	assert_int_equal(ck_local_put(a, &keys[1], "a1", NULL), CUDA_SUCCESS);
	assert_int_equal(ck_local_put(b, &keys[0], "b0", NULL), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_SUCCESS);
		assert_string_equal(value, "a0");
		assert_int_equal(ck_local_get(&value, a, &keys[1]), CUDA_SUCCESS);
		assert_string_equal(value, "a1");
		assert_int_equal(ck_local_get(&value, b, &keys[0]), CUDA_SUCCESS);
		assert_string_equal(value, "b0");
		assert_int_equal(ck_local_get(&value, b, &keys[1]), CUDA_ERROR_INVALID_HANDLE);
	}
	assert_int_equal(ck_local_put(a, &keys[0], "new", NULL), CUDA_SUCCESS);
	assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_SUCCESS);
	assert_string_equal(value, "new");
	assert_int_equal(ck_local_delete(a, &keys[0]), CUDA_SUCCESS);
	assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ck_local_delete(a, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	ck_local_forget((CUcontext)ckc_gpu(0)->primary);
	ck_local_forget((CUcontext)ckc_gpu(1)->primary);
}

static void null_and_minus_one_mean_the_current_context(void **state)
{
	CUcontext a = (CUcontext)session_activate(0);
	void *value;

	(void)state;
	assert_int_equal(ck_local_get(&value, NULL, keys), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(ck_local_get(&value, (CUcontext)-1, keys), CUDA_ERROR_INVALID_CONTEXT);
	cuCtxSetCurrent(a);
	assert_int_equal(ck_local_get(&value, NULL, keys), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ck_local_put((CUcontext)-1, keys, "x", NULL), CUDA_SUCCESS);
	assert_int_equal(ck_local_get(&value, NULL, keys), CUDA_SUCCESS);
	assert_int_equal(ck_local_get(&value, a, keys), CUDA_SUCCESS);
	ck_local_forget((CUcontext)ckc_gpu(0)->primary);
	cuCtxSetCurrent(NULL);
}

static void a_context_that_goes_calls_the_destructors_once(void **state)
{
	struct ckc_context *p = session_activate(0);
	CUcontext a = (CUcontext)p;
	void *value;

	(void)state;
	destroyed = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ck_local_put(a, &keys[i], &keys[i + 1], destructor), CUDA_SUCCESS);
	assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_SUCCESS);
	ckc_context_forget(p);
	assert_int_equal(destroyed, 2);
	assert_ptr_equal(destroyed_context, a);
	assert_int_equal(ck_local_get(&value, a, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	ckc_context_forget(p);
	assert_int_equal(destroyed, 2);
}

/* --- devices */

static void what_is_refused_reads_as_missing(void **state)
{
	int value = 7;

	(void)state;
	assert_int_equal(
		cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
		CUDA_SUCCESS);
	assert_int_equal(value, 0);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0),
			 CUDA_SUCCESS);
	assert_int_equal(value, 1);
}

static void what_is_passed_on_reads_as_the_device_says(void **state)
{
	int value = 7;

	(void)state;
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1),
			 CUDA_SUCCESS);
	assert_int_equal(value, 1);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1),
			 CUDA_SUCCESS);
	assert_int_equal(value, 4);
}

static void bad_questions_about_devices_are_refused(void **state)
{
	char text[64];
	CUdevice d;
	int value;

	(void)state;
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&value, (CUdevice_attribute)-1, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&value, (CUdevice_attribute)10000, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 2),
			 CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_MAX, 2),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGet(&d, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetName(text, 6, 0), CUDA_SUCCESS);
	assert_string_equal(text, "First");
	assert_int_equal(cuDeviceGetName(text, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetLuid(text, (unsigned int *)&value, 0),
			 CUDA_ERROR_NOT_SUPPORTED);
}

static void a_device_is_found_by_every_form_of_its_pci_address(void **state)
{
	char text[16];
	CUdevice d;

	(void)state;
	assert_int_equal(cuDeviceGetPCIBusId(text, 13, 1), CUDA_SUCCESS);
	assert_string_equal(text, "0001:05:02.0");
	assert_int_equal(cuDeviceGetPCIBusId(text, 12, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, text), CUDA_SUCCESS);
	assert_int_equal(d, 1);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "0001:05:02"), CUDA_SUCCESS);
	assert_int_equal(d, 1);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "04:00.0"), CUDA_SUCCESS);
	assert_int_equal(d, 0);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "0000:ff:00.0"), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, "zz"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetByPCIBusId(&d, ""), CUDA_ERROR_INVALID_VALUE);
}

static void peers_are_as_the_server_says(void **state)
{
	int value = -1;

	(void)state;
	assert_int_equal(cuDeviceCanAccessPeer(&value, 0, 1), CUDA_SUCCESS);
	assert_int_equal(value, 1);
	assert_int_equal(cuDeviceCanAccessPeer(&value, 0, 0), CUDA_SUCCESS);
	assert_int_equal(value, 0);
	assert_int_equal(cuDeviceCanAccessPeer(&value, 0, 5), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(
		cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1),
		CUDA_SUCCESS);
	assert_int_equal(value, 7);
	assert_int_equal(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)99, 0, 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 0),
		CUDA_ERROR_INVALID_DEVICE);
}

/* --- pinned memory and pointers */

static void pinned_memory_is_got_asked_about_and_freed(void **state)
{
	unsigned int flags = 0, type = 0;
	uint64_t address = 1;
	char *p = NULL;
	void *none = &p;

	(void)state;
	assert_int_equal(cuMemHostAlloc((void **)&p, 100, 0), CUDA_ERROR_INVALID_CONTEXT);
	cuCtxSetCurrent((CUcontext)session_activate(0));
	assert_int_equal(cuMemHostAlloc((void **)&p, 5000, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
	memset(p, 1, 5000);
	assert_int_equal(cuMemHostGetFlags(&flags, p + 100), CUDA_SUCCESS);
	assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	assert_int_equal(
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p + 4999),
		CUDA_SUCCESS);
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_int_equal(
		cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (uintptr_t)p),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(address, 0);
	assert_int_equal(cuMemFreeHost(p + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(p), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemHostAlloc(&none, 0, 0), CUDA_SUCCESS);
	assert_null(none);
	assert_int_equal(cuMemHostAlloc(&none, 16, 64), CUDA_ERROR_INVALID_VALUE);
	cuCtxSetCurrent(NULL);
}

static void host_memory_is_registered_once_and_unregistered_by_its_address(void **state)
{
	static char buffer[3 * 4096];
	unsigned int flags;

	(void)state;
	cuCtxSetCurrent((CUcontext)session_activate(0));
	assert_int_equal(cuMemHostUnregister(buffer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cuMemHostRegister_v2(buffer + 100, 5000, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemHostRegister_v2(buffer + 200, 10, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuMemHostGetFlags(&flags, buffer + 101), CUDA_SUCCESS);
	assert_int_equal(flags, 1 | CU_MEMHOSTALLOC_DEVICEMAP);
	assert_int_equal(cuMemHostUnregister(buffer + 101), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostUnregister(buffer + 100), CUDA_SUCCESS);
	assert_int_equal(cuMemHostUnregister(buffer + 100), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cuMemHostRegister_v2(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostRegister_v2(buffer, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostRegister_v2(buffer, 10, 64), CUDA_ERROR_INVALID_VALUE);
	/* pages that are not there */
	assert_int_equal(cuMemHostRegister_v2((void *)4096, 10, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostRegister_v2(buffer, ~(size_t)0, 0), CUDA_ERROR_INVALID_VALUE);
	cuCtxSetCurrent(NULL);
}

static void an_unknown_pointer_is_an_error_alone_and_zeros_among_several(void **state)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	uint32_t type[2] = {7, 7};
	uint64_t context = 7, host = 7;
	int ordinal = 7;
	void *data[] = {type, &context, &host, &ordinal};

	(void)state;
	assert_int_equal(
		cuPointerGetAttribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&host),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(type[0], 7);
	assert_int_equal(cuPointerGetAttributes(4, which, data, (uintptr_t)&host), CUDA_SUCCESS);
	assert_int_equal(type[0], 0);
	assert_int_equal(type[1], 7);
	assert_int_equal(context, 0);
	assert_int_equal(host, (uintptr_t)&host);
	assert_int_equal(ordinal, -2);
	assert_int_equal(cuPointerGetAttributes(0, which, data, 0), CUDA_ERROR_INVALID_VALUE);
}

static void device_memory_is_known_by_its_pointer(void **state)
{
	uint64_t base = 0x7e0000001000, found = 0, context = 0;
	unsigned int managed[2] = {7, 7};
	uint64_t size = 0;
	CUdeviceptr start;

	(void)state;
	cuCtxSetCurrent((CUcontext)session_activate(1));
	assert_int_equal(
		ckc_allocation_add(base, 1000, CK_MEMORY_DEVICE, ckc_gpu(1)->primary, 0, false),
		CUDA_SUCCESS);
	assert_int_equal(
		cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, base + 8),
		CUDA_SUCCESS);
	assert_int_equal(found, base + 8);
	assert_int_equal(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, base),
			 CUDA_SUCCESS);
	assert_int_equal(context, (uintptr_t)ckc_gpu(1)->primary);
	assert_int_equal(cuPointerGetAttribute(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base),
			 CUDA_SUCCESS);
	assert_int_equal(managed[0], 0);
	assert_int_equal(managed[1], 7);
	assert_int_equal(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_HOST_POINTER, base),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base),
		CUDA_SUCCESS);
	assert_int_equal(found, 0x7e0000000000);
	assert_int_equal(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base),
			 CUDA_SUCCESS);
	assert_int_equal(size, 2 << 20);
	assert_int_equal(cuMemGetAddressRange_v2(&start, NULL, base + 999), CUDA_SUCCESS);
	assert_int_equal(start, base);
	assert_int_equal(cuMemGetAddressRange_v2(NULL, &size, base + 1000), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuMemFree_v2(base + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree_v2(0), CUDA_SUCCESS);
	ckc_allocation_forget(ckc_gpu(1)->primary);
	cuCtxSetCurrent(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_current_at_first),
		cmocka_unit_test(contexts_are_pushed_popped_and_replaced),
		cmocka_unit_test(the_stack_has_an_end),
		cmocka_unit_test(a_thread_has_memory_for_the_length_of_a_function),
		cmocka_unit_test(handles_that_are_none_are_refused),
		cmocka_unit_test(a_dead_context_stays_current_and_takes_no_work),
		cmocka_unit_test(flags_have_one_way_of_waiting),
		cmocka_unit_test(a_release_too_many_is_refused),
		cmocka_unit_test(without_cuinit_nothing_works),
		cmocka_unit_test(a_value_is_kept_for_each_context_and_key),
		cmocka_unit_test(null_and_minus_one_mean_the_current_context),
		cmocka_unit_test(a_context_that_goes_calls_the_destructors_once),
		cmocka_unit_test(what_is_refused_reads_as_missing),
		cmocka_unit_test(what_is_passed_on_reads_as_the_device_says),
		cmocka_unit_test(bad_questions_about_devices_are_refused),
		cmocka_unit_test(a_device_is_found_by_every_form_of_its_pci_address),
		cmocka_unit_test(peers_are_as_the_server_says),
		cmocka_unit_test(pinned_memory_is_got_asked_about_and_freed),
		cmocka_unit_test(host_memory_is_registered_once_and_unregistered_by_its_address),
		cmocka_unit_test(an_unknown_pointer_is_an_error_alone_and_zeros_among_several),
		cmocka_unit_test(device_memory_is_known_by_its_pointer),
	};

	return cmocka_run_group_tests(tests, session_begin, session_end);
}
