/*
 * tests/unit/test_client_lane.c - calls that wait, against a peer that answers well, badly, or
 * not at all.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/wire/delivery.h"
#include "client/link/lane.h"
#include "rpc/status.h"
#include "tests/unit/client_peer.h"

#define BULK_MAX ((3u << 20) + 16)
#define GUARD 64

static struct ck_chan *far; /* the peer's end */
static struct ckc_lane *lane;

/* Each test has a new lane, which is the thread's own. */
static int lane_begin(void **state)
{
	struct ck_chan *near;
	int fds[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || ck_chan_adopt(fds[0], &near) < 0 ||
	    ck_chan_adopt(fds[1], &far) < 0 ||
	    ckc_lane_create(ckc_client_current(), near, &lane) < 0)
		return -1;
	ckc_thread()->lane = lane;
	ckc_client_current()->state = CK_STATE_READY;
	ckc_client_current()->initialized = true;
	/* no thread may ask whether the peer is alive: it would take the test's lane */
	ckc_client_current()->suspicion.running = true;
	return 0;
}

static int lane_end(void **state)
{
	(void)state;
	if (ckc_thread()->lane)
		ckc_lane_destroy(ckc_thread()->lane);
	ckc_thread()->lane = NULL;
	ck_chan_close(far);
	ckc_client_current()->state = CK_STATE_FRESH;
	return 0;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* --- a peer in a thread of its own: what it does with each call, until it returns false */

struct player {
	bool (*play)(const struct peer_message *m, int index);
	pthread_t thread;
};

static void *play(void *arg)
{
	struct player *p = arg;
	struct ck_reader *reader;
	struct peer_message m;
	bool more = true;

	peer_check(ck_reader_create(far, &reader) == 0);
	for (int i = 0; more && peer_read(reader, &m) == 0; i++) {
		more = p->play(&m, i);
		peer_free(&m);
	}
	ck_reader_destroy(reader);
	return NULL;
}

static void start(struct player *p)
{
	assert_int_equal(pthread_create(&p->thread, NULL, play, p), 0);
}

static void end(struct player *p)
{
	ck_chan_shutdown(far);
	pthread_join(p->thread, NULL);
}

static void reply(const struct peer_message *m, const void *res)
{
	peer_reply(far, m->xid, m->proc->xdr_res, res, NULL, 0, NULL);
}

/* --- results */

/* The xid of call @n, from 1 on, on the newest lane (client/link/lane.c); it is one of the first
 * 500. */
static uint32_t xid_of(uint32_t n)
{
	return n == 1 ? 1 : (ckc_client_current()->lanes.made << 22) + n - 2;
}

static uint32_t last_xid;

static bool give_memory(const struct peer_message *m, int index)
{
	const cuMemGetInfo_v2_args *args = m->args;
	cuMemGetInfo_v2_res res = {.free = 1000 + (u_quad_t)index, .total = 1ull << 40};

	peer_check(m->number == CK_PROC_cuMemGetInfo_v2);
	peer_check(args->head.ctx == 77 && args->head.seq == 0);
	peer_check(index < 2 || m->xid == last_xid + 1);
	last_xid = m->xid;
	res.head.err = index == 2 ? CUDA_ERROR_NOT_PERMITTED : 0;
	reply(m, &res);
	return true;
}

static void results_and_errors_come_back(void **state)
{
	struct player p = {.play = give_memory};
	size_t free = 5, total = 6;

	(void)state;
	start(&p);
	for (unsigned int i = 0; i < 5; i++) {
		CUresult err = ck_wire_cuMemGetInfo_v2(77, &free, &total);

		assert_int_equal(err, i == 2 ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS);
		assert_int_equal(free, i == 2 ? 1001 : 1000 + i); /* kept as it was */
		assert_int_equal(total, 1ull << 40);
	}
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
	end(&p);
}

/* What a reply takes along comes in front of it, with a number of its own. */
static uint64_t along_number;

static bool give_along(const struct peer_message *m, int index)
{
	cuMemGetInfo_v2_res res = {.free = 1, .total = 2};
	ck_delivery_next_res along = {.number = along_number,
				      .rank = ckc_client_current()->lanes.delivered + 1};
	uint32_t tail = 0;

	(void)index;
	for (int i = 0; i < 3; i++, along.rank++)
		peer_reply(far, 0, (xdrproc_t)xdr_ck_delivery_next_res, &along, "", 0, &tail);
	res.head.delivered = along.rank - 1;
	reply(m, &res);
	return true;
}

static void a_reply_brings_small_things_along(void **state)
{
	struct player p = {.play = give_along};
	uint32_t before = ckc_client_current()->lanes.delivered;
	size_t free, total;

	(void)state;
	along_number = CK_DELIVERY_NEWS | 5;
	start(&p);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(77, &free, &total), CUDA_SUCCESS);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(77, &free, &total), CUDA_SUCCESS);
	assert_int_equal(free, 1);
	assert_int_equal(ckc_client_current()->lanes.delivered, before + 6);
	end(&p);
}

