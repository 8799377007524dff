/*
 * tests/unit/test_client_address_reservation.c - device addresses are kept free in the client's
 * process.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "client/link/client.h"

#define UNIT ((size_t)2 << 20)

/* @size bytes of address space that nothing uses, aligned to 2 MiB. */
static uint64_t unused(size_t size)
{
	char *at = mmap(NULL, size + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	munmap(at, size + UNIT);
	return ((uint64_t)(uintptr_t)at + UNIT - 1) & ~(uint64_t)(UNIT - 1);
}

static void *map_at(uint64_t address, size_t size)
{
	return mmap((void *)(uintptr_t)address, size, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

static void claimed_addresses_are_given_to_nobody_else(void **state)
{
	uint64_t at = unused(4 * UNIT);

	(void)state;
	assert_true(ckc_address_claim(at + 512, 3 * UNIT));
	assert_ptr_equal(map_at(at + UNIT, 4096), MAP_FAILED);
	assert_ptr_equal(map_at(at + 3 * UNIT, 4096), MAP_FAILED);
}

static void small_blocks_of_one_page_are_claimed_one_by_one(void **state)
{
	uint64_t at = unused(2 * UNIT);

	(void)state;
	for (size_t i = 0; i < 64; i++)
		assert_true(ckc_address_claim(at + i * 512, 512));
	assert_true(ckc_address_claim(at, 2 * UNIT)); /* grows over claimed ranges */
}

static void memory_of_the_program_is_a_clash_and_stays_as_it_is(void **state)
{
	uint64_t at = unused(2 * UNIT);
	char *own = mmap((void *)(uintptr_t)(at + UNIT), 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	(void)state;
	assert_ptr_not_equal(own, MAP_FAILED);
	own[0] = 42;
	assert_false(ckc_address_claim(at, 2 * UNIT));
	assert_int_equal(own[0], 42);
	munmap(own, 4096);
	assert_true(ckc_address_claim(at, 2 * UNIT));
}

static void what_reaches_beyond_a_reservation_stays_claimed(void **state)
{
	uint64_t at = unused(4 * UNIT);

	(void)state;
	assert_true(ckc_address_claim(at, UNIT));
	assert_true(ckc_address_claim(at + UNIT, 2 * UNIT));
	ckc_address_release(at, 2 * UNIT);
	assert_ptr_not_equal(map_at(at, 4096), MAP_FAILED);
	assert_ptr_equal(map_at(at + UNIT, 4096), MAP_FAILED);
	munmap((void *)(uintptr_t)at, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claimed_addresses_are_given_to_nobody_else),
		cmocka_unit_test(small_blocks_of_one_page_are_claimed_one_by_one),
		cmocka_unit_test(what_reaches_beyond_a_reservation_stays_claimed),
		cmocka_unit_test(memory_of_the_program_is_a_clash_and_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
