/*
 * tests/unit/test_server_warm.c - the primary contexts that a spare worker holds: counted as the
 * driver counts them, they are as if the client had made them, or not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/modules/modcache.h"
#include "server/session/session.h"
#include "server/objects/warm.h"

#define DEVICES 2
#define CONTEXT 16 /* the client's id of its primary context */

static struct cks_session *session;
static struct cks_request request;
static int counts[DEVICES], peak[DEVICES];
static unsigned int flags_set, flags_at_count;
static CUresult sync_error, flags_error;
static int compute_mode;
static char contexts[DEVICES];

static CUresult retain(CUcontext *context, CUdevice device)
{
	if (device < 0 || device >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	counts[device]++;
	peak[device] = counts[device] > peak[device] ? counts[device] : peak[device];
	*context = (CUcontext)(uintptr_t)&contexts[device];
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
	if (counts[device] == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	counts[device]--;
	return CUDA_SUCCESS;
}

static CUresult reset(CUdevice device)
{
	counts[device] = 0;
	return CUDA_SUCCESS;
}

static CUresult state(CUdevice device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = counts[device] > 0;
	return CUDA_SUCCESS;
}

static CUresult set_flags(CUdevice device, unsigned int flags)
{
	flags_set = flags;
	flags_at_count = (unsigned int)counts[device];
	return counts[device] ? flags_error : CUDA_SUCCESS;
}

static CUresult create(CUcontext *context, unsigned int flags, CUdevice device)
{
	(void)flags;
	assert_int_equal(counts[device], 0); /* its memory would be taken twice */
	*context = (CUcontext)(uintptr_t)&session;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUcontext context)
{
	(void)context;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	(void)context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	*context = NULL;
	return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	if (attribute != CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)
		return CUDA_ERROR_INVALID_VALUE;
	*value = compute_mode;
	return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
	return sync_error;
}

static int begin(void **unused)
{
	struct cks_modcache *cache;

	(void)unused;
	ck_driver.cuDevicePrimaryCtxRetain = retain;
	ck_driver.cuDevicePrimaryCtxRelease_v2 = release;
	ck_driver.cuDevicePrimaryCtxReset_v2 = reset;
	ck_driver.cuDevicePrimaryCtxGetState = state;
	ck_driver.cuDevicePrimaryCtxSetFlags_v2 = set_flags;
	ck_driver.cuCtxCreate_v2 = create;
	ck_driver.cuCtxDestroy_v2 = destroy;
	ck_driver.cuCtxPushCurrent_v2 = push;
	ck_driver.cuCtxPopCurrent_v2 = pop;
	ck_driver.cuCtxSynchronize = synchronize;
	ck_driver.cuDeviceGetAttribute = device_attribute;
	compute_mode = 0;
	memset(counts, 0, sizeof(counts));
	memset(peak, 0, sizeof(peak));
	sync_error = flags_error = CUDA_SUCCESS;
	assert_int_equal(cks_modcache_open("/dev/null/at/all", NULL, 1 << 20, 1 << 20, &cache), 0);
	assert_int_equal(cks_session_create(cache, NULL, DEVICES, &session), 0);
	request = (struct cks_request){.session = session};
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	cks_warm_drop(CK_WARM_ALL);
	cks_session_destroy(session);
	return 0;
}

static CUresult serve_retain(CUdevice device)
{
	ck_primary_retain_args args = {.context = CONTEXT, .device = device};

	return ck_serve_primary_retain(&request, &args, NULL);
}

static CUresult serve_release(CUdevice device)
{
	ck_primary_release_args args = {.context = CONTEXT, .device = device};

	return ck_serve_primary_release(&request, &args, NULL);
}

static CUresult serve_flags(CUdevice device, unsigned int flags)
{
	ck_primary_flags_args args = {.device = device, .flags = flags};

	return ck_serve_primary_flags(&request, &args, NULL);
}

static void the_first_retain_takes_the_context_over(void **unused)
{
	(void)unused;
	cks_warm_up("0");
	assert_int_equal(counts[0], 1);
	assert_int_equal(serve_retain(0), CUDA_SUCCESS);
	assert_int_equal(peak[0], 1); /* no second one, which a release would leave behind */
	assert_ptr_equal(cks_handles_get(session->handles, CONTEXT, CK_KIND_CONTEXT), &contexts[0]);
	assert_false(cks_warm_drop(CK_WARM_ALL));
	assert_int_equal(serve_release(0), CUDA_SUCCESS);
	assert_int_equal(counts[0], 0);
	assert_int_equal(serve_retain(0), CUDA_SUCCESS);
	assert_int_equal(counts[0], 1);
}

static void a_reset_ends_it_and_leaves_nothing(void **unused)
{
	ck_primary_reset_args args = {.context = CONTEXT, .device = 0};
	ck_primary_reset_res res;

	(void)unused;
	cks_warm_up("0,1");
	assert_int_equal(serve_retain(0), CUDA_SUCCESS);
	assert_int_equal(ck_serve_primary_reset(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(counts[0], 0);
	assert_int_equal(counts[1], 1);
	args.device = 1; /* never retained by the client */
	assert_int_equal(ck_serve_primary_reset(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(counts[1], 0);
	assert_false(cks_warm_drop(CK_WARM_ALL));
}

static void a_release_without_a_retain_is_refused(void **unused)
{
	(void)unused;
	cks_warm_up("0");
	assert_int_equal(serve_release(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(serve_release(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(serve_retain(0), CUDA_SUCCESS);
	assert_int_equal(counts[0], 1);
}

static void flags_that_a_context_is_made_with_are_set_without_one(void **unused)
{
	(void)unused;
	cks_warm_up("0,1");
	assert_int_equal(serve_flags(0, CU_CTX_LMEM_RESIZE_TO_MAX), CUDA_SUCCESS);
	assert_int_equal(flags_at_count, 0);
	assert_int_equal(serve_flags(1, CU_CTX_SCHED_YIELD), CUDA_SUCCESS);
	assert_int_equal(flags_at_count, 1); /* a way to wait is no reason to give it up */
	assert_int_equal(flags_set, CU_CTX_SCHED_YIELD);
}

static void a_driver_that_keeps_flags_of_living_contexts_gets_them_without(void **unused)
{
	(void)unused;
	flags_error = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	cks_warm_up("0");
	assert_int_equal(serve_flags(0, CU_CTX_SCHED_SPIN), CUDA_SUCCESS);
	assert_int_equal(flags_at_count, 0);
	assert_int_equal(serve_retain(0), CUDA_SUCCESS);
	assert_int_equal(serve_flags(0, CU_CTX_SCHED_AUTO), CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
}

static void a_context_of_another_kind_has_the_device_for_itself(void **unused)
{
	ck_context_create_args args = {.context = CONTEXT, .device = 0};
	ck_context_create_res res;

	(void)unused;
	cks_warm_up("0");
	assert_int_equal(ck_serve_context_create(&request, &args, &res), CUDA_SUCCESS);
	assert_int_equal(counts[0], 0);
}

static void lists_name_devices_once_and_may_name_ones_that_are_not_there(void **unused)
{
	(void)unused;
	cks_warm_up("none");
	cks_warm_up("");
	cks_warm_up(",");
	assert_int_equal(peak[0] + peak[1], 0);
	cks_warm_up("1,7,,1,99999999999999999999,64,0,");
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 1);
}

static void a_gpu_that_one_process_has_for_itself_is_left_to_others(void **unused)
{
	(void)unused;
	compute_mode = CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
	cks_warm_up("0,1");
	assert_int_equal(peak[0] + peak[1], 0);
	assert_true(cks_warm_sound());
}

static void a_context_that_has_broken_meanwhile_is_seen(void **unused)
{
	(void)unused;
	assert_true(cks_warm_sound());
	cks_warm_up("0");
	assert_true(cks_warm_sound());
	sync_error = CUDA_ERROR_ECC_UNCORRECTABLE;
	assert_false(cks_warm_sound());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_retain_takes_the_context_over),
		TEST(a_reset_ends_it_and_leaves_nothing),
		TEST(a_release_without_a_retain_is_refused),
		TEST(flags_that_a_context_is_made_with_are_set_without_one),
		TEST(a_driver_that_keeps_flags_of_living_contexts_gets_them_without),
		TEST(a_context_of_another_kind_has_the_device_for_itself),
		TEST(lists_name_devices_once_and_may_name_ones_that_are_not_there),
		TEST(a_gpu_that_one_process_has_for_itself_is_left_to_others),
		TEST(a_context_that_has_broken_meanwhile_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
