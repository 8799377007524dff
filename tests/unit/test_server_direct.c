/*
 * tests/unit/test_server_direct.c - bridges between two workers, both in this program: tickets,
 * copies, ends; and the addresses that workers may connect to.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "rpc/chan.h"
#include "server/copy/staging.h"
#include "server/direct/allowed_peers.h"
#include "server/direct/bridge.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"
#include "util/util.h"

#define WIDTH 3
#define CONTEXT ((CUcontext)(uintptr_t)1)

/* Two workers, and a bridge between them. */
static struct cks_session *sessions[2];
static struct cks_bridge *bridges[2];

/* --- a bridge */

static int begin(void **state)
{
	(void)state;
	fake_install();
	for (int i = 0; i < 2; i++) {
		sessions[i] = session_without_client();
		bridges[i] = cks_bridge_create(sessions[i]->direct, WIDTH);
		assert_non_null(bridges[i]);
	}
	for (unsigned int i = 0; i < WIDTH; i++) {
		int fds[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		for (int end = 0; end < 2; end++) {
			struct ck_chan *chan;

			assert_int_equal(ck_chan_adopt(fds[end], &chan), 0);
			cks_bridge_place(bridges[end], i, chan);
			assert_int_equal(cks_bridge_start(&bridges[end]->ends[i]), 0);
		}
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	fake_set_current(CONTEXT); /* pinned memory is given back where it was pinned */
	for (int i = 0; i < 2; i++) {
		cks_bridge_break(bridges[i]);
		cks_bridge_put(bridges[i]);
		cks_session_destroy(sessions[i]);
	}
	return fake.registered == 0 && fake.events == 0 ? 0 : -1;
}

struct job {
	struct cks_bridge *bridge;
	struct cks_part part;
	CUresult err;
};

static void *carry(void *data)
{
	struct job *j = data;

	j->err = cks_bridge_run(j->bridge, &j->part);
	free(j->part.arrived);
	return NULL;
}

static struct job range(int at, bool sends, void *memory, size_t size, uint64_t number)
{
	struct job j = {.bridge = bridges[at],
			.part = {.sends = sends,
				 .number = number,
				 .ctx = 1,
				 .context = CONTEXT,
				 .arrived = sends ? NULL : calloc(1, size / CK_PIECE_MAX / 8 + 2)}};

	cks_copy_iterator_flat(&j.part.walk, !sends, (uintptr_t)memory, size);
	return j;
}

static void both(struct job *a, struct job *b)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, carry, a), 0);
	carry(b);
	pthread_join(thread, NULL);
}

static unsigned char *bytes_of(size_t size, unsigned int seed)
{
	unsigned char *bytes = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)((i + seed) * 2654435761u >> 11);
	return bytes;
}

static void copies_of_all_sizes_are_exact_in_both_directions(void **state)
{
	static const size_t sizes[] = {1,	4096,	  65536,	  65537,
				       1000000, 4u << 20, (4u << 20) + 1, 9999999};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		unsigned char *from = bytes_of(sizes[i], (unsigned int)i),
			      *to = calloc(1, sizes[i] + 1);
		int source = i % 2;
		struct job s = range(source, true, from, sizes[i], i);
		struct job r = range(!source, false, to, sizes[i], i);

		both(&s, &r);
		assert_int_equal(s.err, CUDA_SUCCESS);
		assert_int_equal(r.err, CUDA_SUCCESS);
		assert_memory_equal(from, to, sizes[i]);
		assert_int_equal(to[sizes[i]], 0);
		free(from);
		free(to);
	}
}

