/*
 * tests/unit/test_server_new_connection.c - connections that say nothing: who is pushed out when
 * there are too many.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/door/new_connection.h"
#include "server/options/options.h"

#define MOST 40 /* connections: half of the descriptors that the process may have */
#define SHARE (MOST / 2)
#define OLD_US 150000 /* when one may be pushed out */

static const struct cks_options options;
static struct cks_new_connection_list *list;
static struct sockaddr_in address;
static int listener;

/* A connection from 127.0.0.@host, in the list; the client's end. */
static int connect_from(uint32_t host)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(0x7f000000 + host)};
	int client = socket(AF_INET, SOCK_STREAM, 0), fd;

	assert_int_equal(bind(client, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	cks_new_connection_add(list, fd);
	return client;
}

static bool is_open(int client)
{
	char byte;

	return recv(client, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void wait_for_room(void)
{
	for (int ms = 0; ms < 10000 && !cks_new_connection_has_room(list); ms++)
		usleep(1000);
	assert_true(cks_new_connection_has_room(list));
}

static int begin(void **state)
{
	struct rlimit files;
	socklen_t size = sizeof(address);

	(void)state;
	address = (struct sockaddr_in){.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = 2 * MOST;
	setrlimit(RLIMIT_NOFILE, &files);
	list = cks_new_connection_create(NULL, &options, NULL, NULL, NULL);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	return !list || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	       listen(listener, 1) < 0 ||
	       getsockname(listener, (struct sockaddr *)&address, &size) < 0;
}

static int end(void **state)
{
	(void)state;
	cks_new_connection_destroy(list);
	close(listener);
	return 0;
}

static void one_peer_pushes_out_its_own(void **state)
{
	int greedy[SHARE], other, last;

	(void)state;
	other = connect_from(2); /* the oldest of all */
	for (int i = 0; i < SHARE; i++)
		greedy[i] = connect_from(1);
	usleep(OLD_US);
	last = connect_from(1);
	assert_false(is_open(greedy[0]));
	assert_true(is_open(greedy[1]) && is_open(last) && is_open(other));
}

static void what_is_young_stays_while_there_is_room(void **state)
{
	int clients[MOST];

	(void)state;
	for (int i = 0; i < MOST; i++)
		clients[i] = connect_from(1);
	for (int i = SHARE; i < MOST; i++)
		assert_true(is_open(clients[i]));
	wait_for_room();
}

static void a_full_list_pushes_out_the_peer_that_has_most(void **state)
{
	int oldest = connect_from(9), greedy[SHARE], last;

	(void)state;
	for (int i = 0; i < SHARE; i++)
		greedy[i] = connect_from(1);
	for (int i = 0; i < MOST - SHARE - 1; i++)
		connect_from(100 + (uint32_t)i);
	wait_for_room();
	last = connect_from(10);
	assert_false(is_open(greedy[0]));
	assert_true(is_open(greedy[1]) && is_open(oldest) && is_open(last));
}

static void new_connections_are_looked_at_without_a_poll(void **state)
{
	int client = connect_from(1);

	(void)state;
	assert_int_equal(send(client, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	usleep(20000);
	cks_new_connection_run(list);
	assert_false(is_open(client));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_peer_pushes_out_its_own, begin, end),
		cmocka_unit_test_setup_teardown(what_is_young_stays_while_there_is_room, begin,
						end),
		cmocka_unit_test_setup_teardown(a_full_list_pushes_out_the_peer_that_has_most,
						begin, end),
		cmocka_unit_test_setup_teardown(new_connections_are_looked_at_without_a_poll, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