static void what_nobody_has_asked_for_ends_the_session(void **state)
{
	struct player p = {.play = give_along};
	size_t free, total;

	(void)state;
	along_number = CK_DELIVERY_ALONG | 99;
	start(&p);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(77, &free, &total), CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(ckc_client_current()->state, CK_STATE_LOST);
	end(&p);
}

static bool give_any_memory(const struct peer_message *m, int index)
{
	cuMemGetInfo_v2_res res = {.free = 1000, .total = 1ull << 40};

	peer_check(index == 0 && m->number == CK_PROC_cuMemGetInfo_v2);
	reply(m, &res);
	return true;
}

#define LONG (1000u << 10)
static char *text;

static bool give_long_text(const struct peer_message *m, int index)
{
	ck_module_build_args *args = m->args;
	ck_module_build_res res = {.info_log = {LONG, text}};

	peer_check(index == 0 && m->number == CK_PROC_module_build);
	peer_check(args->options.options_len == LONG);
	peer_check(memcmp(args->options.options_val, text, LONG) == 0);
	reply(m, &res);
	return true;
}

static void arguments_and_results_of_nearly_a_record_s_length_pass(void **state)
{
	struct player p = {.play = give_long_text};
	ck_module_build_args a = {.head.ctx = 1, .module = 2};
	ck_module_build_res r;

	(void)state;
	text = malloc(LONG);
	for (unsigned int i = 0; i < LONG; i++)
		text[i] = (char)(i * 31 >> 3);
	start(&p);
	a.options.options_val = text;
	a.options.options_len = LONG;
	assert_int_equal(ck_wire_module_build(&a, &r), CUDA_SUCCESS);
	assert_int_equal(r.info_log.info_log_len, LONG);
	assert_memory_equal(r.info_log.info_log_val, text, LONG);
	assert_int_equal(r.error_log.error_log_len, 0);
	end(&p);
	xdr_free((xdrproc_t)xdr_ck_module_build_res, &r);
	free(text);
}

/* As a one-way message: the session goes on, and so does the lane. */
static void a_call_that_no_record_holds_is_refused_and_harms_nothing(void **state)
{
	struct player p = {.play = give_any_memory};
	size_t bytes = 5, total = 6;
	char *name = malloc(2 * CK_RECORD_MAX);
	ck_module_build_res r;
	CUdeviceptr at;
	int managed;

	(void)state;
	memset(name, 'x', 2 * CK_RECORD_MAX);
	name[CK_STRING_MAX + 1] = '\0';
	start(&p);
	assert_int_equal(ck_wire_global(1, 2, name, &at, &bytes, &managed),
			 CUDA_ERROR_INVALID_VALUE);
	for (size_t size = CK_RECORD_MAX - 100; size < 2 * CK_RECORD_MAX; size += 70000)
		assert_int_equal(ck_wire_module_build(
					 &(ck_module_build_args){.head.ctx = 1,
								 .module = 2,
								 .options = CK_LIST(name, size)},
					 &r),
				 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(77, &bytes, &total), CUDA_SUCCESS);
	assert_int_equal(bytes, 1000);
	end(&p);
	free(name);
}

/* --- payload of a reply */

static unsigned char *pattern;

static const size_t bulk_sizes[] = {
	0,    1,    2,	   3,	   4,	   5,	    7,		 4000,		 4093,
	4096, 4097, 65537, 262143, 262144, 1048575, 1048576 + 5, 3 * 1048576 + 1};

static bool give_bulk(const struct peer_message *m, int index)
{
	const ck_download_args *args = m->args;
	ck_download_res res = {.data_length = (u_int)args->size};
	uint32_t tail = index % 3 == 2 ? CUDA_ERROR_ILLEGAL_ADDRESS : 0;

	peer_check(m->number == CK_PROC_download);
	peer_reply(far, m->xid, m->proc->xdr_res, &res, pattern + args->src, args->size, &tail);
	return true;
}

