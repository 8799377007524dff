/*
 * tests/unit/test_server_delivery.c - copies to the client that no call waits for: in which order
 * they are taken along, what their ranks promise, and what becomes of those that fail.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "gen/handlers.h"
#include "rpc/lasting.h"
#include "rpc/proc.h"
#include "rpc/status.h"
#include "server/memory/delivery.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "tests/unit/rpc_ends.h"

#define MIB ((size_t)1 << 20)
#define FLAGS 64

static struct cks_session *session;
static struct cks_request request;
static struct ck_chan *client;
static struct ck_reader *reader;
static unsigned char device[9 * MIB], got[9 * MIB];

/* The flags behind copies, in their order. */
static CUdeviceptr flags[FLAGS];
static unsigned int made;

static CUresult write_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int how)
{
	(void)stream;
	(void)how;
	assert_true(made < FLAGS);
	assert_int_equal(value, 1);
	flags[made++] = at;
	return CUDA_SUCCESS;
}

/* The copy before flag @i is done. */
static void arrive(unsigned int i)
{
	fake_flush();
	*(uint32_t *)(uintptr_t)flags[i] = 1;
}

static void arrive_all(void)
{
	for (unsigned int i = 0; i < made; i++)
		arrive(i);
}

static int begin(void **state)
{
	int ends[2];

	(void)state;
	fake_install();
	ck_driver.cuStreamWriteValue32_v2 = write_value;
	/* Nothing on the way of a copy to the client may call these: they wait for a cuMemFree. */
	ck_driver.cuEventQuery = NULL;
	ck_driver.cuEventDestroy_v2 = NULL;
	made = 0;
	memset(got, 0, sizeof(got));
	for (size_t i = 0; i < sizeof(device); i++)
		device[i] = (unsigned char)(i * 7 + i / 4096);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || ck_chan_adopt(ends[0], &client) < 0 ||
	    ck_reader_create(client, &reader) < 0 ||
	    cks_session_create(NULL, NULL, 1, &session) < 0)
		return -1;
	request = (struct cks_request){.session = session, .ctx = 1, .xid = 7};
	cks_memory_note(session->memory, 1, (uintptr_t)device, sizeof(device));
	return ck_chan_adopt(ends[1], &request.chan);
}

static int end(void **state)
{
	(void)state;
	fake_flush();
	cks_session_destroy(session);
	ck_reader_destroy(reader);
	ck_chan_close(client);
	ck_chan_close(request.chan);
	return 0;
}

static CUresult deliver(uint64_t number, size_t at, size_t size, uint64_t stream)
{
	ck_deliver_args args = {
		.src = (uintptr_t)device + at, .size = size, .stream = stream, .number = number};

	return ck_serve_deliver(&request, &args, NULL);
}

/* A lane comes. Has it sent something? */
static bool serve(ck_delivery_next_res *res)
{
	ck_delivery_next_args args = {.milliseconds = 20};

	memset(res, 0, sizeof(*res));
	request.replied = false;
	assert_int_equal(ck_serve_delivery_next(&request, &args, res), CUDA_SUCCESS);
	if (request.replied)
		assert_int_equal(request.broken, 0);
	return request.replied;
}

/* Read what it has sent; the bytes go to @to. */
static void take(ck_delivery_next_res *res, unsigned char *to)
{
	struct ck_record record;
	uint32_t xid, low, high;
	size_t offset;
	XDR xdrs;

	memset(res, 0, sizeof(*res));
	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(ck_reply_decode(record.body, record.body_size, &xid, &offset, &low, &high),
			 0);
	assert_int_equal(xid, 7);
	xdrmem_create(&xdrs, (char *)(uintptr_t)record.body + offset,
		      (u_int)(record.body_size - offset), XDR_DECODE);
	assert_true(xdr_ck_delivery_next_res(&xdrs, res));
	if (to && res->data_length > 0) {
		assert_int_equal(ck_reader_bulk_begin(reader, offset + xdr_getpos(&xdrs)), 0);
		assert_int_equal(ck_reader_bulk(reader, to + res->offset, res->data_length), 0);
	}
}

