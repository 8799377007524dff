/*
 * tests/unit/test_client_allocation.c - what the client knows of memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "client/link/client.h"

#define BASE 0x7f0000000000ull

static struct ckc_context one = {.device = 1}, two;

static CUresult add_device(uint64_t base, size_t size, struct ckc_context *context)
{
	return ckc_allocation_add(base, size, CK_MEMORY_DEVICE, context, 0, false);
}

static void an_address_is_found_from_its_first_byte_to_its_last(void **state)
{
	struct ckc_allocation a;

	(void)state;
	assert_int_equal(add_device(BASE, 1000, &one), CUDA_SUCCESS);
	assert_false(ckc_allocation_find(BASE - 1, &a));
	assert_true(ckc_allocation_find(BASE, &a));
	assert_true(ckc_allocation_find(BASE + 999, &a));
	assert_false(ckc_allocation_find(BASE + 1000, &a));
	assert_int_equal(a.base, BASE);
	assert_int_equal(a.size, 1000);
	assert_int_equal(a.device, 1);
	assert_ptr_equal(a.context, &one);
}

static void numbers_of_allocations_are_never_used_again(void **state)
{
	struct ckc_allocation a, b;

	(void)state;
	assert_int_equal(add_device(BASE, 10, &one), CUDA_SUCCESS);
	assert_true(ckc_allocation_remove(BASE, CK_MEMORY_DEVICE, &a));
	assert_int_equal(add_device(BASE, 10, &one), CUDA_SUCCESS);
	assert_true(ckc_allocation_find(BASE, &b));
	assert_true(b.buffer_id > a.buffer_id);
}

static void nothing_and_what_wraps_is_refused(void **state)
{
	(void)state;
	assert_int_equal(add_device(BASE, 0, &one), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add_device(~0ull - 10, 100, &one), CUDA_ERROR_INVALID_VALUE);
}

static void only_the_beginning_and_the_right_kind_remove(void **state)
{
	struct ckc_allocation a;

	(void)state;
	add_device(BASE, 100, &one);
	assert_false(ckc_allocation_remove(BASE + 1, CK_MEMORY_DEVICE, &a));
	assert_false(ckc_allocation_remove(BASE, CK_MEMORY_HOST_ALLOC, &a));
	assert_true(ckc_allocation_remove(BASE, CK_MEMORY_DEVICE, NULL));
	assert_false(ckc_allocation_remove(BASE, CK_MEMORY_DEVICE, &a));
	assert_false(ckc_allocation_find(BASE, &a));
}

static void a_device_range_lies_in_one_allocation(void **state)
{
	(void)state;
	add_device(BASE, 100, &one);
	add_device(BASE + 100, 100, &one);
	assert_int_equal(ckc_device_range(BASE, 100), CUDA_SUCCESS);
	assert_int_equal(ckc_device_range(BASE + 60, 40), CUDA_SUCCESS);
	assert_int_equal(ckc_device_range(BASE + 60, 41), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ckc_device_range(BASE + 60, ~0ull), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ckc_device_range(BASE - 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ckc_device_range(BASE - 1, 0), CUDA_SUCCESS);
}

/* A module's variables go with the module; the server may give their place to someone else. */
static void map_at(uint64_t base, size_t size)
{
	const struct ckc_allocation a = {
		.base = base, .size = size, .kind = CK_MEMORY_DEVICE, .mapped = true};

	assert_int_equal(ckc_allocation_note(&a), CUDA_SUCCESS);
}

static void mappings_side_by_side_are_one_range_of_a_device(void **state)
{
	struct ckc_allocation a;

	(void)state;
	map_at(BASE, 100);
	map_at(BASE + 100, 100);
	map_at(BASE + 300, 100);
	assert_int_equal(ckc_device_range(BASE, 1), CUDA_ERROR_INVALID_VALUE); /* no access yet */
	ckc_allocation_access(BASE, 200, 2, 0);
	assert_int_equal(ckc_device_range(BASE + 50, 150), CUDA_SUCCESS);
	assert_int_equal(ckc_device_range(BASE + 50, 151), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ckc_device_range(BASE + 300, 1), CUDA_ERROR_INVALID_VALUE);
	ckc_allocation_access(BASE + 100, 100, 0, 2);
	assert_int_equal(ckc_device_range(BASE + 50, 50), CUDA_SUCCESS);
	assert_int_equal(ckc_device_range(BASE + 50, 51), CUDA_ERROR_INVALID_VALUE);
	ckc_allocation_unmap(BASE, 200);
	assert_false(ckc_allocation_find(BASE, &a));
	assert_false(ckc_allocation_find(BASE + 199, &a));
	assert_true(ckc_allocation_find(BASE + 300, &a));
	add_device(BASE, 100, &one);
	ckc_allocation_unmap(BASE, 400);
	assert_true(ckc_allocation_find(BASE, &a)); /* not mapped */
	assert_true(ckc_allocation_remove(BASE, CK_MEMORY_DEVICE, NULL));
	ckc_allocation_unmap(BASE + 300, 100);
}

