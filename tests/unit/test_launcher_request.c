/*
 * tests/unit/test_launcher_request.c - finding the end of a message, and what it asks for.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf/kernels.h"
#include "launcher/launch/params.h"
#include "launcher/request/request.h"
#include "launcher/text/frame.h"
#include "util/util.h"

#define LAUNCH "\"module\":\"m\",\"kernel\":\"k\",\"grid\":[1],\"block\":[1,2,3]"

/* The text byte by byte: the end is found at its last byte and no earlier. */
static void the_end_is_found_wherever_the_text_is_cut(void **state)
{
	static const char text[] =
		" \n{\"a\":[1,2],\"b\\\"}\":{\"c\":[[],[\"]\"]]},\"d\":\"\\\\\"}";
	struct ckl_scan scan = {0};
	size_t size = strlen(text), length;
	char *outline;

	(void)state;
	for (size_t i = 0; i < size; i++)
		assert_int_equal(ckl_scan(&scan, text, i), 0);
	assert_int_equal(ckl_scan(&scan, text, size), 1);
	assert_int_equal(scan.at, size);
	assert_int_equal(scan.count, 3);
	assert_int_equal(scan.leaves[0].count, 2);
	assert_int_equal(scan.leaves[1].count, 0);
	assert_int_equal(scan.leaves[2].count, 1);
	outline = ckl_scan_outline(&scan, text, &length);
	assert_int_equal(length, strlen("{\"a\":[0],\"b\\\"}\":{\"c\":[[1],[2]]},\"d\":\"\\\\\"}"));
	assert_memory_equal(outline, "{\"a\":[0],\"b\\\"}\":{\"c\":[[1],[2]]},\"d\":\"\\\\\"}",
			    length);
	free(outline);
	ckl_scan_free(&scan);
}

/* Long arrays are scanned 16 bytes at a time: the counts are the same wherever pieces of the text
 * end. */
static void elements_are_counted_wherever_the_text_is_cut(void **state)
{
	static const char text[] =
		"{\"a\":[1,2,3.25,-4e5,6,7,8,9,10,11,12,13,14,15,16,17],\"b\":[\"x,]y\",1,\"\\\",["
		"\","
		"22222222222222222222222,3],\"c\":[[1,2,3,4,5,6,7,8,9],[ 1 ,  2\t, 3333333333 ]],"
		"\"d\":[2,\"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",3]}";
	static const size_t counts[] = {16, 5, 9, 3, 3};
	size_t size = strlen(text);

	(void)state;
	for (size_t step = 1; step <= size; step++) {
		struct ckl_scan scan = {0};
		int ret = 0;

		for (size_t have = step; ret == 0; have += step)
			ret = ckl_scan(&scan, text, have < size ? have : size);
		assert_int_equal(ret, 1);
		assert_int_equal(scan.count, 5);
		for (size_t i = 0; i < 5; i++)
			assert_int_equal(scan.leaves[i].count, counts[i]);
		ckl_scan_free(&scan);
	}
}

static void what_is_no_object_is_refused(void **state)
{
	static const char *const texts[] = {"[",      "x",  "}",	 "1",
					    "\"{}\"", "{]", "{\"a\":[}", "{[}]"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		struct ckl_scan scan = {0};

		assert_int_equal(ckl_scan(&scan, texts[i], strlen(texts[i])), -EINVAL);
		ckl_scan_free(&scan);
	}
}

static struct ckl_request read_good(const char *text)
{
	struct ckl_request request;
	struct ckl_fail fail = {0};

	if (ckl_request_read(&request, text, strlen(text), NULL, NULL, &fail) < 0)
		fail_msg("%s: %s", text, fail.message);
	return request;
}

static void arguments_are_in_the_kernels_order(void **state)
{
	struct ckl_request r =
		read_good("{" LAUNCH ",\"scalars\":[8.0,true],\"arrays\":{\"b\":[1,2,3],"
			  "\"a\":{\"type\":\"i16\",\"data\":[4],\"mode\":\"in\"}}}");

	(void)state;
	assert_int_equal(r.argc, 4);
	assert_false(r.args[0].array || r.args[1].array);
	assert_memory_equal(r.args[0].text, "8.0", 3);
	assert_string_equal(r.args[2].name, "b");
	assert_int_equal(r.args[2].count, 3);
	assert_int_equal(r.args[2].size, 12);
	assert_true(r.args[2].returned && !r.args[3].returned);
	assert_int_equal(r.args[3].type, CK_TYPE_I16);
	assert_int_equal(r.block[2], 3);
	assert_int_equal(r.grid[1], 1);
	ckl_request_free(&r);
}

