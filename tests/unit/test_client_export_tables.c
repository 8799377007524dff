/*
 * tests/unit/test_client_export_tables.c - the tables behind cuGetExportTable, and the integrity
 * answer by its published test vector.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libcuda/export_tables.h"
#include "tests/unit/client_session.h"

typedef const void *const *words;

/* "6bd5fb6c-5bf4-..." */
static CUuuid id_of(const char *text)
{
	CUuuid id;
	int n = 0;

	for (; *text && n < 16; text += 2) {
		unsigned int byte;

		if (*text == '-')
			text++;
		assert_int_equal(sscanf(text, "%2x", &byte), 1);
		id.bytes[n++] = (unsigned char)byte;
	}
	assert_int_equal(n, 16);
	return id;
}

static words table(const char *text)
{
	CUuuid id = id_of(text);
	const void *found = NULL;

	assert_int_equal(cuGetExportTable(&found, &id), CUDA_SUCCESS);
	assert_non_null(found);
	return found;
}

#define INTERFACE "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9"
#define HOOKS "a094798c-2e74-2e74-93f2-0800200c0a66"
#define TOOLS "42d85a81-23f6-cb47-8298-f6e78a3aecdc"
#define LOCAL "c693336e-1121-df11-a8c3-68f355d89593"
#define CHECKS "263e8860-7cd2-6143-92f6-bbd5006dfa7e"
#define INTEGRITY "d4082055-bde6-704b-8d34-ba123c66e1f2"
#define OBJECTS "21318c60-9714-3248-8ca6-41ff7324c8f2"
#define FUNCTIONS "6e163fbe-b958-444d-835c-e182aff1991e"
#define TPC "1734dc26-800d-4745-8726-c0f1e7dd8bca"

static void every_slot_of_every_table_can_be_called(void **state)
{
	static const struct {
		const char *id;
		size_t words;
	} tables[] = {{INTERFACE, 13}, {HOOKS, 7},    {TOOLS, 4},     {CHECKS, 17},
		      {INTEGRITY, 3},  {OBJECTS, 93}, {FUNCTIONS, 8}, {TPC, 17}};

	(void)state;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		words t = table(tables[i].id);

		assert_int_equal((uintptr_t)t[0], 8 * tables[i].words);
		for (size_t slot = 1; slot < tables[i].words; slot++)
			assert_non_null(t[slot]);
		assert_ptr_equal(table(tables[i].id), t);
	}
	/* the one without a size */
	for (size_t slot = 0; slot < 3; slot++)
		assert_non_null(table(LOCAL)[slot]);
	assert_null(table(LOCAL)[3]);
}

