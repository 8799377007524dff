/*
 * tests/unit/test_client_status.c - what is asked for events and streams: once, and then not again
 * until the server says something else.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"
#include "rpc/status.h"
#include "util/spin.h"
#include "util/until.h"

#define ASKED 1000

static struct ck_status_file *words;
static _Atomic unsigned int answer_state; /* what the peer answers to one who asks */
static _Atomic uint64_t watched;	  /* the number of the last watch */
static CUstream stream;

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	switch (m->number) {
	case CK_PROC_status_file:
		words = mmap(NULL, ((ck_status_file_args *)m->args)->size, PROT_READ | PROT_WRITE,
			     MAP_SHARED, peer.file, 0);
		((ck_status_file_res *)res)->taken = 1;
		break;
	case CK_PROC_event_ask:
		watched = ((ck_event_ask_args *)m->args)->watch;
		((ck_event_ask_res *)res)->state = answer_state;
		break;
	case CK_PROC_stream_ask:
		watched = ((ck_stream_ask_args *)m->args)->watch;
		((ck_stream_ask_res *)res)->state = answer_state;
		break;
	case CK_PROC_cuEventElapsedTime_v2:
		((cuEventElapsedTime_v2_res *)res)->pMilliseconds = 1.5f;
		break;
	}
	return CUDA_SUCCESS;
}

static void tell(uint64_t number, unsigned int state)
{
	struct ck_status_word *word = &words->word[number & (CK_STATUS_WORDS - 1)];

	word->batch = words->closed + 1;
	word->end = number << 2 | state;
}

static void close_batch(void)
{
	words->closed++;
}

static int begin(void **state)
{
	peer.call = answer;
	if (peer_begin(state) < 0)
		return -1;
	ckc_client_current()->lanes.round_trip_ns = 1; /* near, also on a busy machine */
	return (int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

/* Silence is trusted for a quarter of a second: so often may the client ask since @begin. */
static size_t asks_allowed(uint64_t begin)
{
	return 1 + (size_t)((ck_now_ns() - begin) / 240000000);
}

static CUevent recorded(void)
{
	CUevent e;

	assert_int_equal(cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	peer_clear();
	answer_state = 2;
	return e;
}

static void query(CUevent e, CUresult expected)
{
	assert_int_equal(cuEventQuery(e), expected);
}

static void an_event_is_asked_for_once(void **state)
{
	CUevent e = recorded();
	uint64_t begin = ck_now_ns();
	size_t asks;

	(void)state;
	for (int i = 0; i < ASKED; i++)
		query(e, CUDA_ERROR_NOT_READY);
	asks = peer_count(CK_PROC_event_ask);
	assert_in_range(asks, 1, asks_allowed(begin));
	tell(watched, 1);
	close_batch();
	for (int i = 0; i < ASKED; i++)
		query(e, CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_ask), asks);
	cuEventDestroy_v2(e);
}

static void a_new_record_is_another_one(void **state)
{
	CUevent e = recorded();

	(void)state;
	query(e, CUDA_ERROR_NOT_READY);
	tell(watched, 1);
	query(e, CUDA_ERROR_NOT_READY);
	close_batch();
	query(e, CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	query(e, CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_event_ask), 2);
	answer_state = 0;
	assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	query(e, CUDA_SUCCESS);
	query(e, CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_ask), 3);
	cuEventDestroy_v2(e);
}

static void what_needs_a_call_is_called_for(void **state)
{
	CUevent e = recorded();

	(void)state;
	query(e, CUDA_ERROR_NOT_READY);
	tell(watched, 2);
	answer_state = 1; /* not watched: every time */
	for (int i = 0; i < 5; i++)
		query(e, CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_event_ask), 6);
	cuEventDestroy_v2(e);
}

static void silence_is_not_trusted_for_long(void **state)
{
	CUevent e = recorded();

	(void)state;
	query(e, CUDA_ERROR_NOT_READY);
	usleep(300000);
	query(e, CUDA_ERROR_NOT_READY);
	query(e, CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_event_ask), 2);
	cuEventDestroy_v2(e);
}

static void a_wait_covers_the_events_before_it(void **state)
{
	CUevent e = recorded(), other;
	CUstream another;

	(void)state;
	assert_int_equal(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&other, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(other, another), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	query(e, CUDA_SUCCESS);
	assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_ask), 0);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 0);
	assert_int_equal(cuEventSynchronize(other), CUDA_SUCCESS); /* of another stream */
	assert_int_equal(cuEventSynchronize(other), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1);
	/* a query is no wait: what kernels have printed comes with one */
	assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	answer_state = 0;
	query(e, CUDA_SUCCESS);
	assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 2);
	assert_int_equal(cuStreamDestroy_v2(another), CUDA_SUCCESS);
	cuEventDestroy_v2(e);
	cuEventDestroy_v2(other);
}

/* As when a program times a kernel: it waits for the second event, and asks for the first one. */
static void the_wait_for_an_event_covers_those_before_it(void **state)
{
	CUevent first = recorded(), second = recorded(), third = recorded(), other;

	(void)state;
	assert_int_equal(cuEventCreate(&other, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(other, NULL), CUDA_SUCCESS);
	peer_clear();
	answer_state = 2;
	assert_int_equal(cuEventSynchronize(second), CUDA_SUCCESS);
	query(first, CUDA_SUCCESS);
	query(second, CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_ask), 0);
	query(third, CUDA_ERROR_NOT_READY);
	query(other, CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventRecord(first, stream), CUDA_SUCCESS);
	query(first, CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_event_ask), 3);
	cuEventDestroy_v2(first);
	cuEventDestroy_v2(second);
	cuEventDestroy_v2(third);
	cuEventDestroy_v2(other);
}

