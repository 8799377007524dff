/*
 * tests/unit/test_client_attributes.c - all attributes of a function come with the first one that
 * the program asks for.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/modules/state.h"
#include "rpc/attributes.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"

#define KNOWN 10 /* of an older driver */

static CUmodule module;
static CUfunction function;
static size_t known;

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static struct ck_function_attribute all[CU_FUNC_ATTRIBUTE_MAX];
	ck_attributes_res *r = res;

	(void)payload;
	if (m->number == CK_PROC_cuFuncGetAttribute)
		((cuFuncGetAttribute_res *)res)->pi =
			1000 + (int)((const cuFuncGetAttribute_args *)m->args)->attrib;
	if (m->number != CK_PROC_attributes)
		return CUDA_SUCCESS;
	for (size_t i = 0; i < known; i++)
		all[i].value = 40 + (int)i;
	all[CU_FUNC_ATTRIBUTE_PTX_VERSION].error = CUDA_ERROR_INVALID_VALUE;
	r->values.values_val = (char *)all;
	r->values.values_len = (u_int)(known * sizeof(*all));
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");

	(void)state;
	known = KNOWN;
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&function, module, "bounded"), CUDA_SUCCESS);
	elf_data_free(&data);
	peer_clear();
	return 0;
}

static int end(void **state)
{
	(void)state;
	cuModuleUnload(module);
	return 0;
}

static int get(CUfunction_attribute attribute)
{
	int value = 0;

	assert_int_equal(cuFuncGetAttribute(&value, attribute, function), CUDA_SUCCESS);
	return value;
}

static void one_message_brings_all(void **state)
{
	(void)state;
	assert_int_equal(get(CU_FUNC_ATTRIBUTE_NUM_REGS), 40 + CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
			 40 + CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	assert_int_equal(get(CU_FUNC_ATTRIBUTE_NUM_REGS), 40 + CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(peer_count(CK_PROC_attributes), 1);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 0);
}

/* The next start of the program gets what this one has used, and no more. */
static void only_what_was_asked_is_learned(void **state)
{
	(void)state;
	get(CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(peer_count(CK_PROC_learned), 1);
	get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
	get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
	assert_int_equal(peer_count(CK_PROC_learned), 2);
}

static void an_attribute_with_an_error_is_asked_for_by_itself(void **state)
{
	(void)state;
	get(CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(get(CU_FUNC_ATTRIBUTE_PTX_VERSION), 1000 + CU_FUNC_ATTRIBUTE_PTX_VERSION);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 1);
}

static void one_that_the_server_does_not_know_too(void **state)
{
	const CUfunction_attribute newer = CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET;

	(void)state;
	assert_int_equal(get(newer), 1000 + newer);
	assert_int_equal(get(CU_FUNC_ATTRIBUTE_NUM_REGS), 40 + CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(peer_count(CK_PROC_cuFuncGetAttribute), 1);
}

static void a_new_value_ends_what_is_known_of_the_function(void **state)
{
	(void)state;
	get(CU_FUNC_ATTRIBUTE_NUM_REGS);
	assert_int_equal(
		cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000),
		CUDA_SUCCESS);
	get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	assert_int_equal(peer_count(CK_PROC_attributes), 2);
}

static int group_begin(void **state)
{
	peer.call = answer;
	return peer_begin(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_message_brings_all, begin, end),
		cmocka_unit_test_setup_teardown(only_what_was_asked_is_learned, begin, end),
		cmocka_unit_test_setup_teardown(an_attribute_with_an_error_is_asked_for_by_itself,
						begin, end),
		cmocka_unit_test_setup_teardown(one_that_the_server_does_not_know_too, begin, end),
		cmocka_unit_test_setup_teardown(a_new_value_ends_what_is_known_of_the_function,
						begin, end),
	};

	return cmocka_run_group_tests(tests, group_begin, peer_end);
}
