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

static CUresult answer_times(const struct peer_message *m, void *out);

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
	}
	return answer_times(m, res);
}

/* The peer's times between events: the difference of their ids. It has @timed pairs. */
static unsigned int timed = 1000;

static unsigned int take_times(const u_quad_t *starts, const u_quad_t *ends, unsigned int count,
			       char **out)
{
	static float times[256]; /* as many as a question has */

	count = count < timed ? count : timed;
	for (unsigned int i = 0; i < count; i++)
		times[i] = (float)ends[i] - (float)starts[i];
	*out = (char *)times;
	return count * (unsigned int)sizeof(*times);
}

static CUresult answer_times(const struct peer_message *m, void *out)
{
	if (m->number == CK_PROC_event_times) {
		ck_event_times_args *a = m->args;
		ck_event_times_res *res = out;

		res->times.times_len = take_times(a->starts.starts_val, a->ends.ends_val,
						  a->starts.starts_len, &res->times.times_val);
		return a->wait || timed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
	}
	if (m->number == CK_PROC_wait_times) {
		ck_wait_times_args *a = m->args;
		ck_wait_times_res *res = out;

		res->times.times_len = take_times(a->starts.starts_val, a->ends.ends_val,
						  a->starts.starts_len, &res->times.times_val);
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
	ckc_client_current()->watches.dear_ns = UINT64_MAX; /* near, also on a busy machine */
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

/* The report has all that a wait brings, except for the text of printf. */
static void a_reported_event_is_not_waited_for(void **state)
{
	struct ckc_client *c = ckc_client_current();
	CUevent e = recorded();

	(void)state;
	query(e, CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1);
	for (int prints = 0; prints < 2; prints++) {
		c->prints = prints;
		assert_int_equal(cuEventRecord(e, stream), CUDA_SUCCESS);
		query(e, CUDA_ERROR_NOT_READY);
		tell(watched, CK_STATUS_ENDED);
		close_batch();
		assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
		assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1 + prints);
	}
	c->prints = false;
	cuEventDestroy_v2(e);
}

static void an_event_that_has_failed_is_waited_for(void **state)
{
	CUevent e = recorded();

	(void)state;
	query(e, CUDA_ERROR_NOT_READY);
	tell(watched, CK_STATUS_ASK);
	close_batch();
	assert_int_equal(cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1);
	cuEventDestroy_v2(e);
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
		assert_true(ms == 1);
	}
	assert_int_equal(peer_count(CK_PROC_event_times), 1);
	assert_int_equal(cuEventRecord(stop, stream), CUDA_SUCCESS);
	assert_int_equal(cuEventElapsedTime_v2(&ms, start, stop), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_event_times), 2);
	assert_int_equal(cuEventElapsedTime_v2(NULL, start, stop), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuEventElapsedTime_v2(&ms, start, (CUevent)&ms),
			 CUDA_ERROR_INVALID_HANDLE);
	cuEventDestroy_v2(start);
	cuEventDestroy_v2(stop);
}

#define PAIRS 100

static void between(CUevent start, CUevent end)
{
	float ms = 0, expected = (float)((struct ckc_event *)end)->object.id -
				 (float)((struct ckc_event *)start)->object.id;

	assert_int_equal(cuEventElapsedTime_v2(&ms, start, end), CUDA_SUCCESS);
	assert_true(ms == expected);
}

static size_t questions(void)
{
	return peer_count(CK_PROC_event_times);
}

static void one_question_brings_the_times_of_a_loop(void **state)
{
	CUevent e[2 * PAIRS];

	(void)state;
	for (unsigned int i = 0; i < 2 * PAIRS; i++)
		e[i] = recorded();
	for (unsigned int i = 0; i < PAIRS; i++)
		between(e[2 * i], e[2 * i + 1]);
	assert_int_equal(questions(), 1);
	peer_clear();
	/* two in a row tell that they have one start */
	for (unsigned int i = 1; i < 2 * PAIRS; i++)
		between(e[0], e[i]);
	assert_in_range(questions(), 1, 2);
	/* what was recorded again is not answered from before */
	assert_int_equal(cuEventRecord(e[1], stream), CUDA_SUCCESS);
	peer_clear();
	between(e[0], e[1]);
	assert_int_equal(questions(), 1);
	for (unsigned int i = 0; i < 2 * PAIRS; i++)
		cuEventDestroy_v2(e[i]);
}

