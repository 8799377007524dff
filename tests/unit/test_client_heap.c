/*
 * tests/unit/test_client_heap.c - layout of leased device memory: best fit, uses, what goes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/memory/heap.h"

#define LO 0x240000000000ull
#define ROOM (1024 * CK_CHUNK)

static const struct ckc_user anyone = {.stream = 0}, in_seven = {.in_stream = true, .stream = 7},
			     in_eight = {.in_stream = true, .stream = 8};
static const struct ckc_use over = {.command = 0}, by_all = {.command = 5},
			    by_seven = {.command = 5, .in_stream = true, .stream = 7};

static struct ckc_heap *heap_of(size_t chunks)
{
	struct ckc_heap *heap = ckc_heap_create(LO, LO + ROOM);
	uint64_t at;

	assert_non_null(heap);
	at = ckc_heap_place(heap, chunks * CK_CHUNK, CK_CHUNK);
	assert_int_equal(at, LO);
	assert_int_equal(ckc_heap_add(heap, at, chunks * CK_CHUNK, CK_CHUNK), 0);
	return heap;
}

static bool is_seven(const struct ckc_use *use)
{
	return use->stream == 7;
}

static bool all(const struct ckc_use *use)
{
	(void)use;
	return true;
}

static void pieces_are_aligned_and_come_from_the_smallest_gap(void **state)
{
	struct ckc_heap *heap = heap_of(2);
	uint64_t a, b, c;

	(void)state;
	a = ckc_heap_take(heap, 1, &anyone);
	b = ckc_heap_take(heap, 100000, &anyone);
	c = ckc_heap_take(heap, 513, &anyone);
	assert_int_equal(a, LO);
	assert_int_equal(b, LO + 512);
	assert_int_equal(c, LO + 512 + 100352);
	assert_int_equal(ckc_heap_give(heap, b, 100000, &over), 0);
	assert_int_equal(ckc_heap_take(heap, 100353, &anyone), c + 1024); /* it does not fit */
	assert_int_equal(ckc_heap_take(heap, 5000, &anyone), b);
	ckc_heap_destroy(heap);
}

static void freed_neighbours_are_one_piece_again(void **state)
{
	struct ckc_heap *heap = heap_of(1);
	uint64_t at[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		at[i] = ckc_heap_take(heap, CK_CHUNK / 4, &anyone);
	assert_int_equal(ckc_heap_take(heap, 1, &anyone), 0);
	assert_int_equal(ckc_heap_idle(heap), 0);
	for (int i = 3; i >= 0; i -= 2)
		ckc_heap_give(heap, at[i], CK_CHUNK / 4, &over);
	for (int i = 0; i < 4; i += 2)
		ckc_heap_give(heap, at[i], CK_CHUNK / 4, &over);
	assert_int_equal(ckc_heap_idle(heap), CK_CHUNK);
	assert_int_equal(ckc_heap_take(heap, CK_CHUNK, &anyone), LO);
	ckc_heap_destroy(heap);
}

static void memory_in_use_by_work_is_not_given_out(void **state)
{
	struct ckc_heap *heap = heap_of(1);
	struct ckc_use use;

	(void)state;
	assert_int_equal(ckc_heap_take(heap, CK_CHUNK, &anyone), LO);
	ckc_heap_give(heap, LO, CK_CHUNK, &by_seven);
	assert_int_equal(ckc_heap_take(heap, 100, &anyone), 0);
	assert_int_equal(ckc_heap_take(heap, 100, &in_eight), 0);
	assert_true(ckc_heap_blocked(heap, 100, &use));
	assert_true(use.in_stream && use.stream == 7);
	assert_int_equal(ckc_heap_take(heap, 100, &in_seven), LO);  /* after its own work */
	assert_int_equal(ckc_heap_take(heap, 100, NULL), LO + 512); /* the caller has waited */
	ckc_heap_finish(heap, is_seven);
	assert_int_equal(ckc_heap_take(heap, 100, &anyone), LO + 1024);
	ckc_heap_destroy(heap);
}

static void pieces_with_different_uses_stay_apart_until_both_are_over(void **state)
{
	struct ckc_heap *heap = heap_of(2);

	(void)state;
	ckc_heap_take(heap, CK_CHUNK, &anyone);
	ckc_heap_take(heap, CK_CHUNK, &anyone);
	ckc_heap_give(heap, LO, CK_CHUNK, &by_seven);
	ckc_heap_give(heap, LO + CK_CHUNK, CK_CHUNK, &by_all);
	assert_int_equal(ckc_heap_take(heap, 2 * CK_CHUNK, NULL), 0);
	ckc_heap_finish(heap, is_seven);
	assert_int_equal(ckc_heap_take(heap, 2 * CK_CHUNK, NULL), 0);
	ckc_heap_finish(heap, all);
	assert_int_equal(ckc_heap_take(heap, 2 * CK_CHUNK, &anyone), LO);
	ckc_heap_destroy(heap);
}

static void a_context_that_ends_leaves_no_pointer(void **state)
{
	struct ckc_context *context = (struct ckc_context *)0x1234;
	const struct ckc_use use = {.command = 5, .context = context, .in_stream = true};
	struct ckc_heap *heap = heap_of(1);
	struct ckc_use now;

	(void)state;
	ckc_heap_take(heap, CK_CHUNK, &anyone);
	ckc_heap_give(heap, LO, CK_CHUNK, &use);
	ckc_heap_disown(heap, context);
	assert_true(ckc_heap_blocked(heap, 1, &now));
	assert_null(now.context);
	assert_false(now.in_stream);
	assert_int_equal(now.command, 5);
	ckc_heap_destroy(heap);
}

static void a_block_is_used_as_a_whole(void **state)
{
	struct ckc_heap *heap = heap_of(1);
	uint64_t block = ckc_heap_place(heap, 8 * CK_CHUNK, CK_CHUNK), at;
	size_t size;

	(void)state;
	ckc_heap_add_block(heap, block);
	assert_int_equal(ckc_heap_free(heap), CK_CHUNK); /* it is in use */
	ckc_heap_give(heap, block, 8 * CK_CHUNK - 100, &over);
	assert_int_equal(ckc_heap_cached(heap), 8 * CK_CHUNK);
	assert_int_equal(ckc_heap_take(heap, 4 * CK_CHUNK, &anyone), 0);
	assert_int_equal(ckc_heap_take(heap, 7 * CK_CHUNK + 1, &anyone), block);
	ckc_heap_give(heap, block, 7 * CK_CHUNK + 1, &over);
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, block);
	assert_int_equal(size, 8 * CK_CHUNK);
	assert_int_equal(ckc_heap_leased(heap), CK_CHUNK);
	ckc_heap_destroy(heap);
}

