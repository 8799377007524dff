/*
 * tests/unit/test_client_join.c - connections that join a session whose server does not answer the
 * join before it has more, refuses it, or closes the connection.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/link/join.h"
#include "client/link/lane.h"
#include "tests/unit/client_peer.h"

static atomic_int joins, refusals;

static void answer_join(struct ck_chan *chan, uint32_t xid, int status)
{
	peer_reply(chan, xid, (xdrproc_t)xdr_ck_join_res, &(ck_join_res){.status = status}, NULL, 0,
		   NULL);
}

/* Make a call in a thread of its own, which has no connection yet. */
static void *call(void *result)
{
	size_t free, total;

	*(CUresult *)result = ck_wire_cuMemGetInfo_v2(1, &free, &total);
	return NULL;
}

static CUresult call_from_a_new_thread(void)
{
	CUresult err = CUDA_ERROR_UNKNOWN;
	pthread_t thread;

	ckc_lane_drop_all(ckc_client_current()); /* or the thread takes one from the pool */
	peer_clear();
	joins = refusals = 0;
	assert_int_equal(pthread_create(&thread, NULL, call, &err), 0);
	pthread_join(thread, NULL);
	return err;
}

static bool refuse_first(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid)
{
	(void)reader;
	if (joins++ > 0) {
		answer_join(chan, xid, 0);
		return true;
	}
	refusals++;
	answer_join(chan, xid, 1);
	return false;
}

static void a_reserve_that_is_refused_is_replaced(void **state)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_lane *reserve, *got;

	(void)state;
	ckc_lane_drop_all(c);
	peer.admit = refuse_first;
	joins = 0;
	assert_int_equal(ckc_join_lane_soon(c, &reserve), 0);
	assert_true(ckc_lane_joining(reserve));
	ckc_lane_release(reserve);
	assert_int_equal(ckc_join_lane(c, &got), 0);
	assert_false(ckc_lane_joining(got));
	assert_int_equal(joins, 2);
	ckc_lane_destroy(got);
}

/* The join is answered only when the call has come too. */
static bool answer_late(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid)
{
	struct peer_message m;

	joins++;
	if (peer_read(reader, &m) < 0)
		return false;
	answer_join(chan, xid, 0);
	peer_note(&m);
	peer_answer(chan, &m);
	return true;
}

static void a_call_is_sent_right_behind_the_join(void **state)
{
	(void)state;
	peer.admit = answer_late;
	assert_int_equal(call_from_a_new_thread(), CUDA_SUCCESS);
	assert_int_equal(joins, 1);
	assert_int_equal(peer_count(CK_PROC_cuMemGetInfo_v2), 1);
}

static void a_call_on_a_refused_connection_is_made_once_on_another(void **state)
{
	(void)state;
	peer.admit = refuse_first;
	assert_int_equal(call_from_a_new_thread(), CUDA_SUCCESS);
	assert_int_equal(joins, 2);
	assert_int_equal(refusals, 1);
	assert_int_equal(peer_count(CK_PROC_cuMemGetInfo_v2), 1);
	assert_int_equal(ckc_client_current()->state, CK_STATE_READY);
}

static bool close_first(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid)
{
	(void)reader;
	if (joins++ == 0)
		return false;
	answer_join(chan, xid, 0);
	return true;
}

static void a_closed_connection_is_replaced(void **state)
{
	(void)state;
	peer.admit = close_first;
	assert_int_equal(call_from_a_new_thread(), CUDA_SUCCESS);
	assert_int_equal(joins, 2);
	assert_int_equal(peer_count(CK_PROC_cuMemGetInfo_v2), 1);
}

static bool close_all(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid)
{
	(void)chan;
	(void)reader;
	(void)xid;
	joins++;
	return false;
}

static void without_any_connection_the_call_fails_and_the_session_lives(void **state)
{
	(void)state;
	peer.admit = close_all;
	assert_int_equal(call_from_a_new_thread(), CUDA_ERROR_OPERATING_SYSTEM);
	assert_true(joins > 2);
	peer.admit = NULL;
	assert_int_equal(call_from_a_new_thread(), CUDA_SUCCESS);
}

/* --- the command stream, of another session */

static void *refuse_commands(void *arg)
{
	struct ck_call_header header;
	struct ck_reader *reader;
	struct ck_record record;
	struct ck_chan *far = arg;

	peer_check(ck_reader_create(far, &reader) == 0);
	peer_check(ck_reader_next(reader, &record) == 0);
	peer_check(ck_call_decode(record.body, record.body_size, &header) == 0);
	answer_join(far, header.xid, 1);
	ck_reader_destroy(reader);
	ck_chan_close(far);
	return NULL;
}

static void a_refused_command_stream_loses_the_session(void **state)
{
	static struct ckc_client *c; /* never freed: its sender thread may still look at it */
	struct ckc_client *was = ckc_client_current();
	struct ck_chan *near, *far;
	pthread_t thread;
	bool accepted;
	int fds[2];

	(void)state;
	c = ckc_client_create();
	assert_non_null(c);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(ck_chan_adopt(fds[0], &near), 0);
	assert_int_equal(ck_chan_adopt(fds[1], &far), 0);
	assert_int_equal(pthread_create(&thread, NULL, refuse_commands, far), 0);
	ckc_client_default = c;
	c->state = CK_STATE_READY;
	c->initialized = true;
	assert_int_equal(ckc_join_commands(c, &near, &accepted), 0); /* which does not wait */
	assert_false(accepted);
	assert_int_equal(ckc_command_start(c, near, accepted), 0);
	pthread_join(thread, NULL);
	ck_wire_cuMemFree_v2(1, 2);
	ckc_command_flush(c); /* which does not wait for the sender, if that writes already */
	for (int ms = 0; c->state == CK_STATE_READY && ms < 10000; ms++)
		usleep(1000);
	assert_int_equal(c->state, CK_STATE_LOST);
	assert_false(c->command.accepted);
	assert_int_equal(ck_wire_cuMemFree_v2(1, 2), CUDA_ERROR_DEVICE_UNAVAILABLE);
	ckc_client_default = was;
}

/* No call waits for the join of the command stream: let it be over. */
static int begin(void **state)
{
	if (peer_begin(state) < 0)
		return -1;
	peer_await_all();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_is_sent_right_behind_the_join),
		cmocka_unit_test(a_call_on_a_refused_connection_is_made_once_on_another),
		cmocka_unit_test(a_reserve_that_is_refused_is_replaced),
		cmocka_unit_test(a_closed_connection_is_replaced),
		cmocka_unit_test(without_any_connection_the_call_fails_and_the_session_lives),
		cmocka_unit_test(a_refused_command_stream_loses_the_session),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
