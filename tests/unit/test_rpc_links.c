/*
 * tests/unit/test_rpc_links.c - the links of a session in a program that closes what it does not
 * know.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/resource.h>

#include "rpc/links.h"
#include "rpc_ends.h"

#define LIMIT 256

/* A connection; its other end is *@peer. */
static struct ck_chan *open_connection(int *peer)
{
	struct ck_chan *chan;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(ck_chan_adopt(pair[0], &chan), 0);
	*peer = pair[1];
	return chan;
}

static bool has_ended(int peer)
{
	char byte;

	return recv(peer, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Close all descriptors that are not @known. */
static void close_others(const bool known[LIMIT])
{
	for (int fd = 3; fd < LIMIT; fd++) {
		if (!known[fd])
			close(fd);
	}
}

static void note_open(bool known[LIMIT])
{
	for (int fd = 0; fd < LIMIT; fd++)
		known[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void no_connection_is_attached_without_a_watch(void **state)
{
	struct ck_links_state now;
	struct ck_links *links;
	struct ck_link *link;
	bool known[LIMIT];
	int peer;

	(void)state;
	note_open(known);
	assert_int_equal(ck_links_create(NULL, NULL, true, &links), 0);
	assert_false(ck_links_unwatched(links));
	assert_int_equal(ck_links_open(links, "peer", 1, 0, &link), 0);
	close_others(known);
	assert_true(ck_links_unwatched(links));
	assert_int_equal(ck_links_attach(links, link, open_connection(&peer), 0, false, false),
			 -EBADF);
	assert_true(has_ended(peer));
	ck_links_state(links, &now);
	assert_int_equal(now.up, 0);
	assert_int_equal(now.down, 1);
	assert_int_equal(ck_links_handle(links, 0), -EBADF);
	close(peer);
	ck_links_put(links, link);
	ck_chan_close(link->chan);
	ck_links_destroy(links);
}

/* Each descriptor alone is made again, or has a spare. */
static void one_closed_descriptor_is_not_missed(void **state)
{
	struct ck_links *links;
	struct ck_link *link;
	bool known[LIMIT];
	int peer;

	(void)state;
	note_open(known);
	for (int fd = 3; fd < LIMIT; fd++) {
		assert_int_equal(ck_links_create(NULL, NULL, true, &links), 0);
		assert_int_equal(ck_links_open(links, "peer", 1, 0, &link), 0);
		if (!known[fd] && close(fd) == 0) {
			assert_false(ck_links_unwatched(links));
			assert_int_equal(ck_links_attach(links, link, open_connection(&peer), 0,
							 false, true),
					 0);
			assert_int_equal(ck_links_handle(links, 0), 0);
			close(peer);
			assert_int_equal(ck_links_handle(links, 1000), 1);
		}
		ck_links_put(links, link);
		ck_chan_close(link->chan);
		ck_links_destroy(links);
	}
}

static int limit_descriptors(void **state)
{
	const struct rlimit limit = {LIMIT, LIMIT};

	(void)state;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_connection_is_attached_without_a_watch),
		cmocka_unit_test(one_closed_descriptor_is_not_missed),
	};

	return cmocka_run_group_tests(tests, limit_descriptors, NULL);
}