static void a_box_fits_a_box_of_another_pitch(void **state)
{
	const CUDA_MEMCPY3D shape = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				     .srcXInBytes = 3,
				     .dstXInBytes = 5,
				     .dstY = 1,
				     .srcPitch = 3000,
				     .dstPitch = 4000,
				     .srcHeight = 200,
				     .dstHeight = 300,
				     .WidthInBytes = 2500,
				     .Height = 199,
				     .Depth = 4};
	unsigned char *from = bytes_of(3000 * 200 * 4, 1), *to = calloc(1, 4000 * 300 * 4);
	struct job s = range(0, true, from, 1, 1), r = range(1, false, to, 1, 1);
	CUDA_MEMCPY3D box = shape;

	(void)state;
	box.srcDevice = (uintptr_t)from;
	box.dstDevice = (uintptr_t)to;
	assert_int_equal(cks_copy_iterator_box(&s.part.walk, false, &box), CUDA_SUCCESS);
	assert_int_equal(cks_copy_iterator_box(&r.part.walk, true, &box), CUDA_SUCCESS);
	both(&s, &r);
	assert_int_equal(s.err, CUDA_SUCCESS);
	assert_int_equal(r.err, CUDA_SUCCESS);
	for (size_t z = 0; z < 4; z++) {
		for (size_t y = 0; y < 199; y++)
			assert_memory_equal(from + (z * 200 + y) * 3000 + 3,
					    to + (z * 300 + y + 1) * 4000 + 5, 2500);
	}
	free(from);
	free(to);
}

static void ends_that_mean_different_copies_copy_nothing(void **state)
{
	unsigned char from[100] = {1}, to[100] = {0};
	struct job s = range(0, true, from, 100, 1), r = range(1, false, to, 100, 2);

	(void)state;
	both(&s, &r);
	assert_int_equal(s.err, CUDA_ERROR_OPERATING_SYSTEM);
	assert_int_equal(r.err, CUDA_ERROR_OPERATING_SYSTEM);
	assert_int_equal(to[0], 0);
}

static void a_receiver_that_expects_more_has_no_success(void **state)
{
	unsigned char *from = bytes_of(1 << 20, 0), *to = calloc(1, 2 << 20);
	struct job s = range(0, true, from, 1 << 20, 1), r = range(1, false, to, 2 << 20, 1);

	(void)state;
	both(&s, &r);
	assert_int_equal(r.err, CUDA_ERROR_OPERATING_SYSTEM);
	free(from);
	free(to);
}

/* What the driver says is the error of its own end; the other one knows only that there is no
 * copy. */
static void an_error_of_the_driver_is_an_error_at_both_ends(void **state)
{
	unsigned char from[100] = {1}, to[100] = {0};
	struct job s = range(0, true, from, 100, 1), r = range(1, false, to, 100, 1);

	(void)state;
	fake.copy_error = CUDA_ERROR_INVALID_VALUE;
	both(&s, &r);
	fake.copy_error = CUDA_SUCCESS;
	assert_int_equal(s.err, CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(r.err, CUDA_ERROR_OPERATING_SYSTEM);
}

static void a_bridge_that_has_failed_carries_nothing_more(void **state)
{
	unsigned char from[100] = {1}, to[100] = {0};
	struct job s = range(0, true, from, 100, 1), r = range(1, false, to, 100, 1);

	(void)state;
	cks_bridge_break(bridges[1]);
	both(&s, &r);
	assert_int_equal(s.err, CUDA_ERROR_OPERATING_SYSTEM);
	assert_int_equal(r.err, CUDA_ERROR_OPERATING_SYSTEM);
	assert_null(cks_bridge_get(sessions[1]->direct, bridges[1]->number));
}

/* A session that moves is parked, and may have a copy in progress, whose thread is in front of the
 * gate. */
static void a_parked_session_closes_its_connections(void **state)
{
	unsigned char *from = bytes_of(8 << 20, 0);
	struct job s = range(0, true, from, 8 << 20, 1);
	pthread_t thread;

	(void)state;
	assert_true(cks_gate_close(&sessions[0]->gate, 1000));
	assert_int_equal(pthread_create(&thread, NULL, carry, &s), 0);
	cks_direct_leave(sessions[0]->direct);
	assert_int_equal(sessions[0]->direct->open, 0);
	pthread_join(thread, NULL);
	assert_int_equal(s.err, CUDA_ERROR_OPERATING_SYSTEM);
	cks_gate_open(&sessions[0]->gate);
	free(from);
}

static void a_context_can_end_in_the_middle_of_nothing(void **state)
{
	unsigned char from[100] = {1}, to[100] = {0};
	struct job s = range(0, true, from, 100, 1), r = range(1, false, to, 100, 1);

	(void)state;
	both(&s, &r);
	cks_staging_drop_context(sessions[0]->staging, 1);
	cks_staging_drop_context(sessions[1]->staging, 1);
	s = range(0, true, from, 100, 2);
	r = range(1, false, to, 100, 2);
	both(&s, &r);
	assert_int_equal(r.err, CUDA_SUCCESS);
	fake.registered = 0; /* contexts take their pinned memory along */
	fake_set_current(CONTEXT);
	for (int i = 0; i < 2; i++)
		cks_staging_drop_context(sessions[i]->staging, 1);
}

/* The other end says where each piece belongs: there is a place for every one, or no copy. */
static void a_range_as_large_as_all_addresses_is_refused(void **state)
{
	static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - CK_PIECE_MAX + 2, 1ull << 63};
	struct cks_request q = {.session = sessions[1], .ctx = 1};

	(void)state;
	assert_int_equal(
		cks_handles_put(sessions[1]->handles, 1, CK_KIND_CONTEXT, 0, (void *)CONTEXT), 0);
	cks_bridge_break(bridges[0]); /* it sends nothing */
	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		struct cks_bridge *b = cks_bridge_create(sessions[1]->direct, 1);
		ck_direct_receive_args args = {
			.bridge = b->number, .number = 1, .dst = 4096, .size = sizes[i]};

		CUresult err = ck_serve_direct_receive(&q, &args, NULL);

		cks_bridge_put(b);
		assert_int_equal(err, CUDA_ERROR_INVALID_VALUE);
	}
}

