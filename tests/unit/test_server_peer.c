/*
 * tests/unit/test_server_peer.c - whether a unix socket leads to the client itself or into a
 * tunnel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/processes/peer.h"

static void a_tunnel_is_told_from_the_client_itself(void **state)
{
	unsigned char host[CK_MACHINE_ID], machine[CK_MACHINE_ID],
		other[CK_MACHINE_ID] = "elsewhere", none[CK_MACHINE_ID] = {0};
	unsigned int own = (unsigned int)getpid();
	int pair[2];

	(void)state;
	assert_true(ck_machine_host(host) && ck_machine_id(machine));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_false(cks_peer_is_tunnel(pair[0], own, machine, host));
	assert_true(cks_peer_is_tunnel(pair[0], own + 1, machine, host));
	assert_true(cks_peer_is_tunnel(pair[0], own, other, other));
	/* a container of this host, whose process ids are others */
	assert_false(cks_peer_is_tunnel(pair[0], own + 1, other, host));
	/* a client that does not say where it is */
	assert_false(cks_peer_is_tunnel(pair[0], own + 1, none, none));
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tunnel_is_told_from_the_client_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
