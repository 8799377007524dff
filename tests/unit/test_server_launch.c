/*
 * tests/unit/test_server_launch.c - what of a launch's message gets to the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "rpc/launch.h"
#include "server/modules/launch_pace.h"
#include "server/session/handles.h"
#include "server/session/session.h"

#define KERNEL 30

static struct cks_session session;
static struct cks_request request = {.session = &session};
static unsigned int attributes_seen;

static CUresult fake_launch(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	(void)params;
	(void)extra;
	assert_ptr_equal(f, (void *)0x1234);
	assert_int_equal(config->gridDimY, 2);
	assert_int_equal(config->blockDimZ, 6);
	assert_int_equal(config->sharedMemBytes, 7);
	attributes_seen = config->numAttrs;
	return CUDA_SUCCESS;
}

/* Events of a GPU that completes a launch when it has been looked at LOOKS times. */
#define LOOKS 3
#define EVENTS 100

static struct {
	unsigned int made, ended, recorded[EVENTS], looks;
	bool stuck;
} events;

static CUresult make_event(CUevent *event, unsigned int flags)
{
	assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
	assert_true(++events.made < EVENTS);
	*event = (CUevent)(uintptr_t)events.made;
	return CUDA_SUCCESS;
}

static CUresult end_event(CUevent event)
{
	(void)event;
	events.ended++;
	return CUDA_SUCCESS;
}

static CUresult record_event(CUevent event, CUstream stream)
{
	(void)stream;
	events.recorded[(uintptr_t)event] = LOOKS;
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
	events.looks++;
	if (events.stuck || events.recorded[(uintptr_t)event] == 0)
		return events.stuck ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
	events.recorded[(uintptr_t)event]--;
	return CUDA_ERROR_NOT_READY;
}

static int begin(void **state)
{
	(void)state;
	ck_driver.cuLaunchKernelEx = fake_launch;
	ck_driver.cuEventCreate = make_event;
	ck_driver.cuEventDestroy_v2 = end_event;
	ck_driver.cuEventRecord = record_event;
	ck_driver.cuEventQuery = query_event;
	if (cks_handles_create(&session.handles) < 0 ||
	    cks_launch_pace_create(&session.launch_pace) < 0)
		return -1;
	return (int)cks_handles_put(session.handles, KERNEL, CK_KIND_FUNCTION, 0, (void *)0x1234);
}

static int end(void **state)
{
	(void)state;
	cks_launch_pace_drop_context(session.launch_pace, request.ctx);
	cks_launch_pace_destroy(session.launch_pace);
	cks_handles_destroy(session.handles);
	return 0;
}

static CUresult launch_with(CUlaunchAttribute *attributes, size_t size)
{
	ck_launch_args args = {
		.function = KERNEL,
		.gx = 1,
		.gy = 2,
		.gz = 3,
		.bx = 4,
		.by = 5,
		.bz = 6,
		.shared = 7,
		.attributes = {(u_int)size, (char *)attributes},
	};

	attributes_seen = 0;
	return ck_serve_launch(&request, &args, NULL);
}

static void as_many_attributes_as_a_client_sends_get_to_the_driver(void **state)
{
	static CUlaunchAttribute many[CK_LAUNCH_ATTRIBUTES + 1];

	(void)state;
	for (unsigned int i = 0; i <= CK_LAUNCH_ATTRIBUTES; i++)
		many[i].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
	assert_int_equal(launch_with(many, CK_LAUNCH_ATTRIBUTES * sizeof(many[0])), CUDA_SUCCESS);
	assert_int_equal(attributes_seen, CK_LAUNCH_ATTRIBUTES);
	assert_int_equal(launch_with(many, sizeof(many)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch_with(many, sizeof(many[0]) + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(attributes_seen, 0);
}

static void an_attribute_names_an_event_of_the_session(void **state)
{
	CUlaunchAttribute event = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
	uint64_t id = KERNEL; /* which is no event */

	(void)state;
	memcpy(&event.value.programmaticEvent.event, &id, sizeof(id));
	assert_int_equal(launch_with(&event, sizeof(event)), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(attributes_seen, 0);
}

static void only_a_call_can_ask_for_a_node_that_kernels_update(void **state)
{
	CUlaunchAttribute node = {.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE};

	(void)state;
	node.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
	assert_int_equal(launch_with(&node, sizeof(node)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(attributes_seen, 0);
}

static void launch_once(void)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};

	assert_int_equal(launch_with(&attribute, sizeof(attribute)), CUDA_SUCCESS);
}

/* How many launches are not known to be done. */
static unsigned int under_way(void)
{
	unsigned int count = 0;

	for (unsigned int i = 1; i <= events.made; i++)
		count += events.recorded[i] > 0;
	return count;
}

static void launches_that_are_bound_wait_for_earlier_ones(void **state)
{
	(void)state;
	memset(&events, 0, sizeof(events));
	launch_once();
	assert_int_equal(events.made, 0); /* nothing is bound */
	cks_launch_pace_set(session.launch_pace, true);
	for (int i = 0; i < 1000; i++) {
		launch_once();
		assert_in_range(under_way(), 1, 5);
	}
	assert_true(events.looks >= 1000 * LOOKS);
	cks_launch_pace_set(session.launch_pace, false);
	events.looks = 0;
	launch_once();
	assert_int_equal(events.looks, 0);
	cks_launch_pace_drop_context(session.launch_pace, request.ctx);
	assert_int_equal(events.ended, events.made);
}

/* Its kernel may wait for what the session submits next. */
static void a_launch_that_does_not_end_stops_no_other(void **state)
{
	(void)state;
	memset(&events, 0, sizeof(events));
	events.stuck = true;
	cks_launch_pace_set(session.launch_pace, true);
	for (int i = 0; i < 10; i++)
		launch_once();
	cks_launch_pace_set(session.launch_pace, false);
	assert_true(events.looks > 0);
	cks_launch_pace_drop_context(session.launch_pace, request.ctx);
}

static void another_context_has_events_of_its_own(void **state)
{
	unsigned int made;

	(void)state;
	memset(&events, 0, sizeof(events));
	cks_launch_pace_set(session.launch_pace, true);
	launch_once();
	made = events.made;
	request.ctx = 2;
	for (int i = 0; i < 20; i++)
		launch_once();
	assert_int_equal(events.ended, made);
	cks_launch_pace_set(session.launch_pace, false);
	cks_launch_pace_drop_context(session.launch_pace, 2);
	assert_int_equal(events.ended, events.made);
	request.ctx = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_attributes_as_a_client_sends_get_to_the_driver),
		cmocka_unit_test(an_attribute_names_an_event_of_the_session),
		cmocka_unit_test(only_a_call_can_ask_for_a_node_that_kernels_update),
		cmocka_unit_test(launches_that_are_bound_wait_for_earlier_ones),
		cmocka_unit_test(a_launch_that_does_not_end_stops_no_other),
		cmocka_unit_test(another_context_has_events_of_its_own),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
