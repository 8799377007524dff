/*
 * tests/unit/test_server_event_retime.c - which events are recorded again right before the first
 * launch of a kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/session/event_retime.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

#define EVENT 7 /* ids */
#define STREAM 9

static struct cks_session *session;
static struct cks_request request;
static int event, stream, records;
static CUresult outcome; /* of a record */

static CUresult count_record(CUevent e, CUstream s)
{
	assert_ptr_equal(e, &event);
	assert_ptr_equal(s, &stream);
	records++;
	return outcome;
}

static int begin(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuEventRecord = count_record;
	records = 0;
	session = session_without_client();
	request = (struct cks_request){.session = session};
	assert_int_equal(cks_handle_put(&request, EVENT, CK_KIND_EVENT, &event), CUDA_SUCCESS);
	assert_int_equal(cks_handle_put(&request, STREAM, CK_KIND_STREAM, &stream), CUDA_SUCCESS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

/* Command @proc was carried out. */
static void follow(uint32_t proc)
{
	cks_event_retime_command(&session->retime, ck_proc(proc));
}

static void call(uint32_t proc)
{
	cks_event_retime_call(&session->retime, ck_proc(proc));
}

static void record(CUresult err)
{
	cuEventRecord_args a = {.hEvent = EVENT, .hStream = STREAM};

	outcome = err;
	assert_int_equal(ck_serve_cuEventRecord(&request, &a, NULL), err);
	outcome = CUDA_SUCCESS;
	follow(CK_PROC_cuEventRecord);
}

static int launch(uint64_t id)
{
	records = 0;
	cks_event_retime_launch(&request, id, (CUstream)&stream);
	follow(CK_PROC_launch);
	return records;
}

static void an_event_before_a_first_launch_is_recorded_again(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	follow(CK_PROC_image);
	follow(CK_PROC_module_load);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 1);
	assert_int_equal(launch(STREAM), 0); /* the next launch is another matter */
}

/* As over a network, and with the driver's compiler. */
static void each_message_that_loads_a_kernel_may_come_between(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	follow(CK_PROC_image_packed);
	call(CK_PROC_module_build);
	follow(CK_PROC_learned);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 1);
}

static void a_launch_right_behind_the_event_needs_no_second_record(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	assert_int_equal(launch(STREAM), 0);
}

static void work_between_keeps_the_time_of_the_event(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	follow(CK_PROC_cuMemsetD8Async);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 0);
}

static void a_launch_into_another_stream_keeps_it(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM + 1), 0);
}

static void a_call_that_may_have_seen_the_event_keeps_it(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	call(CK_PROC_cuEventQuery);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 0);
	record(CUDA_SUCCESS);
	call(CK_PROC_module_build); /* the driver's compiler */
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 1);
}

static void a_record_that_failed_is_not_tried_again(void **state)
{
	(void)state;
	record(CUDA_ERROR_INVALID_HANDLE);
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 0);
}

static void a_pause_of_the_program_counts(void **state)
{
	(void)state;
	record(CUDA_SUCCESS);
	session->retime.recorded_ns -= 60000000; /* 60 ms ago */
	follow(CK_PROC_function);
	assert_int_equal(launch(STREAM), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_before_a_first_launch_is_recorded_again),
		cmocka_unit_test(each_message_that_loads_a_kernel_may_come_between),
		cmocka_unit_test(a_launch_right_behind_the_event_needs_no_second_record),
		cmocka_unit_test(work_between_keeps_the_time_of_the_event),
		cmocka_unit_test(a_launch_into_another_stream_keeps_it),
		cmocka_unit_test(a_call_that_may_have_seen_the_event_keeps_it),
		cmocka_unit_test(a_record_that_failed_is_not_tried_again),
		cmocka_unit_test(a_pause_of_the_program_counts),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
