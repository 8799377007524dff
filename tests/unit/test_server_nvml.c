/*
 * tests/unit/test_server_nvml.c - NVML's handles, lists and processes on the server, and a server
 * that has no NVML.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/nvml/nvml.h"
#include "server/session/device_map.h"
#include "util/uuid.h"

static char many[2000]; /* addresses of its bytes serve as handles */

static nvmlDevice_t handle(size_t i)
{
	return (nvmlDevice_t)(void *)&many[i];
}

static void the_same_handle_has_the_same_number(void **state)
{
	unsigned int a = 0, b = 0, again = 0;
	nvmlDevice_t found = NULL;

	(void)state;
	assert_int_equal(cks_nvml_device_put(handle(0), &a), NVML_SUCCESS);
	assert_int_equal(cks_nvml_device_put(handle(1), &b), NVML_SUCCESS);
	assert_int_equal(cks_nvml_device_put(handle(0), &again), NVML_SUCCESS);
	assert_int_equal(again, a);
	assert_int_not_equal(a, b);
	assert_true(cks_nvml_device_find(b, &found));
	assert_ptr_equal(found, handle(1));
}

/* The UUID of byte @device of many. */
static nvmlReturn_t tell_uuid(nvmlDevice_t device, char *text, unsigned int room)
{
	unsigned char uuid[16] = {(unsigned char)((char *)(void *)device - many)};

	assert_true(room >= CK_UUID_TEXT);
	ck_uuid_print(uuid, text);
	return NVML_SUCCESS;
}

static nvmlReturn_t find_uuid(const char *text, nvmlDevice_t *device)
{
	unsigned char uuid[16];

	assert_true(ck_uuid_parse(text, uuid));
	*device = handle(uuid[0]);
	return NVML_SUCCESS;
}

static void a_handle_follows_the_session_to_another_gpu(void **state)
{
	const struct cks_device_map map = {2, {{{10}, {11}}, {{11}, {10}}}};
	unsigned int a = 0, b = 0, third = 0;
	nvmlDevice_t found = NULL;

	(void)state;
	ck_nvml.nvmlDeviceGetUUID = tell_uuid;
	ck_nvml.nvmlDeviceGetHandleByUUID = find_uuid;
	assert_int_equal(cks_nvml_device_put(handle(10), &a), NVML_SUCCESS);
	assert_int_equal(cks_nvml_device_put(handle(11), &b), NVML_SUCCESS);
	assert_int_equal(cks_nvml_device_put(handle(12), &third), NVML_SUCCESS);
	assert_true(cks_nvml_device_find(a, &found) && found == handle(10));
	cks_device_map_move(&map);
	assert_true(cks_nvml_device_find(a, &found) && found == handle(11));
	assert_true(cks_nvml_device_find(b, &found) && found == handle(10));
	assert_true(cks_nvml_device_find(third, &found) && found == handle(12));
	assert_true(cks_nvml_device_itself(a, &found) && found == handle(10));
	ck_nvml.nvmlDeviceGetUUID = NULL;
	ck_nvml.nvmlDeviceGetHandleByUUID = NULL;
}

static void a_number_that_was_never_given_is_no_device(void **state)
{
	nvmlDevice_t found = NULL;

	(void)state;
	assert_false(cks_nvml_device_find(0, &found));
	assert_false(cks_nvml_device_find(500, &found));
	assert_false(cks_nvml_device_find(UINT32_MAX, &found));
	assert_null(found);
}

static void the_table_of_handles_has_an_end(void **state)
{
	unsigned int id = 0;
	int err = NVML_SUCCESS;
	size_t i = 0;

	(void)state;
	while (i < sizeof(many) && !err)
		err = cks_nvml_device_put(handle(i++), &id);
	assert_int_equal(err, NVML_ERROR_INSUFFICIENT_RESOURCES);
	assert_int_equal(i, 1024);
	assert_int_equal(cks_nvml_device_put(handle(5), &id), NVML_SUCCESS);
}

static void room_is_never_more_than_a_reply_holds(void **state)
{
	char *room;

	(void)state;
	assert_int_equal(cks_nvml_room(0, 24, &room), 0);
	assert_null(room);
	assert_int_equal(cks_nvml_room(UINT32_MAX, 24, &room), (1u << 20) / 24);
	assert_int_equal(room[(1u << 20) / 24 * 24 - 1], 0);
	free(room);
	assert_int_equal(cks_nvml_room(7, 8, &room), 7);
	free(room);
}

