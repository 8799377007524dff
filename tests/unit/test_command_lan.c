/*
 * tests/unit/test_command_lan.c - lines of avahi-browse, which have what any host of the network
 * has announced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "command/servers/lan.h"
#include "util/util.h"

#define PIN "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LINE(name, interface, ip, port, txt)                                                       \
	"=;" interface ";IPv4;" name ";_cricket._tcp;local;gpu1.local;" ip ";" port ";" txt "\n"

static struct ckx_lan lan;

static void parse(const char *text)
{
	char *copy = strdup(text);

	ckx_lan_parse(copy, &lan);
	free(copy);
}

static void servers_are_taken_once(void **state)
{
	const struct ckx_lan_server *s = lan.servers;

	(void)state;
	parse("+;v0;IPv4;Cricket\\032on\\032gpu1;_cricket._tcp;local\n" /* not resolved yet */
	      LINE("Cricket\\032on\\032gpu1", "v0", "10.77.0.1", "9909", "\"pin=" PIN "\"")
		      LINE("Cricket\\032on\\032gpu1", "v1", "10.77.0.1", "9909", "\"pin=" PIN "\"")
			      LINE("Cricket\\032on\\032gpu1", "v0", "fd77::1", "9909",
				   "\"pin=" PIN "\"") LINE("other", "v0", "fe80::1", "9910", ""));
	assert_int_equal(lan.count, 3);
	assert_string_equal(s[0].name, "Cricket on gpu1");
	assert_string_equal(s[0].address, "10.77.0.1:9909");
	assert_string_equal(s[0].interface, "v0");
	assert_string_equal(s[0].pin, PIN);
	assert_string_equal(s[1].address, "[fd77::1]:9909");
	assert_string_equal(s[2].address, "[fe80::1%v0]:9910");
	assert_string_equal(s[2].pin, "");
}

static void names_have_no_commands_for_terminals(void **state)
{
	(void)state;
	/* as Avahi 0.8 writes: a;b "q" \.x, a letter of two bytes, and a mark of direction */
	parse(LINE("a\\059b\\032\\034q\\034\\032\\\\\\.x\\032\\195\\188\\032\\226\\128\\174r", "v0",
		   "10.0.0.1", "77", "") LINE("\\027[2Jx\\010y\\155z", "v0", "10.0.0.2", "77", ""));
	assert_int_equal(lan.count, 2);
	assert_string_equal(lan.servers[0].name, "a;b \"q\" \\.x \xc3\xbc ?r");
	assert_string_equal(lan.servers[1].name, "?[2Jx?y?z");
}

static void a_pin_is_one_of_the_strings_and_a_right_one(void **state)
{
	static const struct {
		const char *txt, *pin;
	} texts[] = {
		{"\"a;b\\\"c\\\\d\" \"pin=" PIN "\"", PIN},
		{"\"a\\\"\" \"pin=" PIN "\" \"x\"", PIN},
		{"\"xpin=" PIN "\"", ""},
		{"\"a\\\" \\\"pin=" PIN "\"", ""},
		{"\"pin=" PIN "0\"", ""},
		{"\"pin=\\027[2J\"", ""},
		{"\"pin=\"", ""},
		{"pin=" PIN, ""},
		{"\"pin", ""},
		{"\"\\", ""},
	};
	char line[512];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		snprintf(line, sizeof(line), "=;v0;IPv4;a;_cricket._tcp;local;h;10.0.0.1;77;%s\n",
			 texts[i].txt);
		parse(line);
		assert_int_equal(lan.count, 1);
		assert_string_equal(lan.servers[0].pin, texts[i].pin);
	}
}

static void wrong_lines_are_left_out(void **state)
{
	static const char *const lines[] = {
		"",
		"=",
		"=;v0;IPv4;a;_cricket._tcp;local;h;10.0.0.1;77\n", /* no strings */
		"-;v0;IPv4;a;_cricket._tcp;local;h;10.0.0.1;77;\n",
		"=;v0;IPv4;a;_other._tcp;local;h;10.0.0.1;77;\n",
		LINE("", "v0", "10.0.0.1", "77", ""),
		LINE("a\\3", "v0", "10.0.0.1", "77", ""),
		LINE("a\\999", "v0", "10.0.0.1", "77", ""),
		LINE("a\\000b", "v0", "10.0.0.1", "77", ""),
		LINE("0123456789012345678901234567890123456789012345678901234567890123", "v0",
		     "10.0.0.1", "77", ""),
		LINE("a", "", "10.0.0.1", "77", ""),
		LINE("a", "v0\x1b", "10.0.0.1", "77", ""),
		LINE("a", "0123456789012345", "10.0.0.1", "77", ""),
		LINE("a", "v0", "gpu1", "77", ""),
		LINE("a", "v0", "10.0.0", "77", ""),
		LINE("a", "v0", "10.0.0.1", "0", ""),
		LINE("a", "v0", "10.0.0.1", "65536", ""),
		LINE("a", "v0", "10.0.0.1", "", ""),
		LINE("a", "v0", "10.0.0.1", "-1", ""),
		LINE("a", "v0", "10.0.0.1", "77/1", ""),
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(lines); i++) {
		parse(lines[i]);
		if (lan.count != 0)
			fail_msg("taken: %s", lines[i]);
	}
}

static void there_is_a_limit(void **state)
{
	static char text[8192 + CKX_LAN_SERVERS * 128];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < CKX_LAN_SERVERS + 9; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      LINE("a", "v0", "10.0.0.%d", "77", ""), i + 1);
	parse(text);
	assert_int_equal(lan.count, CKX_LAN_SERVERS);
	assert_string_equal(lan.servers[CKX_LAN_SERVERS - 1].address, "10.0.0.64:77");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_are_taken_once),
		cmocka_unit_test(names_have_no_commands_for_terminals),
		cmocka_unit_test(a_pin_is_one_of_the_strings_and_a_right_one),
		cmocka_unit_test(wrong_lines_are_left_out),
		cmocka_unit_test(there_is_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