static void a_slot_that_is_not_understood_refuses(void **state)
{
	(void)state;
	assert_int_equal(((CUresult(*)(void))table(INTERFACE)[3])(), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(((CUresult(*)(void))table(OBJECTS)[92])(), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(((CUresult(*)(void))table(TPC)[16])(), CUDA_ERROR_NOT_SUPPORTED);
}

static void other_ids_are_refused_with_null(void **state)
{
	CUuuid id = id_of("f8cff951-2146-8b4e-b9e2-fb469e7c0dd9");
	const void *found = &id;

	(void)state;
	for (int i = 0; i < 2; i++) {
		found = &id;
		assert_int_equal(cuGetExportTable(&found, &id), CUDA_ERROR_NOT_FOUND);
		assert_null(found);
	}
	assert_int_equal(cuGetExportTable(NULL, &id), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetExportTable(&found, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_integrity_answer_is_that_of_the_published_vector(void **state)
{
	static const struct ck_integrity_device device = {
		.uuid = {0x67, 0x22, 0xcb, 0xcf, 0xc6, 0x61, 0xf2, 0x92, 0x74, 0xd6, 0xed, 0x23,
			 0x2a, 0x32, 0x13, 0x1c},
		.pci_bus = 4,
	};
	static const unsigned char want[16] = {0x7a, 0x70, 0x14, 0xf2, 0x28, 0x46, 0xc3, 0xa7,
					       0x84, 0xcd, 0xbf, 0x42, 0x33, 0x31, 0xf1, 0xea};
	const struct ck_integrity in = {
		.driver_version = 12020,
		.version = 11082,
		.pid = 0x4d08,
		.thread = 0x2b78,
		.interface_table = 0x7ff8c80717f0,
		.integrity_table = 0x7ff8c825e4b0,
		.function = 0x7ff8c7dd0ad0,
		.seconds = 0x64a365ee,
		.devices = &device,
		.device_count = 1,
	};
	unsigned char answer[16];

	(void)state;
	ck_integrity_answer(&in, answer);
	assert_memory_equal(answer, want, sizeof(want));
}

typedef CUresult (*integrity_fn)(uint32_t, uint64_t, uint64_t[2]);

static void the_integrity_function_answers_from_what_the_calls_tell(void **state)
{
	words t = table(INTEGRITY);
	struct ck_integrity_device devices[2];
	struct ck_integrity in = {
		.driver_version = 13000,
		.version = 13002,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)pthread_self(),
		.interface_table = (uintptr_t)table(INTERFACE),
		.integrity_table = (uintptr_t)t,
		.function = (uintptr_t)t[1],
		.seconds = 1700000000,
		.devices = devices,
		.device_count = 2,
	};
	/* words beside the two of the answer must not be touched */
	uint64_t result[4] = {1, 0, 0, 1};
	unsigned char want[16];

	(void)state;
	for (int i = 0; i < 2; i++) {
		CUuuid uuid;

		cuDeviceGetUuid(&uuid, i);
		memcpy(devices[i].uuid, uuid.bytes, 16);
		cuDeviceGetAttribute(&devices[i].pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i);
		cuDeviceGetAttribute(&devices[i].pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i);
		cuDeviceGetAttribute(&devices[i].pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i);
	}
	ck_integrity_answer(&in, want);
	assert_int_equal(((integrity_fn)t[1])(13002, 1700000000, result + 1), CUDA_SUCCESS);
	assert_memory_equal(result + 1, want, sizeof(want));
	assert_int_equal(result[0], 1);
	assert_int_equal(result[3], 1);
}

static void the_first_two_integrity_answers_are_constants(void **state)
{
	integrity_fn answer = (integrity_fn)table(INTEGRITY)[1];
	uint64_t result[2];

	(void)state;
	assert_int_equal(answer(13000, 1, result), CUDA_SUCCESS);
	assert_true(result[0] == 0x3341181c03cb675c && result[1] == 0x8ed383aa1f4cd1e8);
	assert_int_equal(answer(13001, 2, result), CUDA_SUCCESS);
	assert_true(result[0] == 0x1841181c03cb675c && result[1] == 0x8ed383aa1f4cd1e8);
}

static void the_hooks_are_zero_and_enough(void **state)
{
	void (*get)(uint32_t **, size_t *) = (void (*)(uint32_t **, size_t *))table(HOOKS)[2];
	void (*more)(uint32_t **, size_t *) = (void (*)(uint32_t **, size_t *))table(HOOKS)[6];
	uint32_t *flags;
	size_t count;

	(void)state;
	get(&flags, &count);
	assert_true(count >= 1024);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(flags[i], 0);
	more(&flags, &count);
	assert_true(count >= 14);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(flags[i], 0);
}

static void the_primary_context_is_handed_out_without_being_retained(void **state)
{
	CUresult (*primary)(CUcontext *, CUdevice) =
		(CUresult(*)(CUcontext *, CUdevice))table(INTERFACE)[2];
	unsigned int flags, version;
	CUdevice device;
	CUcontext c;
	int active;

	(void)state;
	assert_int_equal(primary(&c, 1), CUDA_SUCCESS);
	assert_ptr_equal(c, ckc_gpu(1)->primary);
	assert_int_equal(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
	assert_int_equal(active, 0);
	assert_int_equal(cuCtxSetCurrent(c), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetDevice_v2(&device, c), CUDA_SUCCESS);
	assert_int_equal(device, 1);
	assert_int_equal(cuCtxGetApiVersion(c, &version), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	assert_int_equal(primary(&c, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_int_equal(primary(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void a_context_is_told_by_its_number_and_is_not_a_wrapper(void **state)
{
	CUresult (*number)(CUcontext, uint64_t *) =
		(CUresult(*)(CUcontext, uint64_t *))table(OBJECTS)[4];
	CUresult (*wrapped)(CUcontext, uint32_t *, CUcontext *) =
		(CUresult(*)(CUcontext, uint32_t *, CUcontext *))table(CHECKS)[2];
	CUresult (*current)(CUcontext *) = (CUresult(*)(CUcontext *))table(TOOLS)[2];
	CUcontext c = (CUcontext)session_activate(0), out = (CUcontext)1;
	unsigned long long public;
	uint32_t flag = 7;
	uint64_t id;

	(void)state;
	assert_int_equal(number(c, &id), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetId(c, &public), CUDA_SUCCESS);
	assert_int_equal(id, public);
	assert_int_equal(wrapped(c, &flag, &out), CUDA_SUCCESS);
	assert_int_equal(flag, 0);
	assert_ptr_equal(out, (CUcontext)1);
	cuCtxSetCurrent(c);
	assert_int_equal(current(&out), CUDA_SUCCESS);
	assert_ptr_equal(out, c);
	cuCtxSetCurrent(NULL);
	assert_int_equal(current(&out), CUDA_SUCCESS);
	assert_null(out);
}

static void a_stream_has_an_object_and_its_query_answers_zero(void **state)
{
	CUresult (*object)(CUcontext, CUstream, void **) =
		(CUresult(*)(CUcontext, CUstream, void **))table(OBJECTS)[51];
	CUresult (*query)(CUcontext, void *, uint64_t *) =
		(CUresult(*)(CUcontext, void *, uint64_t *))table(OBJECTS)[39];
	uint64_t out[2] = {5, 6};
	void *found = NULL;

	(void)state;
	assert_int_equal(object(NULL, NULL, &found), CUDA_SUCCESS);
	assert_non_null(found);
	assert_int_equal(object(NULL, CU_STREAM_LEGACY, &found), CUDA_SUCCESS);
	assert_int_equal(query(NULL, found, out), CUDA_SUCCESS);
	assert_int_equal(out[0], 0);
	assert_int_equal(out[1], 6);
	assert_int_not_equal(object(NULL, (CUstream)-1, &found), CUDA_SUCCESS);
}

static void the_tpc_map_is_a_copy_of_what_the_server_said(void **state)
{
	CUresult (*get)(unsigned char **, unsigned char **) =
		(CUresult(*)(unsigned char **, unsigned char **))table(TPC)[4];
	CUresult (*release)(void *, void *) = (CUresult(*)(void *, void *))table(TPC)[13];
	unsigned char *gpc = NULL, *index = NULL, *again, *unused;

	(void)state;
	assert_int_equal(get(&gpc, &index), CUDA_ERROR_INVALID_CONTEXT);
	assert_null(gpc);
	cuCtxSetCurrent((CUcontext)session_activate(0));
	assert_int_equal(get(&gpc, &index), CUDA_SUCCESS);
	assert_memory_equal(gpc, session_map[0], SESSION_TPCS);
	assert_memory_equal(index, session_map[1], SESSION_TPCS);
	assert_int_equal(get(&again, &unused), CUDA_SUCCESS);
	assert_ptr_not_equal(again, gpc);
	assert_int_equal(release(gpc, index), CUDA_SUCCESS);
	assert_int_equal(release(again, unused), CUDA_SUCCESS);
	cuCtxSetCurrent(NULL);
}

static void a_module_that_is_none_has_no_functions(void **state)
{
	unsigned int (*each)(CUcontext, CUmodule, void (*)(void *, CUfunction), void *) =
		(unsigned int (*)(CUcontext, CUmodule, void (*)(void *, CUfunction), void *))table(
			FUNCTIONS)[7];
	int dummy;

	(void)state;
	assert_int_equal(each(NULL, (CUmodule)&dummy, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slot_of_every_table_can_be_called),
		cmocka_unit_test(a_slot_that_is_not_understood_refuses),
		cmocka_unit_test(other_ids_are_refused_with_null),
		cmocka_unit_test(the_integrity_answer_is_that_of_the_published_vector),
		cmocka_unit_test(the_integrity_function_answers_from_what_the_calls_tell),
		cmocka_unit_test(the_first_two_integrity_answers_are_constants),
		cmocka_unit_test(the_hooks_are_zero_and_enough),
		cmocka_unit_test(the_primary_context_is_handed_out_without_being_retained),
		cmocka_unit_test(a_context_is_told_by_its_number_and_is_not_a_wrapper),
		cmocka_unit_test(a_stream_has_an_object_and_its_query_answers_zero),
		cmocka_unit_test(the_tpc_map_is_a_copy_of_what_the_server_said),
		cmocka_unit_test(a_module_that_is_none_has_no_functions),
	};

	return cmocka_run_group_tests(tests, session_begin, session_end);
}