static void what_the_server_gives_replaces_what_was_there(void **state)
{
	struct ckc_allocation a;

	(void)state;
	ckc_allocation_add(BASE + 64, 16, CK_MEMORY_DEVICE, &one, 0, true);
	ckc_allocation_add(BASE + 96, 16, CK_MEMORY_DEVICE, &one, 0, true);
	assert_int_equal(add_device(BASE, 4096, &two), CUDA_SUCCESS);
	assert_true(ckc_allocation_find(BASE + 70, &a));
	assert_false(a.variable);
	assert_int_equal(a.size, 4096);
}

static void host_and_device_addresses_do_not_collide(void **state)
{
	struct ckc_allocation a;

	(void)state;
	assert_int_equal(add_device(BASE, 100, &one), CUDA_SUCCESS);
	assert_int_equal(ckc_allocation_add(BASE, 100, CK_MEMORY_HOST_REGISTERED, &one, 0, false),
			 CUDA_SUCCESS);
	assert_true(ckc_allocation_remove(BASE, CK_MEMORY_DEVICE, NULL));
	assert_true(ckc_allocation_find(BASE, &a));
	assert_int_equal(a.kind, CK_MEMORY_HOST_REGISTERED);
}

static void registered_memory_is_not_registered_again(void **state)
{
	(void)state;
	assert_int_equal(ckc_allocation_add(BASE, 100, CK_MEMORY_HOST_REGISTERED, &one, 0, false),
			 CUDA_SUCCESS);
	assert_int_equal(
		ckc_allocation_add(BASE + 99, 1, CK_MEMORY_HOST_REGISTERED, &one, 0, false),
		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(
		ckc_allocation_add(BASE + 100, 1, CK_MEMORY_HOST_REGISTERED, &one, 0, false),
		CUDA_SUCCESS);
	/* allocated pinned memory cannot be registered at all, as on a real driver */
	assert_int_equal(ckc_allocation_add(BASE + 4096, 100, CK_MEMORY_HOST_ALLOC, &two, 0, false),
			 CUDA_SUCCESS);
	assert_int_equal(
		ckc_allocation_add(BASE + 4096, 1, CK_MEMORY_HOST_REGISTERED, &one, 0, false),
		CUDA_ERROR_INVALID_VALUE);
	ckc_allocation_remove(BASE + 4096, CK_MEMORY_HOST_ALLOC, NULL);
}

static void a_context_takes_its_memory_with_it(void **state)
{
	void *pinned = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ckc_allocation a;

	(void)state;
	assert_ptr_not_equal(pinned, MAP_FAILED);
	for (uint64_t i = 0; i < 100; i++)
		add_device(BASE + i * 4096, 4096, i % 3 ? &one : &two);
	ckc_allocation_add((uintptr_t)pinned, 4096, CK_MEMORY_HOST_ALLOC, &one, 0, false);
	ckc_allocation_forget(&one);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(ckc_allocation_find(BASE + i * 4096, &a), i % 3 == 0);
	assert_false(ckc_allocation_find((uintptr_t)pinned, &a));
	/* and pinned pages are no longer mapped */
	assert_int_not_equal(msync(pinned, 4096, MS_ASYNC), 0);
}

static int clean(void **state)
{
	(void)state;
	ckc_allocation_forget(&one);
	ckc_allocation_forget(&two);
	return 0;
}

static int contexts_begin(void **state)
{
	(void)state;
	one.client = two.client = ckc_client_current();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_address_is_found_from_its_first_byte_to_its_last,
					  clean),
		cmocka_unit_test_teardown(numbers_of_allocations_are_never_used_again, clean),
		cmocka_unit_test_teardown(nothing_and_what_wraps_is_refused, clean),
		cmocka_unit_test_teardown(only_the_beginning_and_the_right_kind_remove, clean),
		cmocka_unit_test_teardown(a_device_range_lies_in_one_allocation, clean),
		cmocka_unit_test_teardown(mappings_side_by_side_are_one_range_of_a_device, clean),
		cmocka_unit_test_teardown(what_the_server_gives_replaces_what_was_there, clean),
		cmocka_unit_test_teardown(host_and_device_addresses_do_not_collide, clean),
		cmocka_unit_test_teardown(registered_memory_is_not_registered_again, clean),
		cmocka_unit_test_teardown(a_context_takes_its_memory_with_it, clean),
	};

	return cmocka_run_group_tests(tests, contexts_begin, NULL);
}
