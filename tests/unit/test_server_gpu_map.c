/*
 * tests/unit/test_server_gpu_map.c - to which GPUs a session may return, and what its process then
 * knows of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/helpers/gpu_map.h"
#include "util/util.h"
#include "util/uuid.h"

/* GPU @i of machine @machine. */
static void name_gpu(int machine, int i, struct cks_manifest_device *out)
{
	unsigned char uuid[16] = {(unsigned char)machine, 1, [15] = (unsigned char)i};

	ck_uuid_print(uuid, out->uuid);
	snprintf(out->name, sizeof(out->name), "Model %c", i < 3 ? 'A' : 'B');
}

/* @order: "013" for its GPUs 0, 1 and 3. */
static struct cks_manifest_gpu list(int machine, const char *order)
{
	static struct cks_manifest_gpu gpu;

	memset(&gpu, 0, sizeof(gpu));
	for (gpu.count = 0; order[gpu.count]; gpu.count++)
		name_gpu(machine, order[gpu.count] - '0', &gpu.devices[gpu.count]);
	return gpu;
}

static struct cks_machine here(const char *visible, const char *allowed)
{
	struct cks_manifest_gpu all = list(1, "0123"), some = list(1, visible),
				own = list(1, allowed);
	struct cks_machine machine;
	struct cks_why why;

	assert_int_equal(cks_machine_fill(&machine, &all, &some, &own, &why), 0);
	assert_int_equal(machine.count, 4);
	return machine;
}

static uint32_t mark(int machine, int i)
{
	struct cks_manifest_device device;
	unsigned char uuid[16];

	name_gpu(machine, i, &device);
	assert_true(ck_uuid_parse(device.uuid, uuid));
	return cks_uuid_mark(uuid);
}

/* What comes of a wish, as in "1023": where each of the server's GPUs goes; or the reason. */
static const char *plan(const struct cks_machine *machine, uint32_t first, uint32_t second,
			const char *there, const char *goal)
{
	const uint32_t marks[CK_NOTE_GPUS] = {first, second};
	const struct cks_gpu_wish wish = {.there = there, .marks = marks, .goal = goal};
	static char text[512];
	struct cks_gpu_plan p;
	struct cks_why why;

	if (cks_gpu_plan_make(machine, &wish, &p, &why) < 0) {
		snprintf(text, sizeof(text), "%s", why.text);
		return text;
	}
	for (size_t i = 0; i < p.count; i++)
		text[i] = (char)('0' + p.goal[i]);
	text[p.count] = '\0';
	return text;
}

static void the_named_gpu_and_its_own_exchange_their_places(void **unused)
{
	struct cks_machine m = here("0123", "0123");

	(void)unused;
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "1"), "1023");
	assert_string_equal(plan(&m, mark(1, 1), 0, "", "0"), "1023");
	assert_string_equal(plan(&m, mark(1, 2), 0, "", "0"), "2103");
	assert_string_equal(plan(&m, mark(1, 1), 0, "", "1"), "0123");
	assert_string_equal(plan(&m, mark(1, 1), 0, "", ""), "0123");
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "0=2"), "2103");
}

static void several_gpus_must_be_named(void **unused)
{
	struct cks_machine m = here("0123", "0123");
	uint32_t one = mark(1, 0), two = mark(1, 1);

	(void)unused;
	assert_string_equal(plan(&m, one, two, "", "1"),
			    "it uses GPUs 0, 1: name each, as in 0=2,1=3");
	assert_string_equal(plan(&m, one, two, "", "0=1,1=0"), "1023");
	assert_string_equal(plan(&m, one, two, "", "0=1,1=2"), "1203");
	assert_string_equal(plan(&m, one, two, "", "0=1,1=1"), "a GPU is named twice");
	assert_string_equal(plan(&m, one, two, "", "0=1,0=2"), "a GPU is named twice");
	assert_string_equal(plan(&m, 0, 0, "", "1"), "it uses no GPU yet");
}

static void a_wish_must_be_a_number_or_a_list(void **unused)
{
	static const char *const wrong[] = {
		"x", "-1", "1x", "0=", "=1", "0=1,", "0=1;1=0", "0 = 1"};
	struct cks_machine m = here("0123", "0123");

	(void)unused;
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++)
		assert_string_equal(plan(&m, mark(1, 0), 0, "", wrong[i]),
				    "a device is a number, or a list as in 0=1,1=0");
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "4"), "the server has no GPU 4");
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "99999999999999999999999"),
			    "the server has no GPU 18446744073709551615");
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "7=1"), "it did not use GPU 7");
}

