/*
 * tests/unit/test_server_callback.c - tickets: who waits for whom.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/session/callback.h"
#include "server/session/session.h"

static struct cks_session session = {.wait_max_ms = 60000};
static struct cks_request request = {.session = &session};

/* A thread of the driver's that calls a host function. */
struct stream {
	pthread_t thread;
	void *call;
	_Atomic bool through;
};

static void *run(void *data)
{
	struct stream *s = data;

	cks_host_call_run_once(s->call);
	s->through = true;
	return NULL;
}

static void begin(struct stream *s, uint64_t id)
{
	s->through = false;
	s->call = cks_host_call_create(&session, id);
	assert_non_null(s->call);
	assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static ck_callback_next_res next(uint64_t done, unsigned int milliseconds)
{
	ck_callback_next_args args = {.done = done, .milliseconds = milliseconds};
	ck_callback_next_res res = {0};

	assert_int_equal(ck_serve_callback_next(&request, &args, &res), CUDA_SUCCESS);
	return res;
}

static int set_up(void **state)
{
	(void)state;
	return cks_callbacks_create(&session.callbacks);
}

static int tear_down(void **state)
{
	(void)state;
	cks_callbacks_destroy(session.callbacks);
	return 0;
}

static void test_a_stream_waits_until_the_client_is_done(void **state)
{
	ck_callback_next_res res;
	struct stream s;

	(void)state;
	begin(&s, 77);
	res = next(0, 5000);
	assert_int_equal(res.callback, 77);
	assert_int_not_equal(res.ticket, 0);
	next(res.ticket + 1000, 20); /* a number that there is not */
	assert_false(s.through);
	assert_int_equal(next(res.ticket, 0).ticket, 0);
	pthread_join(s.thread, NULL);
	assert_true(s.through);
}

static void test_one_stream_does_not_wait_for_another(void **state)
{
	ck_callback_next_res first, second;
	struct stream a, b;

	(void)state;
	begin(&a, 1);
	first = next(0, 5000);
	begin(&b, 2);
	second = next(0, 5000);
	assert_int_equal(first.callback, 1);
	assert_int_equal(second.callback, 2);
	next(second.ticket, 0);
	pthread_join(b.thread, NULL);
	assert_false(a.through);
	next(first.ticket, 0);
	pthread_join(a.thread, NULL);
}

static void test_tickets_come_in_order(void **state)
{
	struct cks_host_call *call;

	(void)state;
	for (uint64_t i = 1; i <= 100; i++) {
		call = cks_host_call_create(&session, i);
		cks_host_call_send(call, (int)i, 2 * i);
		cks_host_call_destroy(call);
	}
	for (uint64_t i = 1; i <= 100; i++) {
		ck_callback_next_res res = next(0, 0);

		assert_int_equal(res.callback, i);
		assert_int_equal(res.status, i);
		assert_int_equal(res.value, 2 * i);
	}
	assert_int_equal(next(0, 0).ticket, 0);
}

static void *run_within(void *data)
{
	struct stream *s = data;

	s->through = cks_host_call_run_within(s->call, 60000);
	return NULL;
}

static void test_a_wait_for_the_client_can_be_bounded(void **state)
{
	struct stream s = {.call = cks_host_call_create(&session, 7)};
	ck_callback_next_res res;

	(void)state;
	/* the client does not fetch it, and never learns of it */
	assert_false(cks_host_call_run_within(s.call, 1));
	cks_host_call_send(s.call, 1, 0);
	res = next(0, 0);
	assert_int_equal(res.status, 1);
	assert_int_equal(next(0, 0).ticket, 0);
	assert_int_equal(pthread_create(&s.thread, NULL, run_within, &s), 0);
	res = next(0, 5000);
	assert_int_equal(res.callback, 7);
	next(res.ticket, 0);
	pthread_join(s.thread, NULL);
	assert_true(s.through);
	cks_host_call_destroy(s.call);
}

static void *fetch_late(void *data)
{
	struct stream *s = data;
	ck_callback_next_res res = next(0, 60000);

	while (!s->through)
		usleep(1000);
	next(res.ticket, 0); /* it is no longer waited for */
	return NULL;
}

static void test_a_client_may_finish_too_late(void **state)
{
	struct stream s = {.call = cks_host_call_create(&session, 8)};

	(void)state;
	assert_int_equal(pthread_create(&s.thread, NULL, fetch_late, &s), 0);
	assert_false(cks_host_call_run_within(s.call, 50));
	s.through = true;
	/* whether it was fetched or not, nothing is left of it but a thread that waits for work */
	cks_host_call_send(s.call, 2, 0);
	pthread_join(s.thread, NULL);
	cks_host_call_destroy(s.call);
}

static void test_the_error_of_a_stream_is_told(void **state)
{
	struct cks_host_call *call = cks_host_call_create(&session, 5);

	(void)state;
	cks_host_call_send(call, CUDA_ERROR_ILLEGAL_ADDRESS, 0);
	cks_host_call_destroy(call);
	assert_int_equal(next(0, 0).status, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_the_end_lets_everyone_go(void **state)
{
	struct stream fetched, queued;

	(void)state;
	begin(&fetched, 1);
	assert_int_equal(next(0, 5000).callback, 1);
	begin(&queued, 2);
	usleep(10000);
	cks_callbacks_end(session.callbacks);
	pthread_join(fetched.thread, NULL);
	pthread_join(queued.thread, NULL);
}

/* --- notifications of a driver that does not always let them end */

static CUasyncCallback notify;
static void *notified;
static CUresult ending;

static CUresult enter(CUdevice device, CUasyncCallback function, void *data,
		      CUasyncCallbackHandle *handle)
{
	(void)device;
	notify = function;
	notified = data;
	*handle = (CUasyncCallbackHandle)(uintptr_t)0x100;
	return CUDA_SUCCESS;
}

static CUresult end(CUdevice device, CUasyncCallbackHandle handle)
{
	(void)device;
	assert_ptr_equal(handle, (void *)(uintptr_t)0x100);
	return ending;
}

static void test_a_notification_that_does_not_end_may_still_come(void **state)
{
	ck_notification_args args = {.callback = 9};
	ck_notification_res res = {0};
	ck_notification_end_args over = {0};
	ck_notification_end_res none;
	CUasyncNotificationInfo info = {0};

	(void)state;
	ck_driver.cuDeviceRegisterAsyncNotification = enter;
	ck_driver.cuDeviceUnregisterAsyncNotification = end;
	assert_int_equal(ck_serve_notification(&request, &args, &res), CUDA_SUCCESS);
	over.handle = res.handle;
	ending = CUDA_ERROR_INVALID_DEVICE;
	assert_int_equal(ck_serve_notification_end(&request, &over, &none), ending);
	notify(&info, notified, NULL);
	assert_int_equal(next(0, 0).callback, 9);
	ending = CUDA_SUCCESS;
	assert_int_equal(ck_serve_notification_end(&request, &over, &none), CUDA_SUCCESS);
	assert_int_equal(ck_serve_notification_end(&request, &over, &none),
			 CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_a_stream_waits_until_the_client_is_done),
		TEST(test_one_stream_does_not_wait_for_another),
		TEST(test_tickets_come_in_order),
		TEST(test_a_wait_for_the_client_can_be_bounded),
		TEST(test_a_client_may_finish_too_late),
		TEST(test_the_error_of_a_stream_is_told),
		TEST(test_the_end_lets_everyone_go),
		TEST(test_a_notification_that_does_not_end_may_still_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