static int pattern_begin(void **state)
{
	uint64_t random = 11;

	pattern = malloc(BULK_MAX + 64);
	for (size_t i = 0; i < BULK_MAX; i += 8) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		memcpy(pattern + i, &random, 8);
	}
	return lane_begin(state);
}

static int pattern_end(void **state)
{
	free(pattern);
	return lane_end(state);
}

static void assert_guarded(const unsigned char *buf, size_t size)
{
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(buf[i], 0xaa);
		assert_int_equal(buf[GUARD + size + i], 0xaa);
	}
}

static void payloads_of_odd_sizes_come_whole_and_stay_in_bounds(void **state)
{
	struct player p = {.play = give_bulk};
	unsigned char *buf = malloc(BULK_MAX + 2 * GUARD);

	(void)state;
	start(&p);
	for (unsigned int i = 0; i < 3 * CK_ARRAY_SIZE(bulk_sizes); i++) {
		size_t size = bulk_sizes[i / 3];
		struct ckc_sink sink = {buf + GUARD, size};

		memset(buf, 0xaa, size + 2 * GUARD);
		assert_int_equal(ck_wire_download(1, i % 13, 0, size, 0, &sink),
				 i % 3 == 2 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS);
		assert_guarded(buf, size);
		assert_memory_equal(buf + GUARD, pattern + i % 13, size);
	}
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
	end(&p);
	free(buf);
}

static bool give_error_and_no_bulk(const struct peer_message *m, int index)
{
	ck_download_res res = {.head.err = CUDA_ERROR_INVALID_VALUE};
	uint32_t tail = CUDA_ERROR_INVALID_VALUE;

	(void)index;
	peer_reply(far, m->xid, m->proc->xdr_res, &res, NULL, 0, &tail);
	return true;
}

static void an_error_without_payload_leaves_the_sink_alone(void **state)
{
	struct player p = {.play = give_error_and_no_bulk};
	unsigned char byte = 0xaa;
	struct ckc_sink sink = {&byte, 1};

	(void)state;
	start(&p);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ck_wire_download(1, 1, 0, 1, 0, &sink), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(byte, 0xaa);
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
	end(&p);
}

/* --- replies that are wrong: the peer's whole side is written beforehand */

/* A reply to a download of @size bytes, @claimed of them in the length word. */
static size_t download_reply(unsigned char *buf, uint32_t xid, size_t size, size_t claimed)
{
	ck_download_res res = {.data_length = (u_int)claimed};
	size_t padded = CK_ALIGN_UP(size, (size_t)4);
	long n = ck_reply_encode(buf, 8192, xid, (xdrproc_t)xdr_ck_download_res, &res, 0);

	assert_true(n > 0);
	memset(buf + n, 0x11, padded);
	memset(buf + n + padded, 0, 4);
	*(uint32_t *)(void *)buf = htonl(0x80000000u | (uint32_t)((size_t)n - 4 + padded + 4));
	return (size_t)n + padded + 4;
}

static void send_raw(const void *data, size_t size, bool close_after)
{
	struct iovec iov = {(void *)(uintptr_t)data, size};

	assert_int_equal(ck_chan_writev(far, &iov, 1), 0);
	if (close_after)
		shutdown(ck_chan_fd(far), SHUT_WR);
}

static int exchange_download(size_t size, unsigned char *buf)
{
	ck_download_args args = {.size = size};
	ck_download_res res = {0};
	struct ckc_sink sink = {buf, size};
	struct ckc_exchange x = {
		.proc = CK_PROC_download,
		.args = &args,
		.res = &res,
		.sink = &sink,
		.xdr_args = (xdrproc_t)xdr_ck_download_args,
		.xdr_res = (xdrproc_t)xdr_ck_download_res,
	};

	return ckc_lane_exchange(lane, &x);
}

static void more_payload_than_asked_for_is_not_taken(void **state)
{
	unsigned char wire[8192], buf[100 + 2 * GUARD];

	(void)state;
	memset(buf, 0xaa, sizeof(buf));
	send_raw(wire, download_reply(wire, 1, 104, 104), true);
	assert_int_equal(exchange_download(100, buf + GUARD), -EPROTO);
	assert_guarded(buf, 100);
}

