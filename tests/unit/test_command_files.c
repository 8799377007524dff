/*
 * tests/unit/test_command_files.c - the list of the client's files that a server sends: names that
 * lead elsewhere are refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "command/login/fetch.h"
#include "rpc/record.h"
#include "util/util.h"

#define MARK 4

static char why[CKX_FILES_WHY];

static ck_file file(const char *name, const char *target, uint64_t size)
{
	return (ck_file){
		.name = (char *)(uintptr_t)name, .target = (char *)(uintptr_t)target, .size = size};
}

static int decode(ck_files_res *res)
{
	static unsigned char bytes[65536];
	ck_files_res out;
	long size = ck_reply_encode(bytes, sizeof(bytes), 1, (xdrproc_t)xdr_ck_files_res, res, 0);
	int ret;

	assert_true(size > 0);
	ret = ckx_files_decode(bytes + MARK, (size_t)size - MARK, &out, why);
	if (ret == 0)
		xdr_free((xdrproc_t)xdr_ck_files_res, &out);
	return ret;
}

/* A list of a client and these. */
static int decode_with(const ck_file *more, u_int count)
{
	ck_file all[16] = {file("cricket", "", 1), file("cricket-client.so", "", 2)};
	ck_files_res res = {
		.message = (char *)"", .release = (char *)"0.1.0", .files = {2 + count, all}};

	memcpy(all + 2, more, count * sizeof(*more));
	return decode(&res);
}

static void a_client_with_links_is_taken(void **state)
{
	const ck_file more[] = {file("lib/libcuda.so.1", "../cricket-client.so", 0),
				file("lib/libcuda.so", "libcuda.so.1", 0),
				file("libcuda.so", "cricket-client.so", 0),
				file("libcupti.so.13", "", 5)};

	(void)state;
	assert_int_equal(decode_with(more, CK_ARRAY_SIZE(more)), 0);
}

static void a_name_that_leads_elsewhere_is_refused(void **state)
{
	static const char *const names[] = {"",	     "/etc/passwd", "..",     "../x", "lib/../../x",
					    "a/b/c", ".bashrc",	    "lib/.",  "lib/", "a b",
					    "a\nb",  "-rf",	    "lib/-x", "./x"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		const ck_file more = file(names[i], "", 1);

		assert_int_equal(decode_with(&more, 1), -EPROTO);
	}
}

static void a_link_that_leads_out_is_refused(void **state)
{
	static const char *const targets[] = {"/etc", "../../x", "../x/y", "..", ".", "x/y", "../"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(targets); i++) {
		const ck_file deep = file("lib/a", targets[i], 0), top = file("a", targets[i], 0);

		assert_int_equal(decode_with(&deep, 1), -EPROTO);
		assert_int_equal(decode_with(&top, 1), -EPROTO);
	}
	const ck_file out = file("a", "../x", 0), long_link = file("a", "b", 1);

	assert_int_equal(decode_with(&out, 1), -EPROTO);
	assert_int_equal(decode_with(&long_link, 1), -EPROTO);
}

/* Else a file could be written through a link. */
static void names_that_collide_are_refused(void **state)
{
	const ck_file twice[] = {file("x", "", 1), file("x", "", 1)},
		      below[] = {file("lib", "emu", 0), file("lib/x", "", 1)},
		      above[] = {file("lib/x", "", 1), file("lib", "emu", 0)};

	(void)state;
	assert_int_equal(decode_with(twice, 2), -EPROTO);
	assert_int_equal(decode_with(below, 2), -EPROTO);
	assert_int_equal(decode_with(above, 2), -EPROTO);
}

static void sizes_have_a_bound(void **state)
{
	const ck_file none = file("x", "", 0), huge = file("x", "", UINT64_MAX),
		      sum[] = {file("x", "", CK_FILES_BYTES_MAX / 2),
			       file("y", "", CK_FILES_BYTES_MAX / 2)};

	(void)state;
	assert_int_equal(decode_with(&none, 1), -EPROTO);
	assert_int_equal(decode_with(&huge, 1), -EPROTO);
	assert_int_equal(decode_with(sum, 2), -EPROTO);
	assert_int_equal(decode_with(sum, 1), 0);
}

static void a_list_without_a_client_is_refused(void **state)
{
	ck_file one = file("cricket", "", 1);
	ck_files_res res = {.message = (char *)"", .release = (char *)"0.1.0", .files = {1, &one}};

	(void)state;
	assert_int_equal(decode(&res), -EPROTO);
}

static void a_refusal_is_in_the_servers_words(void **state)
{
	ck_files_res res = {.status = CK_FILES_NONE,
			    .message = (char *)"none \033[2J here",
			    .release = (char *)""};

	(void)state;
	assert_int_equal(decode(&res), -ENOENT);
	assert_string_equal(why, "none ?[2J here");
	res.status = CK_FILES_DENIED;
	assert_int_equal(decode(&res), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_with_links_is_taken),
		cmocka_unit_test(a_name_that_leads_elsewhere_is_refused),
		cmocka_unit_test(a_link_that_leads_out_is_refused),
		cmocka_unit_test(names_that_collide_are_refused),
		cmocka_unit_test(sizes_have_a_bound),
		cmocka_unit_test(a_list_without_a_client_is_refused),
		cmocka_unit_test(a_refusal_is_in_the_servers_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
