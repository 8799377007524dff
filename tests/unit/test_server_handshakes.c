/*
 * tests/unit/test_server_handshakes.c - TLS handshakes without a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/front/handshakes.h"

static void without_keys_a_connection_is_closed(void **state)
{
	struct cks_handshakes *shakes = cks_handshakes_create();
	struct pollfd fds[CK_HANDSHAKES_POLL];
	int wire[2], plain[2];
	char byte;

	(void)state;
	assert_non_null(shakes);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, wire), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, plain), 0);
	cks_handshakes_add(shakes, wire[0], plain[0]);
	assert_int_equal(cks_handshakes_poll(shakes, fds), 0);
	assert_int_equal(read(wire[1], &byte, 1), 0);
	assert_int_equal(read(plain[1], &byte, 1), 0);
	close(wire[1]);
	close(plain[1]);
	cks_handshakes_destroy(shakes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_keys_a_connection_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