/* What is not done yet has no answer, and is asked for again. */
static void times_that_did_not_come_are_asked_for(void **state)
{
	CUevent e[4];
	float ms;

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		e[i] = recorded();
	timed = 0;
	assert_int_equal(cuEventElapsedTime_v2(&ms, e[0], e[1]), CUDA_ERROR_NOT_READY);
	timed = 1;
	between(e[0], e[1]);
	between(e[2], e[3]);
	assert_int_equal(questions(), 3);
	timed = 1000;
	for (unsigned int i = 0; i < 4; i++)
		cuEventDestroy_v2(e[i]);
}

static CUresult wait_event(CUevent e)
{
	return cuEventSynchronize(e);
}

static CUresult wait_stream(CUevent e)
{
	(void)e;
	return cuStreamSynchronize(stream);
}

static CUresult wait_context(CUevent e)
{
	(void)e;
	return cuCtxSynchronize();
}

/* A program that times each step: the wait of a step brings the time too. */
static void a_wait_brings_the_times_that_are_asked_for_after_it(void **state)
{
	CUresult (*const waits[])(CUevent) = {wait_event, wait_stream, wait_context};
	CUevent start = recorded(), end = recorded();

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int step = 0; step < 10; step++) {
			assert_int_equal(cuEventRecord(start, stream), CUDA_SUCCESS);
			assert_int_equal(cuEventRecord(end, stream), CUDA_SUCCESS);
			assert_int_equal(waits[i](end), CUDA_SUCCESS);
			if (step == 1)
				peer_clear();
			between(start, end);
		}
		assert_int_equal(questions() + peer_count(CK_PROC_wait_times), 8);
		assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 0);
		assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
		assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 0);
	}
	for (unsigned int step = 0; step < 20; step++) { /* it asks no more */
		assert_int_equal(cuEventRecord(start, stream), CUDA_SUCCESS);
		assert_int_equal(cuEventRecord(end, stream), CUDA_SUCCESS);
		assert_int_equal(wait_event(end), CUDA_SUCCESS);
	}
	assert_true(peer_count(CK_PROC_cuEventSynchronize) >= 10);
	cuEventDestroy_v2(start);
	cuEventDestroy_v2(end);
}

/* Over a network, a query would take a round trip for each record. */
static void events_of_a_far_server_are_watched_from_their_record(void **state)
{
	struct ckc_client *c = ckc_client_current();
	CUevent e = recorded();

	(void)state;
	c->watches.dear_ns = 0;
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
	c->watches.dear_ns = UINT64_MAX;
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
		cmocka_unit_test(a_reported_event_is_not_waited_for),
		cmocka_unit_test(an_event_that_has_failed_is_waited_for),
		cmocka_unit_test(a_stream_in_the_place_of_another_covers_nothing_of_it),
		cmocka_unit_test(events_that_others_record_are_always_asked_for),
		cmocka_unit_test(an_event_of_one_process_leaves_no_handle),
		cmocka_unit_test(a_stream_is_asked_for_once),
		cmocka_unit_test(a_time_is_asked_for_once),
		cmocka_unit_test(one_question_brings_the_times_of_a_loop),
		cmocka_unit_test(times_that_did_not_come_are_asked_for),
		cmocka_unit_test(a_wait_brings_the_times_that_are_asked_for_after_it),
		cmocka_unit_test(events_of_a_far_server_are_watched_from_their_record),
	};

	return cmocka_run_group_tests_name("client/status", tests, begin, peer_end);
}
