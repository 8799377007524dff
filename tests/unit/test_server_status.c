/*
 * tests/unit/test_server_status.c - watches of events and streams: when the client hears of them,
 * what it hears after errors, and what becomes of watches whose object goes.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "rpc/status.h"
#include "server/memory/delivery.h"
#include "server/session/session.h"
#include "server/memory/status.h"
#include "server_fake.h"

#define EVENTS 40
#define NUMBER(generation, word) ((uint64_t)(generation) << CK_STATUS_BITS | (word))

static struct cks_session *session;
static struct cks_request request;
static struct ck_chan *client;
static struct ck_status_file *words;
static _Atomic bool done[EVENTS];
static _Atomic CUresult query_error, stream_state;
static _Atomic unsigned int stream_looks;
static int event[EVENTS], context, green, destroyed;
static _Atomic bool green_gone;
static _Atomic unsigned int green_misused; /* looked at when it was no more */

/* Event 2, when it is looked at @late times more, is done, and has been behind event 3. */
static _Atomic int late;

static CUresult event_query(CUevent e)
{
	if (query_error)
		return query_error;
	if (late > 0 && e == (CUevent)&event[2] && --late == 0)
		done[2] = true;
	if (late == 1 && e == (CUevent)&event[3])
		done[3] = true;
	return done[(int *)e - event] ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_destroy(CUevent e)
{
	if ((int *)e < event || (int *)e >= event + EVENTS) /* behind a destroyed stream's work */
		return fake_event_destroy(e);
	destroyed++;
	return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream s)
{
	(void)s;
	stream_looks++;
	return stream_state;
}

static CUresult push(CUcontext c)
{
	if (c == (CUcontext)&green && !green_gone)
		return CUDA_SUCCESS;
	green_misused += c == (CUcontext)&green;
	return c == (CUcontext)&context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult green_destroy(CUgreenCtx c)
{
	assert_ptr_equal(c, &green);
	green_gone = true;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *c)
{
	*c = (CUcontext)&context;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	int ends[2];

	(void)state;
	fake_install();
	ck_driver.cuEventQuery = event_query;
	ck_driver.cuEventDestroy_v2 = event_destroy;
	ck_driver.cuStreamQuery = stream_query;
	ck_driver.cuCtxPushCurrent_v2 = push;
	ck_driver.cuCtxPopCurrent_v2 = pop;
	ck_driver.cuGreenCtxDestroy = green_destroy;
	query_error = CUDA_SUCCESS;
	stream_state = CUDA_ERROR_NOT_READY;
	stream_looks = 0;
	destroyed = 0;
	green_gone = false;
	green_misused = 0;
	for (int i = 0; i < EVENTS; i++)
		done[i] = false;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || ck_chan_adopt(ends[0], &client) < 0 ||
	    cks_session_create(NULL, NULL, 1, &session) < 0)
		return -1;
	request = (struct cks_request){.session = session, .ctx = 3};
	cks_handles_put(session->handles, 3, CK_KIND_CONTEXT, 0, &context);
	for (unsigned int i = 0; i < EVENTS; i++)
		cks_handles_put(session->handles, 100 + i, CK_KIND_EVENT, 3, &event[i]);
	cks_handles_put(session->handles, 50, CK_KIND_STREAM, 3, &context);
	return ck_chan_adopt(ends[1], &request.chan);
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	ck_chan_close(client);
	ck_chan_close(request.chan);
	if (words)
		munmap(words, sizeof(*words));
	words = NULL;
	return 0;
}

/* Offer a file of words of @size bytes, sealed or not; what the server says. */
static CUresult offer(size_t size, bool sealed)
{
	ck_status_file_args args = {.size = size};
	ck_status_file_res res = {0};
	struct iovec byte = {(char *)(uintptr_t) "", 1};
	int fd = memfd_create("words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char got;
	CUresult err;

	assert_int_equal(ftruncate(fd, sizeof(*words)), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(ck_chan_writev_fd(client, &byte, 1, fd), 0);
	assert_int_equal(ck_chan_read(request.chan, &got, 1), 0);
	err = ck_serve_status_file(&request, &args, &res);
	assert_int_equal(err == CUDA_SUCCESS, res.taken);
	if (res.taken)
		words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return err;
}

static void share(void)
{
	assert_int_equal(offer(sizeof(*words), true), CUDA_SUCCESS);
}

/* What a client is answered that asks for event @i. */
static unsigned int ask(unsigned int i, uint64_t number)
{
	ck_event_ask_args args = {.event = 100 + i, .watch = number};
	ck_event_ask_res res = {0};

	assert_int_equal(ck_serve_event_ask(&request, &args, &res), CUDA_SUCCESS);
	cks_status_wake(session); /* as after the reply */
	return res.state;
}

static unsigned int ask_stream(uint64_t stream, uint64_t number)
{
	ck_stream_ask_args args = {.stream = stream, .watch = number};
	ck_stream_ask_res res = {0};

	assert_int_equal(ck_serve_stream_ask(&request, &args, &res), CUDA_SUCCESS);
	cks_status_wake(session);
	return res.state;
}

/* Until the word is there: who looks for it is a thread of the server's. */
static void await(unsigned int word, uint64_t value)
{
	for (int i = 0; i < 5000 && words->word[word].end != value; i++)
		usleep(1000);
	assert_int_equal(words->word[word].end, value);
}

static void the_word_says_when_an_event_is_done(void **state)
{
	(void)state;
	share();
	assert_int_equal(ask(0, NUMBER(1, 7)), 2);
	usleep(5000);
	assert_int_equal(words->word[7].end, 0);
	done[0] = true;
	await(7, NUMBER(1, 7) << 2 | CK_STATUS_ENDED);
	assert_int_equal(ask(0, NUMBER(2, 7)), 0);
	usleep(5000);
	assert_int_equal(words->word[7].end, NUMBER(1, 7) << 2 | CK_STATUS_ENDED);
}

static void a_reply_finds_told_what_is_done(void **state)
{
	(void)state;
	share();
	for (uint64_t i = 1; i <= 200; i++) {
		done[1] = false;
		assert_int_equal(ask(1, NUMBER(i, 9)), 2);
		done[1] = true;
		cks_deliveries_report(session);
		assert_int_equal(words->word[9].end, NUMBER(i, 9) << 2 | CK_STATUS_ENDED);
	}
}

static void what_is_found_together_is_told_together(void **state)
{
	(void)state;
	share();
	assert_int_equal(ask(2, NUMBER(1, 2)), 2);
	assert_int_equal(ask(3, NUMBER(2, 3)), 2);
	late = 2;
	await(3, NUMBER(2, 3) << 2 | CK_STATUS_ENDED);
	await(2, NUMBER(1, 2) << 2 | CK_STATUS_ENDED);
	assert_int_equal(words->word[2].end, NUMBER(1, 2) << 2 | CK_STATUS_ENDED);
	assert_int_equal(words->word[3].end, NUMBER(2, 3) << 2 | CK_STATUS_ENDED);
	assert_int_equal(words->word[2].batch, words->word[3].batch);
	assert_int_equal(words->closed, words->word[2].batch);
}

static void of_two_watches_of_an_event_the_newer_counts(void **state)
{
	(void)state;
	share();
	assert_int_equal(ask(0, NUMBER(5, 1)), 2);
	assert_int_equal(ask(0, NUMBER(6, 1)), 2);
	assert_int_equal(ask(0, NUMBER(4, 1)), 1);
	done[0] = true;
	await(1, NUMBER(6, 1) << 2 | CK_STATUS_ENDED);
}

static void an_error_is_for_a_call_to_tell(void **state)
{
	(void)state;
	share();
	assert_int_equal(ask(0, NUMBER(1, 1)), 2);
	query_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	await(1, NUMBER(1, 1) << 2 | CK_STATUS_ASK);
	query_error = CUDA_SUCCESS;
	assert_int_equal(ask(0, NUMBER(2, 1)), 2);
	cks_session_fail(session, CUDA_ERROR_INVALID_VALUE);
	done[0] = true;
	await(1, NUMBER(2, 1) << 2 | CK_STATUS_ASK);
}

static void no_more_are_watched_than_a_reply_can_look_at(void **state)
{
	(void)state;
	share();
	for (unsigned int i = 0; i < 32; i++)
		assert_int_equal(ask(i, NUMBER(i + 1, i)), 2);
	assert_int_equal(ask(32, NUMBER(40, 32)), 1);
	assert_int_equal(ask(33, 0), 1);
	done[3] = true;
	await(3, NUMBER(4, 3) << 2 | CK_STATUS_ENDED);
	assert_int_equal(ask(32, NUMBER(41, 32)), 2);
}

static void what_goes_is_not_looked_at_any_more(void **state)
{
	cuEventDestroy_v2_args args = {.hEvent = 100};

	(void)state;
	share();
	assert_int_equal(ask(0, NUMBER(1, 1)), 2);
	assert_int_equal(ask(1, NUMBER(2, 2)), 2);
	assert_int_equal(ck_serve_cuEventDestroy_v2(&request, &args, NULL), CUDA_SUCCESS);
	assert_int_equal(destroyed, 1);
	assert_int_equal(words->word[1].end, NUMBER(1, 1) << 2 | CK_STATUS_ASK);
	assert_int_equal(ck_serve_cuEventDestroy_v2(&request, &args, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	cks_status_drop_all(session);
	assert_int_equal(words->word[2].end, NUMBER(2, 2) << 2 | CK_STATUS_ASK);
}

static void a_green_context_is_not_looked_at_when_it_goes(void **state)
{
	ck_green_destroy_args args = {.green = 61, .context = 60};
	ck_green_destroy_res res;

	(void)state;
	share();
	assert_int_equal(cks_handles_put(session->handles, 60, CK_KIND_CONTEXT, 0, &green), 0);
	assert_int_equal(cks_handles_put(session->handles, 61, CK_KIND_GREEN, 0, &green), 0);
	request.ctx = 60;
	assert_int_equal(ask_stream(0, NUMBER(1, 5)), 2);
	assert_int_equal(ck_serve_green_destroy(&request, &args, &res), CUDA_SUCCESS);
	await(5, NUMBER(1, 5) << 2 | CK_STATUS_ASK);
	assert_int_equal(green_misused, 0);
}

static void streams_are_left_alone_during_a_capture(void **state)
{
	unsigned int looks;

	(void)state;
	share();
	assert_int_equal(ask_stream(50, NUMBER(1, 5)), 2);
	assert_int_equal(ask_stream(0, NUMBER(2, 6)), 2);
	cks_handles_mark(session->handles, 50, 1);
	cks_status_capture(session);
	assert_int_equal(words->word[5].end, NUMBER(1, 5) << 2 | CK_STATUS_ASK);
	assert_int_equal(words->word[6].end, NUMBER(2, 6) << 2 | CK_STATUS_ASK);
	assert_int_equal(ask_stream(50, NUMBER(3, 5)), 1);
	looks = stream_looks;
	usleep(5000);
	assert_int_equal(stream_looks, looks);
	cks_handles_mark(session->handles, 50, 0);
	assert_int_equal(ask_stream(50, NUMBER(4, 5)), 2);
	stream_state = CUDA_SUCCESS;
	await(5, NUMBER(4, 5) << 2 | CK_STATUS_ENDED);
}

static CUresult capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	return CUDA_SUCCESS;
}

static CUresult capture_nothing(CUstream stream, CUgraph *graph)
{
	(void)stream;
	(void)graph;
	return CUDA_ERROR_ILLEGAL_STATE;
}

static CUresult stream_destroy(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static void a_capture_lasts_until_its_own_stream_ends_it_or_goes(void **state)
{
	static char other;
	ck_capture_begin_args args = {.stream = 50};
	ck_capture_end_args end = {.stream = 51};
	cuStreamDestroy_v2_args destroy = {.hStream = 50};
	ck_capture_begin_res res = {0};
	ck_capture_end_res end_res = {0};

	(void)state;
	share();
	ck_driver.cuStreamBeginCapture_v2 = capture_begin;
	ck_driver.cuStreamEndCapture = capture_nothing;
	ck_driver.cuStreamDestroy_v2 = stream_destroy;
	cks_handles_put(session->handles, 51, CK_KIND_STREAM, 3, &other);
	assert_int_equal(ck_serve_capture_begin(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(ask_stream(51, NUMBER(1, 5)), 1);
	assert_int_equal(ck_serve_capture_end(&request, &end, &end_res), CUDA_ERROR_ILLEGAL_STATE);
	assert_int_equal(ask_stream(51, NUMBER(2, 5)), 1);
	assert_int_equal(ck_serve_cuStreamDestroy_v2(&request, &destroy, NULL), CUDA_SUCCESS);
	assert_int_equal(ask_stream(51, NUMBER(3, 5)), 2);
}

static void files_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	assert_int_equal(offer(sizeof(*words), false), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(offer(sizeof(*words) + 8, true), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(offer(sizeof(*words), true), CUDA_SUCCESS);
	munmap(words, sizeof(*words));
	words = NULL;
	assert_int_equal(offer(sizeof(*words), true), CUDA_ERROR_INVALID_VALUE);
}

static void without_words_the_news_has_a_rank(void **state)
{
	uint32_t rank = cks_deliveries_report(session);

	(void)state;
	assert_int_equal(ask(0, NUMBER(1, 1)), 2);
	assert_int_equal(cks_deliveries_report(session), rank);
	done[0] = true;
	assert_int_equal(cks_deliveries_report(session), rank + 1);
	assert_int_equal(cks_deliveries_report(session), rank + 1);
}

/* As the client says after a record; there is no reply. */
static void follow(unsigned int i, uint64_t number)
{
	ck_event_watch_args args = {.event = 100 + i, .watch = number};

	assert_int_equal(ck_serve_event_watch(&request, &args, NULL), CUDA_SUCCESS);
}

static void an_event_is_watched_from_its_record(void **state)
{
	ck_event_watch_args gone = {.event = 99, .watch = NUMBER(9, 9)};

	(void)state;
	share();
	follow(0, NUMBER(1, 7));
	usleep(5000);
	assert_int_equal(words->word[7].end, 0);
	done[0] = true;
	await(7, NUMBER(1, 7) << 2 | CK_STATUS_ENDED);
	follow(0, NUMBER(2, 7)); /* done before */
	await(7, NUMBER(2, 7) << 2 | CK_STATUS_ENDED);
	assert_int_equal(ck_serve_event_watch(&request, &gone, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void a_client_hears_what_cannot_be_watched(void **state)
{
	(void)state;
	share();
	for (unsigned int i = 0; i < 32; i++)
		follow(i, NUMBER(i + 1, i));
	follow(32, NUMBER(40, 32));
	assert_int_equal(words->word[32].end, NUMBER(40, 32) << 2 | CK_STATUS_ASK);
	done[5] = true;
	await(5, NUMBER(6, 5) << 2 | CK_STATUS_ENDED);
	follow(33, NUMBER(41, 33));
	done[33] = true;
	await(33, NUMBER(41, 33) << 2 | CK_STATUS_ENDED);
}

/* A pair of events has a time when its end is done. */
static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
	*ms = (float)((int *)end - (int *)start);
	return done[(int *)end - event] ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_wait(CUevent e)
{
	done[(int *)e - event] = true;
	return CUDA_SUCCESS;
}

static void times_come_up_to_the_first_pair_that_has_none(void **state)
{
	uint64_t starts[] = {100, 101, 102, 99}, ends[] = {101, 103, 104, 101};
	ck_event_times_args args = {.starts = {4, starts}, .ends = {4, ends}};
	ck_event_times_res res = {0};
	const float *times;

	(void)state;
	ck_driver.cuEventElapsedTime_v2 = elapsed;
	ck_driver.cuEventSynchronize = event_wait;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_ERROR_NOT_READY);
	assert_int_equal(res.times.times_len, 0);
	free(res.times.times_val);
	args.wait = 101;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(res.times.times_len, sizeof(float));
	free(res.times.times_val);
	args.wait = 0;
	done[3] = done[4] = true;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(res.times.times_len, 3 * sizeof(float)); /* the last start is no event */
	times = (const float *)(const void *)res.times.times_val;
	assert_true(times[0] == 1 && times[1] == 2 && times[2] == 2);
	free(res.times.times_val);
}

static void pairs_of_another_number_are_refused(void **state)
{
	uint64_t ids[CK_TIMES_MOST + 1] = {100};
	ck_event_times_args args = {.starts = {2, ids}, .ends = {1, ids}};
	ck_event_times_res res = {0};

	(void)state;
	ck_driver.cuEventElapsedTime_v2 = elapsed;
	ck_driver.cuEventSynchronize = event_wait;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args.starts.starts_len = args.ends.ends_len = 0;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args.starts.starts_len = args.ends.ends_len = CK_TIMES_MOST + 1;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args.wait = 99;
	args.starts.starts_len = args.ends.ends_len = 1;
	assert_int_equal(ck_serve_event_times(&request, &args, &res), CUDA_ERROR_INVALID_HANDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_word_says_when_an_event_is_done),
		TEST(a_reply_finds_told_what_is_done),
		TEST(what_is_found_together_is_told_together),
		TEST(of_two_watches_of_an_event_the_newer_counts),
		TEST(an_error_is_for_a_call_to_tell),
		TEST(no_more_are_watched_than_a_reply_can_look_at),
		TEST(what_goes_is_not_looked_at_any_more),
		TEST(a_green_context_is_not_looked_at_when_it_goes),
		TEST(streams_are_left_alone_during_a_capture),
		TEST(a_capture_lasts_until_its_own_stream_ends_it_or_goes),
		TEST(files_that_do_not_fit_are_refused),
		TEST(without_words_the_news_has_a_rank),
		TEST(an_event_is_watched_from_its_record),
		TEST(a_client_hears_what_cannot_be_watched),
		TEST(times_come_up_to_the_first_pair_that_has_none),
		TEST(pairs_of_another_number_are_refused),
	};

	return cmocka_run_group_tests_name("server/status", tests, NULL, NULL);
}