static void model_and_policy_must_fit(void **unused)
{
	struct cks_machine m = here("0123", "013");

	(void)unused;
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "3"),
			    "GPU 3 is a Model B, and it needs a Model A");
	assert_string_equal(plan(&m, mark(1, 0), 0, "", "2"),
			    "the policy does not allow it to use GPU 2");
	/* what it does not use may be anything */
	assert_string_equal(plan(&m, mark(1, 1), 0, "", "0=2,2=0"), "2103");
}

/* The server's CUDA_VISIBLE_DEVICES is 2,0: its GPU 0 is the machine's third one. */
static void numbers_are_those_of_the_server(void **unused)
{
	struct cks_machine m = here("20", "20");

	(void)unused;
	assert_int_equal(m.visible, 2);
	assert_int_equal(m.gpus[0].ordinal, 2);
	assert_string_equal(plan(&m, mark(1, 2), 0, "", "1"), "1023");
	assert_string_equal(plan(&m, mark(1, 2), 0, "", "2"), "the server has no GPU 2");
	/* one that it has from elsewhere */
	assert_string_equal(plan(&m, mark(1, 1), 0, "", ""),
			    "its GPU would not be one of the server's");
}

static char *there(int machine, int count)
{
	static char text[CK_MAP_GPUS * CK_UUID_TEXT];
	struct cks_manifest_device device;
	size_t at = 0;

	for (int i = 0; i < count; i++) {
		name_gpu(machine, i, &device);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
				       device.uuid);
	}
	return text;
}

static void gpus_of_another_machine_become_those_of_the_same_number(void **unused)
{
	struct cks_machine m = here("0123", "013");

	(void)unused;
	assert_string_equal(plan(&m, mark(2, 0), 0, there(2, 2), ""), "01");
	assert_string_equal(plan(&m, mark(2, 0), 0, there(2, 2), "1"), "12");
	assert_string_equal(plan(&m, mark(2, 0), 0, there(2, 1), "1"), "1");
	/* if it may use that one; else another of its model */
	assert_string_equal(plan(&m, mark(2, 2), 0, there(2, 3), ""), "120");
	m = here("0123", "3");
	assert_string_equal(plan(&m, mark(2, 2), 0, there(2, 3), ""),
			    "the policy does not allow it to use GPU 2");
	m = here("0123", "013");
	assert_string_equal(plan(&m, mark(2, 0), 0, there(2, 5), ""),
			    "it needs 5 GPUs; here are 4");
	assert_string_equal(plan(&m, mark(2, 0), 0, "GPU-1,GPU-2", ""),
			    "the GPUs that it left are not known");
	/* after all it is this one */
	assert_string_equal(plan(&m, mark(1, 0), 0, there(1, 4), ""), "0123");
}

/* Two servers of one machine, with a GPU each. */
static void a_session_gets_the_gpu_of_the_other_server(void **unused)
{
	struct cks_machine m = here("1", "1");

	(void)unused;
	assert_string_equal(plan(&m, mark(1, 0), 0, there(1, 4), ""), "0123");
	assert_int_equal(m.gpus[0].ordinal, 1);
	m = here("21", "21");
	assert_string_equal(plan(&m, mark(1, 0), mark(1, 1), there(1, 4), ""), "0123");
	m = here("3", "3"); /* of another model */
	assert_string_equal(plan(&m, mark(1, 0), 0, there(1, 4), ""),
			    "its GPU would not be one of the server's");
}

static void the_driver_gets_each_gpu_or_none(void **unused)
{
	struct cks_machine m = here("0123", "0123");
	const uint32_t marks[CK_NOTE_GPUS] = {mark(1, 0)};
	struct cks_gpu_wish wish = {.there = "", .marks = marks, .goal = "1"};
	struct cks_device_map map;
	struct cks_gpu_plan p;
	struct cks_why why;

	(void)unused;
	assert_int_equal(cks_gpu_plan_make(&m, &wish, &p, &why), 0);
	cks_gpu_plan_fill_map(&p, &m, &map);
	assert_int_equal(map.count, 4);
	assert_memory_equal(map.pairs[0].was, m.gpus[0].uuid, 16);
	assert_memory_equal(map.pairs[0].is, m.gpus[1].uuid, 16);
	assert_memory_equal(map.pairs[3].is, m.gpus[3].uuid, 16);
	assert_int_equal(cks_gpu_plan_place(&p, &m), 1);
	wish.goal = "0";
	assert_int_equal(cks_gpu_plan_make(&m, &wish, &p, &why), 0);
	cks_gpu_plan_fill_map(&p, &m, &map);
	assert_int_equal(map.count, 0);
}