/* --- tickets */

static struct cks_bridge *issued(struct cks_direct *d, unsigned char ticket)
{
	struct cks_bridge *b = cks_bridge_create(d, 1);

	assert_non_null(b);
	memset(b->ends[0].ticket, ticket, CK_TICKET);
	b->ends[0].issued = true;
	return b;
}

static int show(struct cks_direct *d, unsigned char ticket)
{
	unsigned char bytes[CK_TICKET];
	struct ck_chan *chan;
	void *place = NULL;
	int fds[2], ret;

	memset(bytes, ticket, sizeof(bytes));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(ck_chan_adopt(fds[0], &chan), 0);
	ret = cks_direct_admit(d, bytes, chan, &place);
	if (place)
		cks_direct_begin(place);
	else
		ck_chan_close(chan);
	close(fds[1]);
	return ret;
}

static void a_ticket_is_good_once_and_for_a_while(void **state)
{
	struct cks_direct *d = sessions[0]->direct;
	struct cks_bridge *a = issued(d, 1), *b = issued(d, 2);

	(void)state;
	assert_int_equal(show(d, 3), -EACCES);
	assert_int_equal(show(sessions[1]->direct, 1), -EACCES);
	assert_int_equal(show(d, 0), -EACCES); /* what a ticket is that was not issued */
	assert_int_equal(show(d, 1), 0);
	assert_int_equal(show(d, 1), -EACCES);
	b->until = 0;
	assert_int_equal(show(d, 2), -EACCES);
	cks_bridge_break(a);
	cks_bridge_put(a);
	cks_bridge_put(b);
}

static void bridges_without_a_peer_make_room(void **state)
{
	struct cks_direct *d = sessions[0]->direct;
	struct cks_bridge *b;

	(void)state;
	for (unsigned int i = 1; i < CK_BRIDGES_MAX; i++)
		cks_bridge_put(issued(d, (unsigned char)i));
	assert_null(cks_bridge_create(d, 1));
	for (b = d->bridges; b; b = b->next)
		b->until = 0;
	b = cks_bridge_create(d, 1);
	assert_non_null(b); /* the one that has its connections is there too */
	assert_int_equal(d->count, 2);
	cks_bridge_put(b);
}

/* --- addresses */

static bool allows(const char *list, const char *address)
{
	struct cks_allowed_peers allowed;
	struct sockaddr_storage peer;

	assert_int_equal(cks_allowed_peers_parse(list, &allowed), 0);
	cks_allowed_peers_listen(&allowed, "0.0.0.0:7000");
	cks_allowed_peers_listen(&allowed, "[::]");
	assert_true(cks_allowed_peers_address(address, &peer));
	return cks_allowed_peers_has(&allowed, &peer);
}

