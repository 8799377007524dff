/*
 * tests/unit/test_cuda_cupti.c - the records of cuda/cupti.h have CUPTI's layout, and a buffer of
 * them is walked safely.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cuda/cupti.h"

/* Sizes and offsets of CUPTI 13.0's structures, printed by a program that includes its headers. */
static void the_layout_is_that_of_cupti(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct ck_cupti_kernel), 216);
	assert_int_equal(offsetof(struct ck_cupti_kernel, registers_per_thread), 6);
	assert_int_equal(offsetof(struct ck_cupti_kernel, start), 16);
	assert_int_equal(offsetof(struct ck_cupti_kernel, device), 40);
	assert_int_equal(offsetof(struct ck_cupti_kernel, grid), 52);
	assert_int_equal(offsetof(struct ck_cupti_kernel, correlation), 92);
	assert_int_equal(offsetof(struct ck_cupti_kernel, name), 104);
	assert_int_equal(offsetof(struct ck_cupti_kernel, graph_node), 144);
	assert_int_equal(offsetof(struct ck_cupti_kernel, graph), 156);
	assert_int_equal(offsetof(struct ck_cupti_kernel, channel), 168);
	assert_int_equal(sizeof(struct ck_cupti_memcpy), 96);
	assert_int_equal(offsetof(struct ck_cupti_memcpy, correlation), 44);
	assert_int_equal(offsetof(struct ck_cupti_memcpy, graph_node), 64);
	assert_int_equal(offsetof(struct ck_cupti_memcpy, copies), 88);
	assert_int_equal(sizeof(struct ck_cupti_memset), 88);
	assert_int_equal(offsetof(struct ck_cupti_memset, correlation), 44);
	assert_int_equal(offsetof(struct ck_cupti_memset, memory_kind), 50);
	assert_int_equal(offsetof(struct ck_cupti_memset, graph_node), 64);
	assert_int_equal(sizeof(struct ck_cupti_api), 40);
	assert_int_equal(sizeof(struct ck_cupti_external), 24);
	assert_int_equal(sizeof(struct ck_cupti_marker), 56);
	assert_int_equal(offsetof(struct ck_cupti_marker, process), 24);
	assert_int_equal(offsetof(struct ck_cupti_marker, name), 40);
	assert_int_equal(sizeof(struct ck_cupti_sync), 56);
	assert_int_equal(offsetof(struct ck_cupti_sync, result), 48);
	assert_int_equal(sizeof(struct ck_cupti_context), 32);
	assert_int_equal(offsetof(struct ck_cupti_context, parent), 16);
	assert_int_equal(offsetof(struct ck_cupti_context, multiprocessors), 22);
	assert_int_equal(sizeof(struct ck_cupti_device), 184);
	assert_int_equal(offsetof(struct ck_cupti_device, multiprocessors), 44);
	assert_int_equal(offsetof(struct ck_cupti_device, block_threads), 76);
	assert_int_equal(offsetof(struct ck_cupti_device, major), 104);
	assert_int_equal(offsetof(struct ck_cupti_device, uuid), 120);
	assert_int_equal(offsetof(struct ck_cupti_device, name), 136);
	assert_int_equal(offsetof(struct ck_cupti_device, mig_uuid), 160);
	assert_int_equal(offsetof(struct ck_cupti_device, numa_node), 180);
	assert_int_equal(sizeof(struct ck_cupti_peer), 96);
	assert_int_equal(offsetof(struct ck_cupti_peer, src_device), 44);
	assert_int_equal(offsetof(struct ck_cupti_peer, correlation), 60);
	assert_int_equal(offsetof(struct ck_cupti_peer, graph_node), 72);
	assert_int_equal(offsetof(struct ck_cupti_peer, channel_type), 88);
	assert_int_equal(sizeof(struct ck_cupti_complete), 32); /* CUPTI 13.5's, as the next one */
	assert_int_equal(offsetof(struct ck_cupti_config, options), 32);
	assert_int_equal(sizeof(struct ck_cupti_overhead), 56);
	assert_int_equal(offsetof(struct ck_cupti_overhead, id), 12);
	assert_int_equal(offsetof(struct ck_cupti_overhead, start), 24);
	assert_int_equal(offsetof(struct ck_cupti_overhead, correlation), 40);
	assert_int_equal(offsetof(struct ck_cupti_overhead, data), 48);
	assert_int_equal(sizeof(struct ck_cupti_graph), 56);
	assert_int_equal(offsetof(struct ck_cupti_graph, start), 8);
	assert_int_equal(offsetof(struct ck_cupti_graph, stream), 36);
	assert_int_equal(offsetof(struct ck_cupti_graph, end_device), 48);
	assert_int_equal(sizeof(struct ck_cupti_callback), 72);
	assert_int_equal(offsetof(struct ck_cupti_callback, result), 24);
	assert_int_equal(offsetof(struct ck_cupti_callback, context_number), 48);
	assert_int_equal(offsetof(struct ck_cupti_callback, data), 56);
	assert_int_equal(offsetof(struct ck_cupti_callback, correlation), 64);
}

static void a_walk_ends_at_the_end_and_at_nonsense(void **state)
{
	union {
		uint8_t bytes[128];
		struct ck_cupti_api api;
	} buffer = {.api.kind = CUPTI_ACTIVITY_KIND_DRIVER};
	void *record = NULL;
	uint32_t nonsense = 63;

	(void)state;
	assert_int_equal(ck_cupti_next(NULL, 8, &record), CUPTI_ERROR_INVALID_PARAMETER);
	assert_int_equal(ck_cupti_next(buffer.bytes, 0, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	assert_int_equal(ck_cupti_next(buffer.bytes, 39, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	assert_null(record);
	assert_int_equal(ck_cupti_next(buffer.bytes, 40, &record), CUPTI_SUCCESS);
	assert_ptr_equal(record, buffer.bytes);
	assert_int_equal(ck_cupti_next(buffer.bytes, 40, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	memcpy(buffer.bytes + 40, &nonsense, sizeof(nonsense));
	assert_int_equal(ck_cupti_next(buffer.bytes, 128, &record), CUPTI_ERROR_INVALID_KIND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_layout_is_that_of_cupti),
		cmocka_unit_test(a_walk_ends_at_the_end_and_at_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