static void a_machine_of_too_many_gpus_is_refused(void **unused)
{
	struct cks_manifest_gpu many = {.count = CK_MAP_GPUS + 1};
	struct cks_machine m;
	struct cks_why why;

	(void)unused;
	for (int i = 0; i <= CK_MAP_GPUS; i++)
		name_gpu(1, i, &many.devices[i]);
	assert_int_equal(cks_machine_fill(&m, &many, &many, &many, &why), -ERANGE);
	many.count = 1;
	strcpy(many.devices[0].uuid, "MIG-1");
	assert_int_equal(cks_machine_fill(&m, &many, &many, &many, &why), -ERANGE);
}

/* --- in the session's process */

static struct cks_device_map pairs(const char *from, const char *to)
{
	struct cks_device_map map = {.count = (uint32_t)strlen(from)};

	for (uint32_t i = 0; i < map.count; i++) {
		map.pairs[i].was[0] = (unsigned char)from[i];
		map.pairs[i].is[0] = (unsigned char)to[i];
	}
	return map;
}

static char now(char gpu)
{
	unsigned char uuid[16] = {(unsigned char)gpu}, is[16];

	return cks_device_map_now(uuid, is) ? (char)is[0] : gpu;
}

static char place(int device)
{
	unsigned char uuid[16] = {0};

	assert_true(cks_device_map_find(device, uuid));
	return (char)uuid[0];
}

static void moves_add_up(void **unused)
{
	const unsigned char a[16] = {'a'}, b[16] = {'b'};
	struct cks_device_map map = pairs("abc", "bac");
	unsigned char back[16];

	(void)unused;
	cks_device_map_note(0, a);
	cks_device_map_note(1, b);
	assert_int_equal(place(0), 'a');
	assert_int_equal(now('a'), 'a');
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'b');
	assert_int_equal(place(1), 'a');
	assert_int_equal(now('a'), 'b');
	cks_device_map_note(0, b); /* the driver's word does not count any more */
	assert_int_equal(place(0), 'b');
	map = pairs("abc", "acb");
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'c');
	assert_int_equal(now('c'), 'b');
	map = pairs("abc", "bca"); /* a to b, b to c, c to a */
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'a');
	assert_int_equal(place(1), 'b');
	assert_int_equal(now('c'), 'c');
	map = pairs("abc", "xyz"); /* another machine */
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'x');
	assert_int_equal(now('b'), 'y');
	map = pairs("xy", "yx");
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'y');
	assert_int_equal(place(1), 'x');
	assert_true(cks_device_map_before((const unsigned char[16]){'y'}, back));
	assert_int_equal(back[0], 'a');
	assert_false(cks_device_map_before((const unsigned char[16]){'q'}, back));
	map.count = UINT32_MAX; /* of a confused supervisor */
	cks_device_map_move(&map);
	assert_int_equal(place(0), 'x');
}

static void text_leads_back_to_a_uuid(void **unused)
{
	static const char *const wrong[] = {"",
					    "GPU-",
					    "GPU-00010203-0405-0607-0809-0a0b0c0d0e0",
					    "GPU-00010203-0405-0607-0809-0a0b0c0d0e0g",
					    "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f",
					    "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f0"};
	unsigned char uuid[16], back[16];
	char text[CK_UUID_TEXT];

	(void)unused;
	for (int i = 0; i < 16; i++)
		uuid[i] = (unsigned char)(i * 17);
	ck_uuid_print(uuid, text);
	assert_string_equal(text, "GPU-00112233-4455-6677-8899-aabbccddeeff");
	assert_true(ck_uuid_parse(text, back));
	assert_memory_equal(uuid, back, 16);
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++)
		assert_false(ck_uuid_parse(wrong[i], back));
	memset(uuid, 0, sizeof(uuid));
	assert_int_not_equal(cks_uuid_mark(uuid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_named_gpu_and_its_own_exchange_their_places),
		cmocka_unit_test(several_gpus_must_be_named),
		cmocka_unit_test(a_wish_must_be_a_number_or_a_list),
		cmocka_unit_test(model_and_policy_must_fit),
		cmocka_unit_test(numbers_are_those_of_the_server),
		cmocka_unit_test(gpus_of_another_machine_become_those_of_the_same_number),
		cmocka_unit_test(a_session_gets_the_gpu_of_the_other_server),
		cmocka_unit_test(the_driver_gets_each_gpu_or_none),
		cmocka_unit_test(a_machine_of_too_many_gpus_is_refused),
		cmocka_unit_test(moves_add_up),
		cmocka_unit_test(text_leads_back_to_a_uuid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