static void a_length_beyond_the_record_is_not_believed(void **state)
{
	unsigned char wire[8192], buf[1000];

	(void)state;
	send_raw(wire, download_reply(wire, 1, 100, 1000), true);
	assert_int_equal(exchange_download(1000, buf), -EPROTO);
}

static void success_with_less_payload_than_asked_for_is_none(void **state)
{
	unsigned char wire[8192], buf[100];

	(void)state;
	send_raw(wire, download_reply(wire, 1, 60, 60), true);
	assert_int_equal(exchange_download(100, buf), -EPROTO);
}

static void the_reply_to_another_call_is_refused(void **state)
{
	unsigned char wire[8192], buf[100];

	(void)state;
	send_raw(wire, download_reply(wire, 2, 100, 100), true);
	assert_int_equal(exchange_download(100, buf), -EPROTO);
}

static void a_reply_that_does_not_lie_on_a_word_is_read_all_the_same(void **state)
{
	unsigned char wire[16384], buf[100];
	size_t n = download_reply(wire, 1, 100, 100);

	(void)state;
	wire[n] = 9; /* a byte more than there should be */
	*(uint32_t *)(void *)wire = htonl(ntohl(*(uint32_t *)(void *)wire) + 1);
	{
		unsigned char *second = malloc(8192);
		size_t size = download_reply(second, xid_of(2), 100, 100);

		memcpy(wire + n + 1, second, size);
		send_raw(wire, n + 1 + size, true);
		free(second);
	}
	assert_int_equal(exchange_download(100, buf), 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(exchange_download(100, buf), 0);
	assert_int_equal(buf[99], 0x11);
}

static void refusals_have_their_errors(void **state)
{
	static const struct {
		enum accept_stat stat;
		int error;
	} rows[] = {
		{PROG_MISMATCH, -EPROTONOSUPPORT},
		{PROG_UNAVAIL, -EOPNOTSUPP},
		{PROC_UNAVAIL, -EOPNOTSUPP},
		{GARBAGE_ARGS, -EBADMSG},
	};
	unsigned char wire[64], buf[4];

	(void)state;
	for (uint32_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		long n = ck_refusal_encode(wire, sizeof(wire), xid_of(i + 1), rows[i].stat);

		send_raw(wire, (size_t)n, false);
		assert_int_equal(exchange_download(4, buf), rows[i].error);
	}
}

static void an_unknown_call_fails_alone(void **state)
{
	unsigned char wire[64];
	size_t free, total;
	long n;

	(void)state;
	for (uint32_t call = 1; call <= 3; call++) {
		n = ck_refusal_encode(wire, sizeof(wire), xid_of(call), PROC_UNAVAIL);
		send_raw(wire, (size_t)n, false);
		assert_int_equal(ck_wire_cuMemGetInfo_v2(1, &free, &total),
				 CUDA_ERROR_NOT_SUPPORTED);
	}
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
}

static void what_the_server_does_not_offer_is_not_sent(void **state)
{
	char bits[1] = {0};
	size_t free, total;
	uint64_t sent = ckc_command_number(ckc_client_current());

	(void)state;
	ckc_client_current()->offers.procedures.procedures_val = bits;
	ckc_client_current()->offers.procedures.procedures_len = sizeof(bits);
	assert_int_equal(ck_wire_cuMemFree_v2(1, 1), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(1, &free, &total), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(ckc_command_number(ckc_client_current()), sent);
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
	memset(&ckc_client_current()->offers.procedures, 0,
	       sizeof(ckc_client_current()->offers.procedures));
}

static void a_call_refused_for_its_arguments_ends_the_session(void **state)
{
	unsigned char wire[64];
	size_t free, total;
	long n = ck_refusal_encode(wire, sizeof(wire), 1, GARBAGE_ARGS);

	(void)state;
	send_raw(wire, (size_t)n, false);
	for (int i = 0; i < 3; i++) /* only the first of these needs the wire */
		assert_int_equal(ck_wire_cuMemGetInfo_v2(1, &free, &total),
				 CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(ckc_client_current()->state, CK_STATE_LOST);
	assert_int_equal(ck_wire_cuMemFree_v2(1, 1), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

/* One exchange with @size bytes at @wire and then the end of the stream. */
static int exchange_against(const unsigned char *wire, size_t size)
{
	unsigned char *buf = malloc(100);
	int ret;

	assert_int_equal(lane_begin(NULL), 0);
	send_raw(wire, size, true);
	ret = exchange_download(100, buf);
	lane_end(NULL);
	free(buf);
	return ret;
}

/* A lane, what it holds, and the sink are bounded by ASan; hanging is bounded by the stream. */
static void garbage_is_an_error_or_a_reply_and_never_more(void **state)
{
	unsigned char good[8192], wire[8192];
	size_t size = download_reply(good, 1, 100, 100);
	uint64_t random = 5;
	int errors = 0;

	lane_end(state);
	assert_int_equal(exchange_against(good, size), 0);
	for (int i = 0; i < 20000; i++) {
		memcpy(wire, good, size);
		for (int k = 0; k <= i % 4; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			/* mostly in the heads: mark, header, result, length */
			wire[(random >> 40) % (i % 5 ? 40 : size)] = (unsigned char)(random >> 33);
		}
		errors += exchange_against(wire, i % 3 ? size : (random >> 20) % size) < 0;
	}
	assert_true(errors > 10000);
	for (size_t cut = 0; cut < size; cut++) {
		int ret = exchange_against(good, cut);

		assert_int_equal(ret, cut == 0 ? -EPIPE : -ECONNRESET);
	}
	assert_int_equal(lane_begin(state), 0);
}

/* --- a peer that goes, or says nothing */

static bool give_half_and_die(const struct peer_message *m, int index)
{
	unsigned char wire[8192];
	size_t size = download_reply(wire, m->xid, 4000, 4000);
	struct iovec iov = {wire, size / 2};

	(void)index;
	ck_chan_writev(far, &iov, 1);
	shutdown(ck_chan_fd(far), SHUT_RDWR);
	return false;
}

static void a_peer_that_dies_inside_a_payload_ends_the_session(void **state)
{
	struct player p = {.play = give_half_and_die};
	unsigned char *buf = malloc(4000);
	struct ckc_sink sink = {buf, 4000};

	(void)state;
	start(&p);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ck_wire_download(1, 1, 0, 4000, 0, &sink),
				 CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(ckc_client_current()->state, CK_STATE_LOST);
	end(&p);
	free(buf);
}

static void assert_times_out(size_t size)
{
	unsigned char *buf = malloc(size);
	double start_time = seconds(), took;

	ckc_lane_timeout(lane, 200);
	assert_int_equal(exchange_download(size, buf), -ETIMEDOUT);
	took = seconds() - start_time;
	assert_true(took > 0.15 && took < 5);
	free(buf);
}

static void a_peer_that_says_nothing_is_not_waited_for_beyond_the_bound(void **state)
{
	(void)state;
	assert_times_out(100);
}

static void a_peer_that_stops_inside_a_payload_is_not_either(void **state)
{
	unsigned char wire[8192];
	size_t size = download_reply(wire, 1, 4000, 4000);

	(void)state;
	send_raw(wire, size - 100, false);
	assert_times_out(4000);
}

/* --- lanes and threads */

static void *call_in_thread(void *arg)
{
	size_t free, total;

	peer_check(!ckc_thread()->lane);
	peer_check(ck_wire_cuMemGetInfo_v2(77, &free, &total) == CUDA_SUCCESS);
	peer_check(ckc_thread()->lane == arg);
	return NULL; /* the lane goes back to the pool */
}

static void a_lane_that_nobody_uses_serves_the_next_thread(void **state)
{
	struct player p = {.play = give_memory};
	pthread_t thread;

	(void)state;
	start(&p);
	ckc_thread()->lane = NULL;
	ckc_lane_release(lane);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, call_in_thread, lane), 0);
		pthread_join(thread, NULL);
	}
	end(&p);
	ckc_lane_drop_all(ckc_client_current());
}

/* The link took the place of the join, not its number. */
static uint32_t number_of_first_call(void)
{
	ck_wait_args args = {.head.seq = 0};
	struct ckc_exchange x = {
		.proc = CK_PROC_wait, .xdr_args = ck_procs[CK_PROC_wait].xdr_args, .args = &args};

	ckc_lane_linked(lane);
	assert_int_equal(ckc_lane_send(lane, &x), 0);
	return ckc_lane_xid(lane);
}

static void calls_of_different_lanes_have_different_numbers(void **state)
{
	uint32_t first = number_of_first_call();

	lane_end(state);
	assert_int_equal(lane_begin(state), 0);
	assert_int_not_equal(number_of_first_call(), first);
}

static void without_a_lane_and_a_server_a_call_ends_the_session(void **state)
{
	size_t free, total;

	(void)state;
	ckc_lane_destroy(lane);
	ckc_thread()->lane = NULL;
	assert_int_equal(ck_wire_cuMemGetInfo_v2(1, &free, &total), CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(ckc_client_current()->state, CK_STATE_LOST);
}

/* --- what kernels have printed */

static bool print_something(const struct peer_message *m, int index)
{
	static char *pieces[] = {(char *)"first, ", (char *)"second\n", (char *)""};
	ck_output_res output = {0};
	cuMemGetInfo_v2_res memory = {.head.output = index == 0};

	if (m->number == CK_PROC_output) {
		peer_check(index >= 1 && index <= 3);
		output.head.output = index < 3;
		output.text.text_val = pieces[index - 1];
		output.text.text_len = (u_int)strlen(pieces[index - 1]);
		output.errors.errors_val = index == 1 ? (char *)"an assertion\n" : (char *)"";
		output.errors.errors_len = (u_int)strlen(output.errors.errors_val);
		reply(m, &output);
	} else {
		reply(m, &memory);
	}
	return true;
}

static void what_kernels_printed_is_on_stdout_before_the_call_returns(void **state)
{
	struct player p = {.play = print_something};
	char printed[64] = "", complained[64] = "";
	FILE *file = tmpfile(), *errors = tmpfile();
	size_t free, total;
	int was, errors_was;

	(void)state;
	start(&p);
	fflush(stdout);
	was = dup(1);
	errors_was = dup(2);
	dup2(fileno(file), 1);
	dup2(fileno(errors), 2);
	ck_wire_cuMemGetInfo_v2(1, &free, &total);
	dup2(was, 1);
	dup2(errors_was, 2);
	close(was);
	close(errors_was);
	rewind(file);
	rewind(errors);
	assert_non_null(fgets(complained, sizeof(complained), errors));
	assert_string_equal(complained, "an assertion\n");
	fclose(errors);
	assert_int_equal(fread(printed, 1, sizeof(printed) - 1, file), 14);
	assert_string_equal(printed, "first, second\n");
	fclose(file);
	assert_int_equal(ck_wire_cuMemGetInfo_v2(1, &free, &total), CUDA_SUCCESS);
	end(&p);
}

#define lane_test(name) cmocka_unit_test_setup_teardown(name, lane_begin, lane_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lane_test(results_and_errors_come_back),
		lane_test(a_reply_brings_small_things_along),
		lane_test(what_nobody_has_asked_for_ends_the_session),
		lane_test(arguments_and_results_of_nearly_a_record_s_length_pass),
		lane_test(a_call_that_no_record_holds_is_refused_and_harms_nothing),
		cmocka_unit_test_setup_teardown(payloads_of_odd_sizes_come_whole_and_stay_in_bounds,
						pattern_begin, pattern_end),
		lane_test(an_error_without_payload_leaves_the_sink_alone),
		lane_test(more_payload_than_asked_for_is_not_taken),
		lane_test(a_length_beyond_the_record_is_not_believed),
		lane_test(success_with_less_payload_than_asked_for_is_none),
		lane_test(the_reply_to_another_call_is_refused),
		lane_test(a_reply_that_does_not_lie_on_a_word_is_read_all_the_same),
		lane_test(refusals_have_their_errors),
		lane_test(an_unknown_call_fails_alone),
		lane_test(what_the_server_does_not_offer_is_not_sent),
		lane_test(a_call_refused_for_its_arguments_ends_the_session),
		lane_test(garbage_is_an_error_or_a_reply_and_never_more),
		lane_test(a_peer_that_dies_inside_a_payload_ends_the_session),
		lane_test(a_peer_that_says_nothing_is_not_waited_for_beyond_the_bound),
		lane_test(a_peer_that_stops_inside_a_payload_is_not_either),
		lane_test(a_lane_that_nobody_uses_serves_the_next_thread),
		lane_test(calls_of_different_lanes_have_different_numbers),
		lane_test(without_a_lane_and_a_server_a_call_ends_the_session),
		lane_test(what_kernels_printed_is_on_stdout_before_the_call_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