/* A list of one integer and an index of the outline look alike; no text may mix them up. */
static void lists_in_lists_are_refused_and_lists_of_one_are_not(void **state)
{
	static const char good[] = "{" LAUNCH ",\"args\":[[7],[0],1,{\"data\":[5]}]}";
	static const char bad[] = "{" LAUNCH ",\"args\":[[[0]]]}";
	struct ckl_request r = read_good(good), wrong;
	struct ckl_fail fail = {0};

	(void)state;
	assert_int_equal(r.argc, 4);
	assert_memory_equal(r.args[0].text, "7", 1);
	assert_memory_equal(r.args[1].text, "0", 1);
	assert_memory_equal(r.args[3].text, "5", 1);
	assert_string_equal(r.args[3].name, "arg3");
	ckl_request_free(&r);
	assert_true(ckl_request_read(&wrong, bad, strlen(bad), NULL, NULL, &fail) < 0);
	assert_int_equal(fail.exit, CK_EXIT_INPUT);
}

static void defaults_fill_what_is_missing(void **state)
{
	static const char text[] = "{\"source\":\"s\",\"block\":[5]}";
	json_t *defaults = json_pack("{ssss s[iii] s[iii] si}", "module", "m", "kernel", "k",
				     "grid", 2, 3, 4, "block", 1, 1, 1, "shared", 7);
	struct ckl_fail fail = {0};
	struct ckl_request r;

	(void)state;
	assert_int_equal(ckl_request_read(&r, text, strlen(text), NULL, defaults, &fail), 0);
	assert_null(r.module);
	assert_string_equal(r.source, "s");
	assert_string_equal(r.kernel, "k");
	assert_int_equal(r.grid[2], 4);
	assert_int_equal(r.block[0], 5);
	assert_int_equal(r.shared, 7);
	ckl_request_free(&r);
	json_decref(defaults);
}

static void a_frame_is_taken_apart_and_its_lengths_are_checked(void **state)
{
	static const char text[] = "{" LAUNCH ",\"args\":[{\"at\":4,\"n\":1}]}";
	size_t length = strlen(text), offset = ckl_frame_data_offset(length), size = offset + 8;
	char *frame = calloc(1, size);
	struct ckl_fail fail = {0};
	struct ckl_request r;
	struct ckl_frame parts;

	(void)state;
	memcpy(frame + CK_FRAME_TEXT, text, length);
	ckl_frame_close(frame, length, 8);
	assert_int_equal(ckl_request_read(&r, frame, size, NULL, NULL, &fail), 0);
	assert_ptr_equal(r.args[0].data, frame + offset + 4);
	ckl_request_free(&r);
	for (size_t cut = 0; cut < size; cut++)
		assert_true(ckl_frame_open(frame, cut, &parts) < 0);
	ckl_frame_close(frame, length, 4);
	assert_true(ckl_request_read(&r, frame, size - 4, NULL, NULL, &fail) < 0);
	assert_int_equal(fail.exit, CK_EXIT_INPUT);
	free(frame);
}

static void scalars_take_the_parameters_type(void **state)
{
	static const char ptx[] =
		".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k("
		".param .u32 a, .param .f32 b, .param .u64 .ptr .align 1 c, .param .b32 d)"
		"{ ret; }";
	struct ckl_request r = read_good("{" LAUNCH ",\"args\":[8.0,8,1,8]}");
	struct ck_kernels kernels;
	const struct ck_kernel *kernel;
	struct ckl_fail fail = {0};
	uint32_t out;

	(void)state;
	ckl_params_kernels(ptx, sizeof(ptx), &kernels);
	kernel = ckl_params_find(&kernels, "k", &fail);
	assert_non_null(kernel);
	assert_int_equal(ckl_params_scalar(kernel, &r, 0, &out, &fail), 0);
	assert_int_equal(out, 8);
	assert_int_equal(ckl_params_scalar(kernel, &r, 1, &out, &fail), 0);
	assert_int_equal(out, 0x41000000);
	assert_true(ckl_params_scalar(kernel, &r, 3, &out, &fail) < 0);
	ckl_fail_clear(&fail);
	/* a number where a pointer is */
	assert_true(ckl_params_check(kernel, &r, &fail) < 0);
	ckl_request_free(&r);
	ck_kernels_free(&kernels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_found_wherever_the_text_is_cut),
		cmocka_unit_test(elements_are_counted_wherever_the_text_is_cut),
		cmocka_unit_test(what_is_no_object_is_refused),
		cmocka_unit_test(arguments_are_in_the_kernels_order),
		cmocka_unit_test(lists_in_lists_are_refused_and_lists_of_one_are_not),
		cmocka_unit_test(defaults_fill_what_is_missing),
		cmocka_unit_test(a_frame_is_taken_apart_and_its_lengths_are_checked),
		cmocka_unit_test(scalars_take_the_parameters_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
