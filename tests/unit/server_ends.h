/*
 * tests/unit/server_ends.h - a client's end of a command connection and of a lane; the dispatcher
 * serves the other ends, with a driver of a few functions.
 */
#ifndef CK_TEST_SERVER_ENDS_H
#define CK_TEST_SERVER_ENDS_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gen/handlers.h"
#include "rpc/proc.h"
#include "server/worker/dispatch.h"
#include "tests/unit/rpc_ends.h"
#include "tests/unit/server_fake.h"
#include "tests/unit/server_session.h"
#include "util/util.h"

#define RING (256u << 10)

/* One connection: our end, and the thread that serves the other. */
struct end {
	struct ck_chan *chan;
	struct ck_reader *reader;
	struct cks_session *session;
	struct ck_chan *served;
	struct ck_reader *served_reader;
	bool commands;
	int result;
	pthread_t thread;
};

static struct cks_session *session;
static struct end command, lane;
static bool rings; /* the connections go on in shared memory */
static uint32_t xid, lane_xid;

static inline void *serve(void *data)
{
	struct end *e = data;

	e->result = (e->commands ? cks_dispatch_commands
				 : cks_dispatch_calls)(e->session, e->served, e->served_reader);
	ck_chan_shutdown(e->served);
	return NULL;
}

static inline void open_end(struct end *e, bool commands)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	*e = (struct end){.session = session, .commands = commands};
	assert_int_equal(ck_chan_adopt(pair[0], &e->chan), 0);
	assert_int_equal(ck_chan_adopt(pair[1], &e->served), 0);
	if (rings)
		assert_true(rings_agree(e->chan, e->served, RING, true));
	assert_int_equal(ck_reader_create(e->chan, &e->reader), 0);
	assert_int_equal(ck_reader_create(e->served, &e->served_reader), 0);
	assert_int_equal(pthread_create(&e->thread, NULL, serve, e), 0);
}

/* Wait until the dispatcher ends, and return its result. */
static inline int wait_end(struct end *e)
{
	pthread_join(e->thread, NULL);
	ck_reader_destroy(e->reader);
	ck_reader_destroy(e->served_reader);
	ck_chan_close(e->chan);
	ck_chan_close(e->served);
	e->chan = NULL;
	return e->result;
}

/* The same after hanging up, unless the server has. */
static inline int close_end(struct end *e)
{
	if (!e->chan)
		return 0;
	ck_chan_shutdown(e->chan);
	return wait_end(e);
}

static inline int make(void **state)
{
	(void)state;
	fake_install();
	session = session_without_client();
	open_end(&command, true);
	open_end(&lane, false);
	return 0;
}

static inline int drop(void **state)
{
	(void)state;
	close_end(&command);
	close_end(&lane);
	cks_session_destroy(session);
	return 0;
}

static inline void send_all(struct end *e, const void *head, size_t size, const void *bulk,
			    size_t bulk_size)
{
	static const char zeroes[4];
	struct iovec iov[3] = {
		{(void *)head, size}, {(void *)bulk, bulk_size}, {(void *)zeroes, -bulk_size % 4}};

	int ret = ck_chan_writev(e->chan, iov, 3);

	/* in rings, the server may refuse a message before the call that writes it returns */
	assert_true(ret == 0 || ret == -EPIPE);
}

static inline void send_call(struct end *e, uint32_t proc, const void *args, const void *bulk,
			     size_t size)
{
	unsigned char out[512];
	long n = ck_call_encode(out, sizeof(out), ++xid, proc, ck_procs[proc].xdr_args, args, size);

	assert_true(n > 0);
	if (e == &lane)
		lane_xid = xid;
	send_all(e, out, (size_t)n, bulk, size);
}

/* A call whose procedure and arguments are any bytes. */
static inline void send_raw(struct end *e, uint32_t proc, const void *args, size_t size)
{
	unsigned char out[256];
	const uint32_t words[] = {htonl(0x80000000u | (uint32_t)(40 + size)),
				  htonl(++xid),
				  0,
				  htonl(2),
				  htonl(CK_PROGRAM),
				  htonl(CK_VERSION),
				  htonl(proc),
				  0,
				  0,
				  0,
				  0};

	lane_xid = xid;
	memcpy(out, words, sizeof(words));
	memcpy(out + sizeof(words), args, size);
	send_all(e, out, sizeof(words) + size, NULL, 0);
}

/* A set of value @seq, as command @seq. */
static inline void send_set(uint64_t seq)
{
	cuMemsetD8_v2_args a = {.head.seq = seq, .uc = (u_int)(seq & 0xff), .N = 1};

	send_call(&command, CK_PROC_cuMemsetD8_v2, &a, NULL, 0);
}

/* The reply that comes next on the lane: 0, or ck_reply_decode's error. */
static inline int read_reply(xdrproc_t xdr, void *res, struct ck_record *record, size_t *end)
{
	uint32_t got, low, high;
	size_t at;
	XDR xdrs;
	int ret = ck_reader_next(lane.reader, record);

	if (ret < 0)
		return ret;
	ret = ck_reply_decode(record->body, record->body_size, &got, &at, &low, &high);
	assert_int_equal(got, lane_xid);
	if (ret < 0 || !xdr)
		return ret;
	xdrmem_create(&xdrs, (char *)record->body + at, (u_int)(record->body_size - at),
		      XDR_DECODE);
	assert_true(xdr(&xdrs, res));
	if (end)
		*end = at + xdr_getpos(&xdrs);
	return 0;
}

/* cuMemGetInfo_v2 after command @seq: its error; *sets as the fake driver counts. */
static inline int ask(uint64_t seq, uint64_t *sets)
{
	cuMemGetInfo_v2_args a = {.head.seq = seq};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;

	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	if (sets)
		*sets = r.free;
	return r.head.err;
}

/* Run the tests over sockets, then over shared memory; returns how many failed. A lane spins as
 * long as a test takes. */
#define run_over_both(tests)                                                                       \
	({                                                                                         \
		int failed_;                                                                       \
		setenv("CRICKET_DEBUG", "spin=100000", 1);                                         \
		failed_ = cmocka_run_group_tests_name("sockets", tests, NULL, NULL);               \
		rings = HAS_RINGS;                                                                 \
		if (rings)                                                                         \
			failed_ += cmocka_run_group_tests_name("rings", tests, NULL, NULL);        \
		failed_;                                                                           \
	})
#ifdef __SANITIZE_THREAD__ /* it does not see that both mappings of a ring are the same memory */
#define HAS_RINGS false
#else
#define HAS_RINGS true
#endif

#endif
