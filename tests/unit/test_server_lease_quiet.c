/*
 * tests/unit/test_server_lease_quiet.c - the server's own waits for work, beside a thread that
 * captures: a look at a stream that has just joined a capture would end that.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/session/session.h"
#include "server_fake.h"

#define ID_CONTEXT 3
#define ID_STREAM 50
#define ID_EVENT 51

static struct cks_session *session;
static struct cks_request request;
static int stream, event;
static atomic_bool captured; /* the stream is */
static atomic_int looks, looks_until_over;
static atomic_int wrong; /* looks at a captured stream, or at the legacy stream meanwhile */
static pthread_t joiner;
static void *(*join)(void *);

static CUresult is_capturing(CUstream s, CUstreamCaptureStatus *status)
{
	*status = s == (CUstream)&stream && captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
						     : CU_STREAM_CAPTURE_STATUS_NONE;
	/* another thread of the program comes between this and the look */
	if (join) {
		void *(*run)(void *) = join;

		join = NULL;
		assert_int_equal(pthread_create(&joiner, NULL, run, NULL), 0);
		usleep(50000);
	}
	return CUDA_SUCCESS;
}

static CUresult query(CUstream s)
{
	(void)s;
	wrong += captured;
	return looks++ < looks_until_over ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult begin_capture(CUstream s, CUstreamCaptureMode mode)
{
	(void)mode;
	assert_ptr_equal(s, &stream);
	captured = true;
	return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream s, CUevent e, unsigned int flags)
{
	(void)e;
	(void)flags;
	assert_ptr_equal(s, &stream);
	captured = true;
	return CUDA_SUCCESS;
}

/* A capture may begin while the driver is on its way into this. */
static CUresult synchronize(void)
{
	wrong++;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuStreamIsCapturing = is_capturing;
	ck_driver.cuStreamQuery = query;
	ck_driver.cuStreamBeginCapture_v2 = begin_capture;
	ck_driver.cuStreamWaitEvent = wait_event;
	ck_driver.cuCtxSynchronize = synchronize;
	captured = false;
	looks = wrong = looks_until_over = 0;
	if (cks_session_create(NULL, NULL, 1, &session) < 0)
		return -1;
	request = (struct cks_request){.session = session, .ctx = ID_CONTEXT};
	cks_handles_put(session->handles, ID_CONTEXT, CK_KIND_CONTEXT, 0, &session);
	cks_handles_put(session->handles, ID_EVENT, CK_KIND_EVENT, ID_CONTEXT, &event);
	return cks_handles_put(session->handles, ID_STREAM, CK_KIND_STREAM, ID_CONTEXT, &stream)
		       ? -1
		       : 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

static void *begin_to_capture(void *unused)
{
	ck_capture_begin_args args = {.stream = ID_STREAM};

	ck_serve_capture_begin(&request, &args, NULL);
	return unused;
}

static void *join_by_event(void *unused)
{
	cuStreamWaitEvent_args args = {.hStream = ID_STREAM, .hEvent = ID_EVENT};

	ck_serve_cuStreamWaitEvent(&request, &args, NULL);
	return unused;
}

static void is_quiet(uint64_t of, unsigned int all)
{
	ck_lease_quiet_args args = {.stream = of, .all = all, .time = 1000};
	ck_lease_quiet_res res = {0};

	assert_int_equal(ck_serve_lease_quiet(&request, &args, &res), CUDA_SUCCESS);
	assert_true(res.over);
}

static void a_stream_joins_behind_the_look(void *(*by)(void *))
{
	join = by;
	is_quiet(0, 1);
	pthread_join(joiner, NULL);
	assert_true(captured);
	captured = false;
	join = by;
	is_quiet(ID_STREAM, 0);
	pthread_join(joiner, NULL);
	captured = false;
	join = by;
	assert_int_equal(cks_context_wait(session, ID_CONTEXT), CUDA_SUCCESS);
	pthread_join(joiner, NULL);
	captured = false;
	join = by;
	cks_lease_note_stream(&request, (CUstream)&stream);
	pthread_join(joiner, NULL);
	assert_int_equal(wrong, 0);
}

static void a_capture_begins_behind_a_look(void **state)
{
	(void)state;
	a_stream_joins_behind_the_look(begin_to_capture);
}

static void a_stream_joins_a_capture_behind_a_look(void **state)
{
	(void)state;
	session->captured = true; /* another stream is captured */
	a_stream_joins_behind_the_look(join_by_event);
}

static void a_wait_ends_with_the_work_and_ends_no_capture(void **state)
{
	(void)state;
	looks_until_over = 200;
	assert_int_equal(cks_context_wait(session, ID_CONTEXT), CUDA_SUCCESS);
	assert_true(looks > 200);
	assert_int_equal(wrong, 0);
	begin_to_capture(NULL);
	assert_int_equal(cks_context_wait(session, ID_CONTEXT), CUDA_SUCCESS);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_capture_begins_behind_a_look, begin, end),
		cmocka_unit_test_setup_teardown(a_stream_joins_a_capture_behind_a_look, begin, end),
		cmocka_unit_test_setup_teardown(a_wait_ends_with_the_work_and_ends_no_capture,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