/* What a lane that comes now takes along; its bytes go to @to. False: nothing. */
static bool next(ck_delivery_next_res *res, unsigned char *to)
{
	if (!serve(res))
		return false;
	take(res, to);
	return true;
}

static uint32_t report(void)
{
	return cks_deliveries_report(session);
}

static void nothing_comes_before_it_is_there(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(5, 100, 1000, 0), CUDA_SUCCESS);
	assert_int_equal(report(), 0);
	assert_false(next(&res, got));
	arrive(0);
	assert_int_equal(report(), 1);
	assert_true(next(&res, got));
	assert_int_equal(res.number, 5);
	assert_int_equal(res.span, 1000);
	assert_int_equal(res.rank, 1);
	assert_memory_equal(got, device + 100, 1000);
	assert_false(next(&res, got));
}

/* A stream that is held up holds up no other. */
static void ranks_are_in_the_order_of_being_done(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(1, 0, 10, 0), CUDA_SUCCESS);
	assert_int_equal(deliver(2, 10, 10, 2), CUDA_SUCCESS);
	assert_int_equal(deliver(3, 20, 10, 0), CUDA_SUCCESS);
	arrive(1);
	assert_int_equal(report(), 1);
	assert_true(next(&res, NULL));
	assert_int_equal(res.number, 2);
	arrive(0);
	arrive(2);
	assert_int_equal(report(), 3);
	assert_true(next(&res, NULL));
	assert_int_equal(res.number, 1);
	assert_int_equal(res.rank, 2);
	assert_true(next(&res, NULL));
	assert_int_equal(res.number, 3);
}

/* A lane leaves the small one to a reply at first. */
static void an_earlier_copy_of_another_stream_is_first(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(1 | CK_DELIVERY_ALONG, 0, 10, 0), CUDA_SUCCESS);
	assert_int_equal(deliver(2 | CK_DELIVERY_ALONG, 0, 100000, 2), CUDA_SUCCESS);
	arrive(0);
	arrive(1);
	for (uint32_t i = 1; i <= 2; i++) {
		assert_true(next(&res, got));
		assert_int_equal(res.number, i | CK_DELIVERY_ALONG);
		assert_int_equal(res.rank, i);
	}
}

/* What of a small copy goes in front of a reply: its bytes. */
static void small_copies_go_along_with_replies(void **state)
{
	struct cks_along along;
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(1 | CK_DELIVERY_ALONG, 64, 20, 0), CUDA_SUCCESS);
	assert_int_equal(deliver(2 | CK_DELIVERY_ALONG, 0, 100000, 0), CUDA_SUCCESS);
	assert_int_equal(cks_deliveries_take(session, true, &along), 0);
	assert_int_equal(along.count, 0);
	arrive(0);
	arrive(1);
	assert_int_equal(cks_deliveries_take(session, true, &along), 2);
	assert_int_equal(along.count, 1);
	assert_int_equal(along.iov[1].iov_len, 20);
	assert_memory_equal(along.iov[1].iov_base, device + 64, 20);
	cks_along_sent(session, &along);
	assert_int_equal(along.count, 0);
	assert_true(next(&res, got)); /* the large one */
	assert_int_equal(res.number, 2 | CK_DELIVERY_ALONG);
	assert_int_equal(res.rank, 2);
	assert_false(next(&res, got));
}

/* A program that makes no call gets them too: a lane waits a little for a reply, and takes them. */
static void small_copies_that_no_reply_takes_go_by_themselves(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(1 | CK_DELIVERY_ALONG, 64, 20, 0), CUDA_SUCCESS);
	assert_false(next(&res, got));
	arrive(0);
	assert_true(next(&res, got));
	assert_memory_equal(got, device + 64, 20);
}

static void more_than_a_reply_takes_is_for_others(void **state)
{
	struct cks_along along;
	ck_delivery_next_res res;

	(void)state;
	for (uint64_t i = 0; i < CK_ALONG_PARTS + 2; i++)
		assert_int_equal(deliver((i + 1) | CK_DELIVERY_ALONG, 0, 4, 0), CUDA_SUCCESS);
	arrive_all();
	assert_int_equal(cks_deliveries_take(session, true, &along), CK_ALONG_PARTS + 2);
	assert_int_equal(along.count, CK_ALONG_PARTS);
	cks_along_sent(session, &along);
	for (uint32_t i = 1; i <= 2; i++) {
		assert_true(next(&res, got));
		assert_int_equal(res.rank, CK_ALONG_PARTS + i);
	}
}

