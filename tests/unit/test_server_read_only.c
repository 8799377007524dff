/*
 * tests/unit/test_server_read_only.c - memory of another user's that a session may only read: no
 * message, nor two at a time, gives leave to write it. The driver checks nothing and counts leaves.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server/memory/share.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

#define WINDOW 0x100000000ull
#define OTHER 0x200000000ull
#define UNIT ((size_t)2 << 20)
#define FOREIGN 0x4000u /* the handle under which the driver knows the memory */

static struct cks_session *session;
static struct cks_request request;
static CUdeviceptr mapped;     /* where the driver has it */
static unsigned int leaves;    /* to write it */
static bool meddles, releases; /* another lane comes in between; and gives the handle back */

static CUresult reserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr at,
			unsigned long long flags)
{
	(void)size;
	(void)alignment;
	(void)flags;
	*out = at;
	return CUDA_SUCCESS;
}

static CUresult unreserve(CUdeviceptr at, size_t size)
{
	(void)at;
	(void)size;
	return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)size;
	(void)prop;
	(void)flags;
	*handle = 1;
	return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return CUDA_SUCCESS;
}

static CUresult export(void *out, CUmemGenericAllocationHandle handle,
		       CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd = dup(STDIN_FILENO);

	(void)handle;
	(void)type;
	(void)flags;
	memcpy(out, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

/* A handle of its own for each import. */
static CUresult import(CUmemGenericAllocationHandle *handle, void *fd,
		       CUmemAllocationHandleType type)
{
	(void)fd;
	(void)type;
	*handle = FOREIGN + 1;
	return CUDA_SUCCESS;
}

static CUresult props_get(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	(void)prop;
	(void)handle;
	if (meddles)
		cks_share_check(&request); /* as after any release or unmapping */
	return CUDA_SUCCESS;
}

static CUresult write_access(CUdeviceptr at)
{
	CUmemAccessDesc desc = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	ck_set_access_args a = {.ptr = at, .size = UNIT, .desc = {sizeof(desc), (char *)&desc}};
	ck_set_access_res res;

	return ck_serve_set_access(&request, &a, &res);
}

static void *meddle(void *at)
{
	cuMemRelease_args a = {.handle = 20};

	if (releases)
		ck_serve_cuMemRelease(&request, &a, NULL);
	write_access(*(CUdeviceptr *)at);
	return NULL;
}

/* The driver has done it, and another lane is quicker than ours. */
static pthread_t other_lane;
static CUdeviceptr other_at;

static void let_other_lane(CUdeviceptr at)
{
	if (!meddles)
		return;
	other_at = at;
	assert_int_equal(pthread_create(&other_lane, NULL, meddle, &other_at), 0);
	usleep(50000);
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		    unsigned long long flags)
{
	(void)size;
	(void)offset;
	(void)flags;
	if (at == mapped)
		return CUDA_ERROR_ALREADY_MAPPED;
	if (handle == FOREIGN || handle == FOREIGN + 1) {
		mapped = at;
		let_other_lane(at);
	}
	return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
	(void)size;
	if (at == mapped)
		mapped = 0;
	return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	(void)size;
	(void)count;
	leaves += at == mapped && desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	ck_window_args window = {.address = WINDOW, .size = 4 * UNIT};
	ck_window_res taken;

	(void)state;
	fake_install();
	ck_driver.cuMemAddressReserve = reserve;
	ck_driver.cuMemAddressFree = unreserve;
	ck_driver.cuMemCreate = create;
	ck_driver.cuMemRelease = release;
	ck_driver.cuMemMap = map;
	ck_driver.cuMemUnmap = unmap;
	ck_driver.cuMemSetAccess = set_access;
	ck_driver.cuMemExportToShareableHandle = export;
	ck_driver.cuMemImportFromShareableHandle = import;
	ck_driver.cuMemGetAllocationPropertiesFromHandle = props_get;
	ck_driver.cuCtxGetDevice = device_get;
	mapped = 0;
	leaves = 0;
	meddles = releases = false;
	session = session_without_client();
	request = (struct cks_request){.session = session};
	assert_int_equal(ck_serve_window(&request, &window, &taken), CUDA_SUCCESS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	/* with its handle and mapping gone it is no more restricted */
	cks_handles_remove(session->handles, 20);
	cks_handles_remove(session->handles, 21);
	cks_memory_unmap(session->memory, WINDOW, 8 * UNIT);
	cks_memory_unmap(session->memory, OTHER, UNIT);
	cks_share_check(&request);
	cks_session_destroy(session);
	return 0;
}

static void adopt(uint64_t id)
{
	char prop[sizeof(CUmemAllocationProp)];

	assert_int_equal(cks_share_adopt(&request, id, FOREIGN, true, prop), CUDA_SUCCESS);
}

static CUresult do_map(CUdeviceptr at, uint64_t id)
{
	cuMemMap_args a = {.ptr = at, .size = UNIT, .handle = id};
	cuMemMap_res res;

	return ck_serve_cuMemMap(&request, &a, &res);
}

static void it_is_mapped_and_not_written(void **state)
{
	(void)state;
	adopt(20);
	assert_int_equal(do_map(OTHER, 20), CUDA_SUCCESS);
	assert_int_equal(write_access(OTHER), CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(leaves, 0);
}

static void a_further_handle_of_it_is_not_to_be_had(void **state)
{
	ck_import_args a = {.object = 21, .source = 20};
	ck_import_res res;

	(void)state;
	adopt(20);
	assert_int_equal(ck_serve_import(&request, &a, &res), CUDA_ERROR_NOT_PERMITTED);
	assert_int_not_equal(do_map(OTHER, 21), CUDA_SUCCESS);
}

static void a_release_while_it_arrives_does_not_free_it(void **state)
{
	(void)state;
	meddles = true;
	adopt(20);
	meddles = false;
	assert_true(cks_share_is_read_only(FOREIGN));
}

/* There a message that maps forgets what the table has, and one that unmaps before the driver
 * does. */
static void it_does_not_lie_in_the_window(void **state)
{
	(void)state;
	adopt(20);
	assert_int_equal(do_map(WINDOW, 20), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(do_map(WINDOW - UNIT / 2, 20), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(do_map(WINDOW + 4 * UNIT, 20), CUDA_SUCCESS);
	assert_int_equal(mapped, WINDOW + 4 * UNIT);
}

static void nobody_is_quicker_than_its_entry(void **state)
{
	(void)state;
	adopt(20);
	meddles = true;
	assert_int_equal(do_map(OTHER, 20), CUDA_SUCCESS);
	assert_int_equal(pthread_join(other_lane, NULL), 0);
	assert_int_equal(leaves, 0);
}

static void its_mapping_is_restricted_when_its_handle_goes_meanwhile(void **state)
{
	releases = true;
	nobody_is_quicker_than_its_entry(state);
	assert_int_equal(write_access(OTHER), CUDA_ERROR_NOT_PERMITTED);
}

#define in_session(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_session(it_is_mapped_and_not_written),
		in_session(a_further_handle_of_it_is_not_to_be_had),
		in_session(a_release_while_it_arrives_does_not_free_it),
		in_session(it_does_not_lie_in_the_window),
		in_session(nobody_is_quicker_than_its_entry),
		in_session(its_mapping_is_restricted_when_its_handle_goes_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