static void only_whole_chunks_go_back(void **state)
{
	struct ckc_heap *heap = heap_of(4);
	uint64_t at;
	size_t size;

	(void)state;
	ckc_heap_take(heap, 512, &anyone);
	assert_int_equal(ckc_heap_idle(heap), 3 * CK_CHUNK);
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, LO + CK_CHUNK);
	assert_int_equal(size, 3 * CK_CHUNK);
	assert_false(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(ckc_heap_leased(heap), CK_CHUNK);
	assert_int_equal(ckc_heap_place(heap, CK_CHUNK, CK_CHUNK),
			 LO + CK_CHUNK); /* its addresses are free */
	ckc_heap_destroy(heap);
}

/* A lease of units beside one of chunks: an allocation lies in both. */
static void only_whole_units_go_back(void **state)
{
	struct ckc_heap *heap = heap_of(8);
	uint64_t units = ckc_heap_place(heap, 3 * CK_HEAP_UNIT, CK_HEAP_UNIT), both, at;
	size_t size;

	(void)state;
	assert_int_equal(units, LO + 8 * CK_CHUNK);
	assert_int_equal(ckc_heap_add(heap, units, 3 * CK_HEAP_UNIT, CK_HEAP_UNIT), 0);
	both = ckc_heap_take(heap, CK_HEAP_UNIT + CK_CHUNK, &anyone);
	assert_int_equal(both, LO);
	assert_int_equal(ckc_heap_idle(heap), 2 * CK_HEAP_UNIT);
	ckc_heap_give(heap, LO + CK_CHUNK, CK_HEAP_UNIT,
		      &over); /* of both leases, a whole chunk each */
	assert_int_equal(ckc_heap_idle(heap), 7 * CK_CHUNK + 3 * CK_HEAP_UNIT);
	ckc_heap_take(heap, 7 * CK_CHUNK, &anyone);
	assert_int_equal(ckc_heap_take(heap, 512, &anyone), units);
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, units + CK_HEAP_UNIT);
	assert_int_equal(size, 2 * CK_HEAP_UNIT);
	assert_false(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(ckc_heap_leased(heap), 8 * CK_CHUNK + CK_HEAP_UNIT);
	ckc_heap_destroy(heap);
}

static void a_lease_of_units_begins_at_a_multiple_of_them(void **state)
{
	struct ckc_heap *heap = heap_of(3);
	uint64_t units = ckc_heap_place(heap, CK_HEAP_UNIT, CK_HEAP_UNIT);

	(void)state;
	assert_int_equal(units % CK_HEAP_UNIT, 0);
	assert_int_equal(units, LO + CK_HEAP_UNIT);
	assert_int_equal(ckc_heap_place(heap, 5 * CK_CHUNK, CK_CHUNK), LO + 3 * CK_CHUNK);
	ckc_heap_destroy(heap);
}