/* The client reads while we write: a part is larger than what a socket holds. */
static void *write_parts(void *count)
{
	ck_delivery_next_args args = {.milliseconds = 1000};
	ck_delivery_next_res res;

	for (int i = 0; i < *(int *)count; i++)
		ck_serve_delivery_next(&request, &args, &res);
	return NULL;
}

static void a_large_copy_comes_in_parts(void **state)
{
	size_t size = sizeof(device) - 10, sum = 0;
	int parts = 3;
	pthread_t thread;

	(void)state;
	assert_int_equal(deliver(9, 10, size, 0), CUDA_SUCCESS);
	assert_int_equal(made, parts);
	arrive_all();
	assert_int_equal(pthread_create(&thread, NULL, write_parts, &parts), 0);
	for (int i = 0; i < parts; i++) {
		ck_delivery_next_res res = {0};
		struct ck_record record;
		uint32_t xid, low, high;
		size_t offset;
		XDR xdrs;

		assert_int_equal(ck_reader_next(reader, &record), 0);
		assert_int_equal(
			ck_reply_decode(record.body, record.body_size, &xid, &offset, &low, &high),
			0);
		xdrmem_create(&xdrs, (char *)(uintptr_t)record.body + offset,
			      (u_int)(record.body_size - offset), XDR_DECODE);
		assert_true(xdr_ck_delivery_next_res(&xdrs, &res));
		assert_int_equal(res.number, 9);
		assert_int_equal(res.offset, sum);
		assert_int_equal(ck_reader_bulk_begin(reader, offset + xdr_getpos(&xdrs)), 0);
		assert_int_equal(ck_reader_bulk(reader, got + res.offset, res.data_length), 0);
		sum += res.span;
	}
	pthread_join(thread, NULL);
	assert_int_equal(sum, size);
	assert_memory_equal(got, device + 10, size);
}

static void a_copy_that_fails_comes_without_bytes(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	fake.copy_error = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(deliver(1, 0, 5000, 0), CUDA_ERROR_INVALID_VALUE);
	fake.copy_error = CUDA_SUCCESS;
	assert_true(next(&res, NULL));
	assert_int_equal(res.number, 1);
	assert_int_equal(res.span, 5000);
	assert_int_equal(res.data_length, 0);
	assert_int_equal(deliver(2, 0, 5000, 0), CUDA_SUCCESS);
	cks_deliveries_fail(session->deliveries, 2); /* another context */
	assert_false(next(&res, NULL));
	cks_deliveries_fail(session->deliveries, 1);
	assert_true(next(&res, NULL));
	assert_int_equal(res.number, 2);
	assert_int_equal(res.data_length, 0);
	assert_int_equal(report(), 2);
}