static void a_list_allows_what_it_says(void **state)
{
	(void)state;
	assert_true(allows("10.0.0.0/8", "10.1.2.3:9909"));
	assert_true(allows("10.0.0.0/8", "tcp://10.1.2.3"));
	assert_true(allows("10.0.0.0/8", "10.1.2.3:7000")); /* a port of its own */
	assert_true(allows("10.0.0.0/8:22", "10.1.2.3:22"));
	assert_true(allows("10.0.0.0/8:*", "10.1.2.3:22"));
	assert_true(allows("1.2.3.4,10.0.0.9/31", "10.0.0.8:9909"));
	assert_true(allows("10.0.0.0/8", "[::ffff:10.1.2.3]:9909"));
	assert_true(allows("[fd00::]/8:*", "[fd12::1]:1"));
	assert_true(allows("0.0.0.0/0", "8.8.8.8:9909"));
	assert_false(allows("10.0.0.0/8", "10.1.2.3:22"));
	assert_false(allows("10.0.0.0/8:22", "10.1.2.3:9909"));
	assert_false(allows("10.0.0.0/8:*", "11.1.2.3:9909"));
	assert_false(allows("1.2.3.4", "1.2.3.5:9909"));
	assert_false(allows("10.0.0.9/31", "10.0.0.10:9909"));
	assert_false(allows("[::]/0:*", "10.1.2.3:9909"));
	assert_false(allows("0.0.0.0/0:*", "[fd12::1]:1"));
	assert_false(allows("none", "10.1.2.3:9909"));
}

static void by_default_only_private_networks_are_allowed(void **state)
{
	static const char *const no[] = {"127.0.0.1",	"169.254.169.254", "8.8.8.8",
					 "172.32.0.1",	"0.0.0.0",	   "[::1]",
					 "[fe80::1]",	"[2001:db8::1]",   "[::ffff:127.0.0.1]",
					 "224.0.0.1",	"255.255.255.255", "[::]",
					 "10.0.0.1:22", "192.168.0.1:80"};
	static const char *const yes[] = {"10.0.0.1", "172.31.0.1", "192.168.9.9:7000",
					  "[fd00::1]"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(no); i++)
		assert_false(allows(CK_ALLOWED_DEFAULT, no[i]));
	for (size_t i = 0; i < CK_ARRAY_SIZE(yes); i++)
		assert_true(allows(CK_ALLOWED_DEFAULT, yes[i]));
}

static void what_is_no_list_or_no_address_is_refused(void **state)
{
	static const char *const lists[] = {"",
					    ",",
					    "a.b",
					    "10.0.0.0/33",
					    "10.0.0.0/",
					    "10.0.0.0:0",
					    "10.0.0.0:65536",
					    "[fd00::]/129",
					    "[fd00::",
					    "10.0.0.1 ",
					    "::1",
					    "10.0.0.1:**",
					    "10.0.0.0/-1",
					    "10.0.0.0/8/8"};
	static const char *const addresses[] = {
		"",	"localhost", "1.2.3",	"1.2.3.4:0",  "1.2.3.4:", "1.2.3.4:99999",
		"[::1", "::1",	     "unix:/x", "1.2.3.4:1x", "1.2.3.4 ", "[]:1"};
	struct sockaddr_storage peer;
	struct cks_allowed_peers allowed;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(lists); i++)
		assert_int_equal(cks_allowed_peers_parse(lists[i], &allowed), -EINVAL);
	for (size_t i = 0; i < CK_ARRAY_SIZE(addresses); i++)
		assert_false(cks_allowed_peers_address(addresses[i], &peer));
}

#define BRIDGE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BRIDGE(copies_of_all_sizes_are_exact_in_both_directions),
		BRIDGE(a_box_fits_a_box_of_another_pitch),
		BRIDGE(ends_that_mean_different_copies_copy_nothing),
		BRIDGE(a_receiver_that_expects_more_has_no_success),
		BRIDGE(an_error_of_the_driver_is_an_error_at_both_ends),
		BRIDGE(a_bridge_that_has_failed_carries_nothing_more),
		BRIDGE(a_parked_session_closes_its_connections),
		BRIDGE(a_context_can_end_in_the_middle_of_nothing),
		BRIDGE(a_range_as_large_as_all_addresses_is_refused),
		BRIDGE(a_ticket_is_good_once_and_for_a_while),
		BRIDGE(bridges_without_a_peer_make_room),
		cmocka_unit_test(a_list_allows_what_it_says),
		cmocka_unit_test(by_default_only_private_networks_are_allowed),
		cmocka_unit_test(what_is_no_list_or_no_address_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