static void only_whole_elements_are_taken(void **state)
{
	char *room = (char *)1;

	(void)state;
	assert_int_equal(cks_nvml_copy("12345678", 7, 4, &room), 0);
	assert_null(room);
	assert_int_equal(cks_nvml_copy(NULL, 0, 4, &room), 0);
	assert_int_equal(cks_nvml_copy("12345678", 8, 4, &room), 2);
	assert_memory_equal(room, "12345678", 8);
	free(room);
}

static void a_text_ends_in_its_room(void **state)
{
	(void)state;
	assert_int_equal(cks_nvml_length("abc", 10), 4);
	assert_int_equal(cks_nvml_length("abcdef", 4), 4); /* NVML would have ended it */
	assert_int_equal(cks_nvml_length(NULL, 0), 0);
}

static unsigned int shown;

/* A list of @count processes for a client with room for @asked; the result. */
static int show(struct nvmlProcessInfo_t *list, unsigned int count, unsigned int asked)
{
	int result = NVML_SUCCESS;
	unsigned int length = 0;

	shown = count;
	cks_nvml_pids(&(struct cks_nvml_pids){.list = (char *)list,
					      .size = sizeof(list[0]),
					      .room = count,
					      .asked = asked,
					      .result = &result,
					      .count = &shown,
					      .length = &length});
	assert_int_equal(length, result ? 0 : shown * sizeof(list[0]));
	return result;
}

static void the_client_finds_itself_and_not_the_worker(void **state)
{
	struct nvmlProcessInfo_t list[3] = {
		{.pid = 1}, {.pid = (unsigned int)getpid()}, {.pid = 99}};

	(void)state;
	cks_nvml_client(4711, "program");
	assert_int_equal(show(list, 3, 3), NVML_SUCCESS);
	assert_int_equal(shown, 3);
	assert_int_equal(list[0].pid, 1);
	assert_int_equal(list[1].pid, 4711);
	assert_int_equal(list[2].pid, 99);
}

static bool is_99(unsigned int pid)
{
	return pid == 99;
}

static void processes_of_others_can_be_left_out(void **state)
{
	struct nvmlProcessInfo_t list[3] = {
		{.pid = 1}, {.pid = (unsigned int)getpid()}, {.pid = 99}};
	char *room = NULL;

	(void)state;
	cks_nvml_client(4711, "program");
	cks_nvml_narrow(is_99);
	assert_true(cks_nvml_is_narrow());
	assert_int_equal(show(list, 3, 1), NVML_ERROR_INSUFFICIENT_SIZE); /* for two */
	assert_int_equal(shown, 2);
	list[0].pid = 1;
	list[1].pid = (unsigned int)getpid();
	list[2].pid = 99;
	assert_int_equal(show(list, 3, 2), NVML_SUCCESS);
	assert_int_equal(shown, 2);
	assert_int_equal(list[0].pid, 4711);
	assert_int_equal(list[1].pid, 99);
	assert_true(cks_nvml_pids_room(0, sizeof(list[0]), &room) >
		    100); /* of them most are left out */
	free(room);
	cks_nvml_narrow(NULL);
}

static void without_a_library_every_call_says_so(void **state)
{
	nvmlDeviceGetCount_v2_args args = {0};
	nvmlDeviceGetCount_v2_res res = {0};

	(void)state;
	if (dlopen("libnvidia-ml.so.1", RTLD_NOW))
		skip();
	assert_int_equal(ck_serve_nvmlDeviceGetCount_v2(NULL, &args, &res), CUDA_SUCCESS);
	assert_int_equal(res.nvml, NVML_ERROR_LIBRARY_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_handle_has_the_same_number),
		cmocka_unit_test(a_handle_follows_the_session_to_another_gpu),
		cmocka_unit_test(a_number_that_was_never_given_is_no_device),
		cmocka_unit_test(the_table_of_handles_has_an_end),
		cmocka_unit_test(room_is_never_more_than_a_reply_holds),
		cmocka_unit_test(only_whole_elements_are_taken),
		cmocka_unit_test(a_text_ends_in_its_room),
		cmocka_unit_test(the_client_finds_itself_and_not_the_worker),
		cmocka_unit_test(processes_of_others_can_be_left_out),
		cmocka_unit_test(without_a_library_every_call_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
