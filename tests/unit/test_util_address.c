/*
 * tests/unit/test_util_address.c - the address of one server.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/address/address.h"
#include "util/util.h"

static struct ck_address address;
static char why[CK_ADDRESS_WHY];

static void parsed(const char *text, enum ck_address_kind kind)
{
	assert_int_equal(ck_address_parse(text, &address, why), 0);
	assert_int_equal(address.kind, kind);
	assert_int_equal(ck_address_kind_of(text), kind);
}

static void a_host_has_the_default_port(void **state)
{
	(void)state;
	parsed("GPUhost", CK_ADDRESS_TCP);
	assert_string_equal(address.host, "GPUhost");
	assert_int_equal(address.port, CK_DEFAULT_PORT);
	assert_true(address.bare);
	parsed("tcp://10.0.0.7:80", CK_ADDRESS_TCP);
	assert_string_equal(address.host, "10.0.0.7");
	assert_int_equal(address.port, 80);
	assert_false(address.bare || address.ipv6);
	parsed("[::1]:0", CK_ADDRESS_TCP);
	assert_string_equal(address.host, "::1");
	assert_int_equal(address.port, 0);
	assert_true(address.ipv6);
}

static void ssh_has_a_user_and_the_port_of_its_configuration(void **state)
{
	(void)state;
	parsed("ssh://lab", CK_ADDRESS_SSH);
	assert_string_equal(address.user, "");
	assert_int_equal(address.port, -1);
	parsed("ssh://ann@corp@[fe80::1%eth0]:2222", CK_ADDRESS_SSH);
	assert_string_equal(address.user, "ann@corp");
	assert_string_equal(address.host, "fe80::1%eth0");
	assert_int_equal(address.port, 2222);
}

static void paths_and_names_follow_a_scheme(void **state)
{
	(void)state;
	parsed("unix:/run/x", CK_ADDRESS_UNIX);
	assert_string_equal(address.path, "/run/x");
	assert_string_equal(ck_address_path("shm:/a"), "/a");
	parsed("file:/etc/gpus", CK_ADDRESS_FILE);
	parsed("srv:lab.example", CK_ADDRESS_SRV);
	assert_string_equal(address.path, "lab.example");
	assert_null(ck_address_path("srv:x"));
	assert_null(ck_address_path("host"));
	parsed("local", CK_ADDRESS_LOCAL);
	parsed("localhost", CK_ADDRESS_TCP);
	parsed("", CK_ADDRESS_USUAL);
}

static void the_case_of_a_scheme_does_not_matter(void **state)
{
	(void)state;
	parsed("TCP://host", CK_ADDRESS_TCP);
	parsed("Unix:/X", CK_ADDRESS_UNIX);
	assert_string_equal(address.path, "/X");
	parsed("SSH://h", CK_ADDRESS_SSH);
	parsed("LOCAL", CK_ADDRESS_LOCAL);
}

static void kinds_have_properties(void **state)
{
	(void)state;
	assert_true(ck_address_has("", CK_ADDRESS_HERE));
	assert_true(ck_address_has("SHM:/x", CK_ADDRESS_RINGS));
	assert_false(ck_address_has("unix:/x", CK_ADDRESS_RINGS));
	assert_true(ck_address_has("host", CK_ADDRESS_NETWORK));
	assert_false(ck_address_has("ssh://host", CK_ADDRESS_NETWORK));
	assert_true(ck_address_has("local", CK_ADDRESS_STARTS));
	assert_true(ck_address_has("srv:x", CK_ADDRESS_SEVERAL));
	assert_false(ck_address_has("http://x", CK_ADDRESS_NETWORK));
}

/* The reason for each says what is wrong. */
static void other_texts_are_refused_with_a_reason(void **state)
{
	static const char *const texts[][2] = {
		{"http://x:1", "http://"},
		{"tpc://h", "tpc://"},
		{"a:b", "port"},
		{"a:65536", "port"},
		{"a:", "port"},
		{"tcp://a:-1", "port"},
		{"tcp:/a", "port"},
		{"::1", "brackets"},
		{"a:1:2", "brackets"},
		{"[::1", "not an address"},
		{"[a]", "not an address"},
		{"a b", "not an address"},
		{":1", "not an address"},
		{"tcp://", "not an address"},
		{"unix:x", "path"},
		{"shm:", "path"},
		{"file:x", "path"},
		{"srv:", "not a DNS name"},
		{"ssh://", "not an address"},
		{"ssh://-x", "not an address"},
		{"ssh://@h", "user"},
		{"ssh://-u@h", "user"},
		{"ssh://h;x", "not an address"},
		{"local/0", "local"},
		{"h/0", "not an address"},
		{"\303\244", "not an address"},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		why[0] = '\0';
		assert_int_equal(ck_address_parse(texts[i][0], &address, why), -EINVAL);
		if (!strstr(why, texts[i][1]))
			fail_msg("%s: %s", texts[i][0], why);
	}
}