static void a_stream_in_the_place_of_another_covers_nothing_of_it(void **state)
{
	CUevent e;
	CUstream first, second;

	(void)state;
	assert_int_equal(cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, first), CUDA_SUCCESS);
	((struct ckc_event *)e)->stream = ((struct ckc_stream *)stream)->object.id;
	((struct ckc_stream *)stream)->born = ckc_command_last();
	assert_int_equal(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	peer_clear();
	assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1);
	((struct ckc_stream *)stream)->born = 0;
	cuStreamDestroy_v2(first);
	cuStreamDestroy_v2(second);
	cuEventDestroy_v2(e);
}

static void events_that_others_record_are_always_asked_for(void **state)
{
	CUevent e = recorded(), shared;
	uint64_t id;

	(void)state;
	assert_int_equal(ckc_event_id(e, &id), CUDA_SUCCESS); /* as for a node of a graph */
	for (int i = 0; i < 4; i++)
		query(e, CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_event_ask), 4);
	assert_int_equal(cuEventCreate(&shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING),
			 CUDA_SUCCESS);
	answer_state = 0;
	for (int i = 0; i < 4; i++)
		query(shared, CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_ask), 8);
	cuEventDestroy_v2(e);
	cuEventDestroy_v2(shared);
}

/* Programs look at the handle, and not at the error. */
static void an_event_of_one_process_leaves_no_handle(void **state)
{
	const CUipcEventHandle none = {0};
	CUipcEventHandle handle;
	CUevent e = recorded();

	(void)state;
	memset(&handle, 1, sizeof(handle));
	assert_int_equal(cuIpcGetEventHandle(&handle, e), CUDA_ERROR_INVALID_HANDLE);
	assert_memory_equal(&handle, &none, sizeof(handle));
	cuEventDestroy_v2(e);
}

static void a_stream_is_asked_for_once(void **state)
{
	CUevent e = recorded();
	uint64_t begin = ck_now_ns();
	size_t asks;

	(void)state;
	for (int i = 0; i < ASKED; i++)
		assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	asks = peer_count(CK_PROC_stream_ask);
	assert_in_range(asks, 1, asks_allowed(begin));
	tell(watched, 1);
	close_batch();
	for (int i = 0; i < ASKED; i++)
		assert_int_equal(cuStreamQuery(stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_stream_ask), asks);
	assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	assert_int_equal(peer_count(CK_PROC_stream_ask), asks + 1);
	cuEventDestroy_v2(e);
}

static void a_time_is_asked_for_once(void **state)
{
	CUevent start = recorded(), stop = recorded();
	float ms = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cuEventElapsedTime_v2(&ms, start, stop), CUDA_SUCCESS);
		assert_true(ms == 1.5f);
	}
	assert_int_equal(peer_count(CK_PROC_cuEventElapsedTime_v2), 1);
	assert_int_equal(cuEventRecord(stop, stream), CUDA_SUCCESS);
	assert_int_equal(cuEventElapsedTime_v2(&ms, start, stop), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventElapsedTime_v2), 2);
	assert_int_equal(cuEventElapsedTime_v2(NULL, start, stop), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuEventElapsedTime_v2(&ms, start, (CUevent)&ms),
			 CUDA_ERROR_INVALID_HANDLE);
	cuEventDestroy_v2(start);
	cuEventDestroy_v2(stop);
}

/* Over a network, a query would take a round trip for each record. */
static void events_of_a_far_server_are_watched_from_their_record(void **state)
{
	struct ckc_client *c = ckc_client_current();
	CUevent e = recorded();

	(void)state;
	c->lanes.round_trip_ns = 1000000;
	query(e, CUDA_ERROR_NOT_READY);
	peer_clear();
	for (size_t i = 0; i < 50; i++) {
		const ck_event_watch_args *args;

		assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
		query(e, CUDA_ERROR_NOT_READY);
		peer_await(ckc_command_last());
		args = peer_args(CK_PROC_event_watch, i);
		assert_non_null(args);
		assert_int_equal(args->event, ((struct ckc_event *)e)->object.id);
		tell(args->watch, 1);
		close_batch();
		query(e, CUDA_SUCCESS);
	}
	assert_int_equal(peer_count(CK_PROC_event_ask), 0);
	/* a program that does not query any more pays for few further watches */
	for (int i = 0; i < 500; i++)
		assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
	peer_await(ckc_command_last());
	assert_in_range(peer_count(CK_PROC_event_watch), 51, 50 + 100);
	c->lanes.round_trip_ns = 1;
	cuEventDestroy_v2(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_asked_for_once),
		cmocka_unit_test(a_new_record_is_another_one),
		cmocka_unit_test(what_needs_a_call_is_called_for),
		cmocka_unit_test(silence_is_not_trusted_for_long),
		cmocka_unit_test(a_wait_covers_the_events_before_it),
		cmocka_unit_test(the_wait_for_an_event_covers_those_before_it),
		cmocka_unit_test(a_stream_in_the_place_of_another_covers_nothing_of_it),
		cmocka_unit_test(events_that_others_record_are_always_asked_for),
		cmocka_unit_test(an_event_of_one_process_leaves_no_handle),
		cmocka_unit_test(a_stream_is_asked_for_once),
		cmocka_unit_test(a_time_is_asked_for_once),
		cmocka_unit_test(events_of_a_far_server_are_watched_from_their_record),
	};

	return cmocka_run_group_tests_name("client/status", tests, begin, peer_end);
}