/* The server waits for their uses before it unmaps them. */
static void chunks_go_back_whatever_has_used_their_parts(void **state)
{
	struct ckc_heap *heap = heap_of(2);
	uint64_t a = ckc_heap_take(heap, 512, &anyone), b = ckc_heap_take(heap, 512, &anyone), at;
	size_t size;

	(void)state;
	ckc_heap_give(heap, a, 512, &by_seven);
	ckc_heap_give(heap, b, 512, &by_all);
	assert_int_equal(ckc_heap_idle(heap), 2 * CK_CHUNK);
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, LO);
	assert_int_equal(size, 2 * CK_CHUNK);
	assert_int_equal(ckc_heap_free(heap), 0);
	ckc_heap_destroy(heap);
}

static void what_may_still_be_used_stays(void **state)
{
	struct ckc_heap *heap = heap_of(3);
	uint64_t a = ckc_heap_take(heap, CK_CHUNK, &anyone), block, at;
	size_t size;

	(void)state;
	block = ckc_heap_place(heap, 8 * CK_CHUNK, CK_CHUNK);
	ckc_heap_add_block(heap, block);
	ckc_heap_give(heap, block, 8 * CK_CHUNK, &by_seven);
	ckc_heap_give(heap, a, CK_CHUNK, &by_seven);
	assert_true(ckc_heap_take_free(heap, true, &at, &size));
	assert_int_equal(at, LO + CK_CHUNK);
	assert_int_equal(size, 2 * CK_CHUNK);
	assert_false(ckc_heap_take_free(heap, true, &at, &size));
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, block);
	assert_true(ckc_heap_take_free(heap, false, &at, &size));
	assert_int_equal(at, LO);
	ckc_heap_destroy(heap);
}

static void addresses_that_are_asked_for_are_taken(void **state)
{
	struct ckc_heap *heap = heap_of(1);
	uint64_t at = ckc_heap_place(heap, CK_CHUNK, CK_CHUNK);

	(void)state;
	assert_int_equal(at, LO + CK_CHUNK);
	assert_int_equal(ckc_heap_place(heap, CK_CHUNK, CK_CHUNK), LO + 2 * CK_CHUNK);
	ckc_heap_cancel_place(heap, at);
	assert_int_equal(ckc_heap_place(heap, CK_CHUNK, CK_CHUNK), at);
	assert_int_equal(ckc_heap_place(heap, ROOM, CK_CHUNK), 0);
	assert_int_equal(ckc_heap_leased(heap), CK_CHUNK);
	ckc_heap_destroy(heap);
}

/* Many random allocations: none overlaps another, and in the end all memory is free again. */
static void nothing_overlaps(void **state)
{
	enum { PIECES = 300, CHUNKS = 16 };
	static unsigned char owner[CHUNKS * CK_CHUNK / CK_HEAP_ALIGN];
	static struct {
		uint64_t at;
		size_t size;
	} pieces[PIECES];
	struct ckc_heap *heap = heap_of(CHUNKS);
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		int i = rand_r(&seed) % PIECES;
		size_t first, count;

		if (!pieces[i].at) {
			pieces[i].size = 1 + (size_t)rand_r(&seed) % (256 << 10);
			pieces[i].at = ckc_heap_take(heap, pieces[i].size, &in_seven);
		}
		if (!pieces[i].at)
			continue;
		first = (pieces[i].at - LO) / CK_HEAP_ALIGN;
		count = (pieces[i].size + CK_HEAP_ALIGN - 1) / CK_HEAP_ALIGN;
		if (owner[first]) {
			memset(owner + first, 0, count);
			assert_int_equal(ckc_heap_give(heap, pieces[i].at, pieces[i].size,
						       round % 2 ? &over : &by_seven),
					 0);
			pieces[i].at = 0;
			continue;
		}
		for (size_t k = 0; k < count; k++)
			assert_int_equal(owner[first + k], 0);
		memset(owner + first, 1, count);
	}
	for (int i = 0; i < PIECES; i++) {
		if (pieces[i].at)
			ckc_heap_give(heap, pieces[i].at, pieces[i].size, &by_all);
	}
	ckc_heap_finish(heap, all);
	assert_int_equal(ckc_heap_free(heap), CHUNKS * CK_CHUNK);
	assert_int_equal(ckc_heap_take(heap, CHUNKS * CK_CHUNK, &anyone), LO);
	ckc_heap_destroy(heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_aligned_and_come_from_the_smallest_gap),
		cmocka_unit_test(freed_neighbours_are_one_piece_again),
		cmocka_unit_test(memory_in_use_by_work_is_not_given_out),
		cmocka_unit_test(pieces_with_different_uses_stay_apart_until_both_are_over),
		cmocka_unit_test(a_context_that_ends_leaves_no_pointer),
		cmocka_unit_test(a_block_is_used_as_a_whole),
		cmocka_unit_test(only_whole_chunks_go_back),
		cmocka_unit_test(only_whole_units_go_back),
		cmocka_unit_test(a_lease_of_units_begins_at_a_multiple_of_them),
		cmocka_unit_test(chunks_go_back_whatever_has_used_their_parts),
		cmocka_unit_test(what_may_still_be_used_stays),
		cmocka_unit_test(addresses_that_are_asked_for_are_taken),
		cmocka_unit_test(nothing_overlaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
