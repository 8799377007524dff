/*
 * tests/unit/test_util_servers.c - the list of servers in REMOTE_GPU_ADDRESS.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/address/servers.h"
#include "util/util.h"

static struct ck_server_list list;

static void parsed(const char *text)
{
	char why[CK_ADDRESS_WHY];

	assert_int_equal(ck_servers_parse(text, &list, why), 0);
}

static void entry(unsigned int index, const char *address, unsigned int count, unsigned int first)
{
	const struct ck_server_entry *e = &list.entries[index];

	assert_true(index < list.count);
	assert_string_equal(e->address, address);
	assert_int_equal(e->count, count);
	if (count > 0)
		assert_int_equal(e->devices[0], first);
}

static void nothing_is_one_entry_without_an_address(void **state)
{
	(void)state;
	parsed(NULL);
	assert_int_equal(list.count, 1);
	entry(0, "", 0, 0);
	parsed("");
	assert_int_equal(list.count, 1);
	assert_false(ck_servers_is_list(NULL));
}

static void devices_of_this_host_and_through_ssh(void **state)
{
	(void)state;
	parsed("local/1,2,ssh://a@b:22/3,ssh://[::1]");
	assert_int_equal(list.count, 3);
	entry(0, "local", 2, 1);
	entry(1, "ssh://a@b:22", 1, 3);
	entry(2, "ssh://[::1]", 0, 0);
}

static void a_single_address_stays_as_it_is(void **state)
{
	static const char *const texts[] = {
		"host",	       "host:9910", "tcp://host:1",	"[::1]:9909",
		"unix:/a/b/0", "shm:/s",    "unix:///run/sock", "file:/etc/gpu",
		"12",	       "local",	    "ssh://a@b:22"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		parsed(texts[i]);
		assert_int_equal(list.count, 1);
		entry(0, texts[i], 0, 0);
		assert_false(ck_servers_is_list(texts[i]));
	}
}

static void numbers_continue_a_list_of_devices_only(void **state)
{
	(void)state;
	parsed("a,b:9910,c/3,1,d/2,tcp://7,8:1,9");
	assert_int_equal(list.count, 7);
	entry(0, "a", 0, 0);
	entry(1, "b:9910", 0, 0);
	entry(2, "c", 2, 3);
	assert_int_equal(list.entries[2].devices[1], 1);
	entry(3, "d", 1, 2);
	entry(4, "tcp://7", 0, 0);
	entry(5, "8:1", 0, 0);
	entry(6, "9", 0, 0);
	assert_true(ck_servers_is_list("c/3"));
}

static void devices_follow_a_path_behind_two_slashes(void **state)
{
	(void)state;
	parsed("shm:/run/0//1,2,unix:/x/y,file:/f//0,[::1]:99/4");
	assert_int_equal(list.count, 4);
	entry(0, "shm:/run/0", 2, 1);
	entry(1, "unix:/x/y", 0, 0);
	entry(2, "file:/f", 1, 0);
	entry(3, "[::1]:99", 1, 4);
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const texts[] = {",",     "a,",   ",a",    "a,,b",	   "/0",
					    "a/",    "a/x",  "a/64",  "a/0,0",	   "a/-1",
					    "a/000", "a/0,", "a/1/2", "unix:/s//", "a/ 1"};
	char why[CK_ADDRESS_WHY];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		why[0] = '\0';
		assert_int_equal(ck_servers_parse(texts[i], &list, why), -EINVAL);
		assert_true(why[0]);
	}
}

static void the_entry_that_is_wrong_is_named(void **state)
{
	char why[CK_ADDRESS_WHY];

	(void)state;
	assert_int_equal(ck_servers_parse("a,http://b/0,c", &list, why), -EINVAL);
	assert_non_null(strstr(why, "http://b"));
	assert_null(strstr(why, "device"));
	assert_int_equal(ck_servers_parse("a,b:x/0", &list, why), -EINVAL);
	assert_non_null(strstr(why, "b:x: a port"));
	parsed("TCP://a/0,UNIX:/s//1");
	entry(1, "UNIX:/s", 1, 1);
}

static void too_many_and_too_long_are_refused(void **state)
{
	char text[2 * (CK_SERVERS_MAX + 1)], address[CK_SERVER_ADDRESS + 1];
	char why[CK_ADDRESS_WHY];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 2 ? ',' : 'a';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(ck_servers_parse(text, &list, why), -EINVAL);
	text[sizeof(text) - 3] = '\0';
	parsed(text);
	assert_int_equal(list.count, CK_SERVERS_MAX);
	memset(address, 'x', sizeof(address));
	memcpy(address, "unix:/", 6);
	address[sizeof(address) - 1] = '\0';
	assert_int_equal(ck_servers_parse(address, &list, why), -EINVAL);
	address[sizeof(address) - 2] = '\0';
	parsed(address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_one_entry_without_an_address),
		cmocka_unit_test(a_single_address_stays_as_it_is),
		cmocka_unit_test(devices_of_this_host_and_through_ssh),
		cmocka_unit_test(numbers_continue_a_list_of_devices_only),
		cmocka_unit_test(devices_follow_a_path_behind_two_slashes),
		cmocka_unit_test(what_is_no_list_is_refused),
		cmocka_unit_test(the_entry_that_is_wrong_is_named),
		cmocka_unit_test(too_many_and_too_long_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
