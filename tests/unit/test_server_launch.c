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

static int begin(void **state)
{
	(void)state;
	ck_driver.cuLaunchKernelEx = fake_launch;
	if (cks_handles_create(&session.handles) < 0)
		return -1;
	return (int)cks_handles_put(session.handles, KERNEL, CK_KIND_FUNCTION, 0, (void *)0x1234);
}

static int end(void **state)
{
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_attributes_as_a_client_sends_get_to_the_driver),
		cmocka_unit_test(an_attribute_names_an_event_of_the_session),
		cmocka_unit_test(only_a_call_can_ask_for_a_node_that_kernels_update),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