static void what_leaves_its_memory_is_refused(void **state)
{
	(void)state;
	assert_int_equal(deliver(1, 0, sizeof(device) + 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(deliver(1, 0, 10, 12345), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(report(), 0);
}

static CUresult arrive_now(void)
{
	arrive_all();
	return CUDA_SUCCESS;
}

/* With its context the device's way to the flags goes: the copy is waited for first. */
static void a_context_that_goes_leaves_its_copies_done(void **state)
{
	ck_delivery_next_res res;

	(void)state;
	assert_int_equal(deliver(1, 0, 100, 0), CUDA_SUCCESS);
	ck_driver.cuCtxSynchronize = arrive_now;
	cks_deliveries_drop_context(session->deliveries, 1, NULL);
	assert_int_equal(report(), 1);
	assert_true(next(&res, got));
	assert_memory_equal(got, device, 100);
}

/* Registrations of slots, each with its context. */
static struct {
	char *host;
	size_t size;
	uint64_t ctx;
} registered[4];

static CUresult host_register(void *host, size_t size, unsigned int how)
{
	int free = -1;

	(void)how;
	for (int i = 0; i < 4; i++) {
		if (!registered[i].host)
			free = i;
		else if (registered[i].host == host)
			return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	}
	assert_true(free >= 0);
	registered[free].host = host;
	registered[free].size = size;
	registered[free].ctx = request.ctx;
	return CUDA_SUCCESS;
}

static CUresult host_unregister(void *host)
{
	for (int i = 0; i < 4; i++) {
		if (registered[i].host == host) {
			registered[i].host = NULL;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* The driver ends them with their context. */
static void context_ends(uint64_t ctx)
{
	for (int i = 0; i < 4; i++)
		if (registered[i].ctx == ctx)
			registered[i].host = NULL;
}

/* The context that has registered the memory of flag @i; 0: none. */
static uint64_t context_of_flag(unsigned int i)
{
	for (int k = 0; k < 4; k++)
		if (registered[k].host && flags[i] >= (uintptr_t)registered[k].host &&
		    flags[i] < (uintptr_t)registered[k].host + registered[k].size)
			return registered[k].ctx;
	return 0;
}

static int begin_registering(void **state)
{
	memset(registered, 0, sizeof(registered));
	if (begin(state) < 0)
		return -1;
	ck_driver.cuMemHostRegister_v2 = host_register;
	ck_driver.cuMemHostUnregister = host_unregister;
	return 0;
}

/* A whole copy, after which its slot is free. */
static void deliver_whole(uint64_t number, uint64_t ctx)
{
	ck_delivery_next_res res;

	request.ctx = ctx;
	assert_int_equal(deliver(number, 0, 100, 0), CUDA_SUCCESS);
	assert_int_equal(context_of_flag(made - 1), ctx);
	arrive(made - 1);
	assert_int_equal(report(), number);
	assert_true(next(&res, got));
}

/* The driver may end context 1, and its registrations with it, at any time. */
static void copies_of_a_context_use_slots_that_it_has_registered(void **state)
{
	(void)state;
	deliver_whole(1, 1);
	deliver_whole(2, 2);
	deliver_whole(3, 1);
	assert_int_equal(flags[0], flags[2]);
	assert_int_not_equal(flags[0], flags[1]);
}

static void a_slot_is_free_for_others_when_its_context_has_ended(void **state)
{
	(void)state;
	deliver_whole(1, 1);
	cks_deliveries_drop_context(session->deliveries, 1, NULL);
	deliver_whole(2, 2);
	assert_int_not_equal(flags[0], flags[1]);
	context_ends(1);
	cks_deliveries_forget_context(session->deliveries, 1);
	assert_int_equal(context_of_flag(1), 2);
	deliver_whole(3, 3);
	assert_int_equal(flags[0], flags[2]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
#define TEST_REGISTERING(f) cmocka_unit_test_setup_teardown(f, begin_registering, end)

/* The channels of client and lane are lasting ones from now on, without a connection. */
static void make_lasting(void)
{
	ck_reader_destroy(reader);
	ck_chan_close(client);
	ck_chan_close(request.chan);
	assert_int_equal(ck_lasting_create("server", NULL, CK_LASTING_LIMIT, &client), 0);
	assert_int_equal(ck_lasting_create("client", NULL, CK_LASTING_LIMIT, &request.chan), 0);
	assert_int_equal(ck_reader_create(client, &reader), 0);
}

/* Ends of watches 1 to @count that no lane has taken. */
static void tell(unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++)
		cks_deliveries_send_watch(session, i, 100 + i, false);
}

/* What a lane takes is a list of ends @first to @last, with the ranks from @rank on. */
static void expect_list(unsigned int first, unsigned int last, uint32_t rank)
{
	struct ck_news news[CK_NEWS_MOST];
	ck_delivery_next_res res;

	assert_true(next(&res, (unsigned char *)news));
	assert_true(res.number == CK_DELIVERY_LIST);
	assert_int_equal(res.span, 0);
	assert_int_equal(res.data_length, (last - first + 1) * sizeof(*news));
	for (unsigned int i = first; i <= last; i++, rank++) {
		assert_int_equal(news[i - first].number, i);
		assert_int_equal(news[i - first].what, 100 + i);
		assert_int_equal(news[i - first].rank, rank);
	}
	assert_int_equal(res.rank, rank - 1);
}

static void expect_one(uint64_t number, uint32_t rank)
{
	ck_delivery_next_res res;

	assert_true(next(&res, got));
	assert_true(res.number == number);
	assert_int_equal(res.rank, rank);
}

static void news_that_wait_for_a_lane_go_together(void **state)
{
	(void)state;
	cks_deliveries_list(session->deliveries);
	tell(1, 3);
	expect_list(1, 3, 1);
	tell(4, 1);
	expect_one(4 | CK_DELIVERY_NEWS, 4);
	/* a copy between them keeps its place */
	tell(5, 2);
	assert_int_equal(deliver(9, 0, 10, 0), CUDA_SUCCESS);
	arrive(0);
	tell(7, 2);
	expect_list(5, 6, 5);
	expect_one(9, 7);
	expect_list(7, 8, 8);
	tell(10, CK_NEWS_MOST + 1);
	expect_list(10, 9 + CK_NEWS_MOST, 10);
	expect_one((10 + CK_NEWS_MOST) | CK_DELIVERY_NEWS, 10 + CK_NEWS_MOST);
}

static void a_reply_takes_news_together(void **state)
{
	struct cks_along along;

	(void)state;
	cks_deliveries_list(session->deliveries);
	tell(1, 12);
	assert_int_equal(cks_deliveries_take(session, true, &along), 12);
	assert_int_equal(along.count, 1);
	assert_int_equal(along.iov[1].iov_len, 12 * sizeof(struct ck_news));
	cks_along_sent(session, &along);
	tell(13, 1);
	expect_one(13 | CK_DELIVERY_NEWS, 13);
}

static void older_clients_get_news_one_by_one(void **state)
{
	(void)state;
	tell(1, 3);
	for (unsigned int i = 1; i <= 3; i++)
		expect_one(i | CK_DELIVERY_NEWS, i);
}

static void *connect_lasting(void *unused)
{
	lasting_connect(client, request.chan);
	return unused;
}

/* While the connection is cut, the bytes of a copy stay unsent, and its slot takes the next
 * copy. */
static void a_slot_is_used_again_during_a_cut(void **state)
{
	ck_delivery_next_res res;
	pthread_t thread;

	(void)state;
	make_lasting();
	for (unsigned int i = 0; i < 3; i++) {
		memset(device, 'a' + (int)i, MIB);
		assert_int_equal(deliver(1 + i, 0, MIB, 0), CUDA_SUCCESS);
		arrive(i);
		assert_true(serve(&res));
	}
	assert_int_equal(pthread_create(&thread, NULL, connect_lasting, NULL), 0);
	for (unsigned int i = 0; i < 3; i++) {
		take(&res, got);
		assert_int_equal(res.number, 1 + i);
		assert_int_equal(res.data_length, MIB);
		for (size_t j = 0; j < MIB; j++)
			assert_int_equal(got[j], 'a' + i);
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_comes_before_it_is_there),
		TEST(ranks_are_in_the_order_of_being_done),
		TEST(an_earlier_copy_of_another_stream_is_first),
		TEST(more_than_a_reply_takes_is_for_others),
		TEST(small_copies_that_no_reply_takes_go_by_themselves),
		TEST(small_copies_go_along_with_replies),
		TEST(a_large_copy_comes_in_parts),
		TEST(a_copy_that_fails_comes_without_bytes),
		TEST(what_leaves_its_memory_is_refused),
		TEST(a_context_that_goes_leaves_its_copies_done),
		TEST_REGISTERING(copies_of_a_context_use_slots_that_it_has_registered),
		TEST_REGISTERING(a_slot_is_free_for_others_when_its_context_has_ended),
		TEST(news_that_wait_for_a_lane_go_together),
		TEST(a_reply_takes_news_together),
		TEST(older_clients_get_news_one_by_one),
		TEST(a_slot_is_used_again_during_a_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
