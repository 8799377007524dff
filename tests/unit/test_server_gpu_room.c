/*
 * tests/unit/test_server_gpu_room.c - what a suspended session needs on each GPU before it comes
 * back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/processes/gpu_room.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void what_it_freed_is_what_it_needs(void **unused)
{
	const struct cks_gpu_room before = {3, {10 * GIB, 4 * GIB, 0}},
				  after = {3, {12 * GIB + 500 * MIB, 4 * GIB, 2 * GIB}};
	struct cks_gpu_room need;

	(void)unused;
	cks_gpu_room_need(&before, &after, 4 * GIB, &need);
	assert_int_equal(need.count, 3);
	assert_int_equal(need.bytes[0], 2 * GIB + 500 * MIB);
	assert_int_equal(need.bytes[1], 0);
	assert_int_equal(need.bytes[2], 2 * GIB);
}

/* Others allocate and free meanwhile. */
static void changes_of_others_do_not_count_for_much(void **unused)
{
	const struct cks_gpu_room before = {2, {10 * GIB, 100 * GIB}},
				  less = {2, {11 * GIB, 90 * GIB}},
				  more = {2, {90 * GIB, 100 * GIB}};
	struct cks_gpu_room need;

	(void)unused;
	cks_gpu_room_need(&before, &less, 4 * GIB, &need);
	assert_int_equal(need.bytes[0], 4 * GIB);
	assert_int_equal(need.bytes[1], 0);
	cks_gpu_room_need(&before, &more, 4 * GIB, &need);
	assert_int_equal(need.bytes[0], 5 * GIB);
}

static void each_gpu_must_have_it(void **unused)
{
	const struct cks_gpu_room need = {2, {2 * GIB, 0}}, enough = {2, {3 * GIB, 0}},
				  short_of_it = {2, {2 * GIB, 90 * GIB}}, unknown = {0};
	char why[200];

	(void)unused;
	assert_true(cks_gpu_room_suffices(&enough, &need, why, sizeof(why)));
	assert_false(cks_gpu_room_suffices(&short_of_it, &need, why, sizeof(why)));
	assert_string_equal(why, "CUDA_ERROR_OUT_OF_MEMORY: it needs 2112 MiB of GPU 0, where 2048 "
				 "MiB are free");
	assert_true(cks_gpu_room_suffices(&unknown, &need, why, sizeof(why)));
	assert_true(cks_gpu_room_suffices(&short_of_it, &unknown, why, sizeof(why)));
}

static void words_lead_back_to_it(void **unused)
{
	struct cks_gpu_room full = {.count = CK_ROOM_GPUS}, room;
	char text[CK_ROOM_TEXT];

	(void)unused;
	memset(full.bytes, 0xff, sizeof(full.bytes));
	cks_gpu_room_print(&full, text);
	cks_gpu_room_parse(text, &room);
	assert_memory_equal(&room, &full, sizeof(room));
	cks_gpu_room_parse("", &room);
	assert_int_equal(room.count, 0);
	cks_gpu_room_parse("1,2x", &room);
	assert_int_equal(room.count, 2);
	cks_gpu_room_parse("x", &room);
	assert_int_equal(room.count, 1);
	assert_int_equal(room.bytes[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_freed_is_what_it_needs),
		cmocka_unit_test(changes_of_others_do_not_count_for_much),
		cmocka_unit_test(each_gpu_must_have_it),
		cmocka_unit_test(words_lead_back_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