static void spellings_of_one_server_are_the_same(void **state)
{
	static const char *const pairs[][2] = {
		{"gpuhost", "gpuhost:9909"},
		{"tcp://gpuhost", "GPUHOST"},
		{"TCP://GpuHost:09909", "gpuhost."},
		{"gpuhost/0,1", "gpuhost"},
		{"[::1]", "tcp://[0:0:0:0:0:0:0:1]:9909"},
		{"[2001:DB8::1]:1", "[2001:db8::1]:1"},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:1"},
		{"[0:0:0:0:0:FFFF:a00:1]", "tcp://10.0.0.1/0"},
		{"unix:/run/x", "shm:///run/x//0"},
		{"ssh://ann@Lab", "SSH://ann@lab/1"},
		{"srv:Lab.example", "srv:lab.example"},
		{"local", "LOCAL"},
		{"", ""},
		{"no address", "no address"},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(pairs); i++) {
		if (!ck_address_same(pairs[i][0], pairs[i][1]))
			fail_msg("%s is not %s", pairs[i][0], pairs[i][1]);
	}
}

static void other_servers_are_not_the_same(void **state)
{
	static const char *const pairs[][2] = {
		{"gpuhost", "gpuhost:9910"},
		{"gpuhost", "gpuhost2"},
		{"ssh://Ann@lab", "ssh://ann@lab"},
		{"ssh://lab", "lab"},
		{"unix:/run/x", "unix:/run/X"},
		{"", "local"},
		{"srv:lab", "lab"},
		{"no address", "no Address"},
		{"http://x", "x"},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(pairs); i++) {
		if (ck_address_same(pairs[i][0], pairs[i][1]))
			fail_msg("%s is %s", pairs[i][0], pairs[i][1]);
	}
}

static void canonical_text_needs_room(void **state)
{
	char out[32];

	(void)state;
	assert_int_equal(ck_address_canonical("GPU", out, sizeof(out)), 0);
	assert_string_equal(out, "tcp://gpu:9909");
	assert_int_equal(ck_address_canonical("GPU", out, 14), -ENAMETOOLONG);
	assert_int_equal(ck_address_canonical("http://x", out, sizeof(out)), -EINVAL);
}

/* unix: is a byte longer than shm: before the same path. */
static void canonical_text_is_an_address_itself(void **state)
{
	char text[CK_ADDRESS_MAX] = "shm:/", out[2 * CK_ADDRESS_MAX];

	(void)state;
	memset(text + strlen(text), 'p', sizeof(text) - 2 - strlen(text));
	assert_int_equal(strlen(text), sizeof(text) - 2);
	assert_int_equal(ck_address_canonical(text, out, sizeof(out)), 0);
	assert_int_equal(strlen(out), sizeof(text) - 1);
	text[sizeof(text) - 2] = 'p';
	assert_int_equal(ck_address_canonical(text, out, sizeof(out)), -ENAMETOOLONG);
}

static void loopback_with_the_default_port_is_here(void **state)
{
	static const char *const here[] = {"", "local", "localhost", "127.0.0.1:9909", "[::1]"};
	static const char *const elsewhere[] = {"localhost:1", "127.0.0.2", "host", "unix:/x"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(here); i++) {
		parsed(here[i], ck_address_kind_of(here[i]));
		assert_true(ck_address_is_default_here(&address));
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(elsewhere); i++) {
		parsed(elsewhere[i], ck_address_kind_of(elsewhere[i]));
		assert_false(ck_address_is_default_here(&address));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_has_the_default_port),
		cmocka_unit_test(ssh_has_a_user_and_the_port_of_its_configuration),
		cmocka_unit_test(paths_and_names_follow_a_scheme),
		cmocka_unit_test(the_case_of_a_scheme_does_not_matter),
		cmocka_unit_test(kinds_have_properties),
		cmocka_unit_test(other_texts_are_refused_with_a_reason),
		cmocka_unit_test(spellings_of_one_server_are_the_same),
		cmocka_unit_test(other_servers_are_not_the_same),
		cmocka_unit_test(canonical_text_needs_room),
		cmocka_unit_test(canonical_text_is_an_address_itself),
		cmocka_unit_test(loopback_with_the_default_port_is_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
