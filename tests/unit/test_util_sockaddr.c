/*
 * tests/unit/test_util_sockaddr.c - one text for all spellings of a host's address.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/address/sockaddr.h"
#include "util/util.h"

static void each_spelling_has_the_same_text(void **state)
{
	static const char *const cases[][2] = {
		{"10.0.0.7", "10.0.0.7"},
		{"::ffff:10.0.0.7", "10.0.0.7"},
		{"::FFFF:a00:7", "10.0.0.7"},
		{"[::ffff:10.0.0.7]", "10.0.0.7"},
		{"0:0:0:0:0:ffff:127.0.0.1", "127.0.0.1"},
		{"2001:DB8:0::0:1", "2001:db8::1"},
		{"[::1]", "::1"},
		{"fe80::7%lo", "fe80::7%lo"},
		{"[FE80::7%lo]", "fe80::7%lo"},
	};
	struct sockaddr_storage address;
	char text[CK_SOCKADDR_TEXT];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		assert_true(ck_sockaddr_parse(cases[i][0], &address));
		assert_true(ck_sockaddr_print(&address, text));
		assert_string_equal(text, cases[i][1]);
	}
}

static void what_is_no_address_of_one_host_is_refused(void **state)
{
	static const char *const cases[] = {
		"",	     "host",	"localhost",   "10.0.0",	 "10.0.0.7/8",
		"010.0.0.7", "1",	"10.0.0.7:80", "[10.0.0.7]",	 "[::1",
		"::1]",	     "[]",	"[::1]:80",    "fe80::7",	 "fe80::7%",
		"::1%lo",    "2001::z", "10.0.0.7%lo", "fe80::7%nolink",
	};
	struct sockaddr_storage address;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++)
		assert_false(ck_sockaddr_parse(cases[i], &address));
}

static void an_ipv4_client_of_a_socket_for_both_is_an_ipv4_client(void **state)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET6, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0),
	    off = 0, fd;
	struct sockaddr_storage peer;
	char text[CK_SOCKADDR_TEXT];
	socklen_t size = sizeof(at);

	(void)state;
	if (listener < 0)
		skip(); /* no IPv6 here */
	setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	to.sin_port = at.sin6_port;
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	fd = accept(listener, NULL, NULL);
	assert_int_equal(ck_sockaddr_peer(fd, &peer), 0);
	assert_int_equal(peer.ss_family, AF_INET);
	assert_true(ck_sockaddr_print(&peer, text));
	assert_string_equal(text, "127.0.0.1");
	close(fd);
	close(client);
	close(listener);
	assert_true(ck_sockaddr_peer(-1, &peer) < 0 && !ck_sockaddr_print(&peer, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_spelling_has_the_same_text),
		cmocka_unit_test(what_is_no_address_of_one_host_is_refused),
		cmocka_unit_test(an_ipv4_client_of_a_socket_for_both_is_an_ipv4_client),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
