/*
 * tests/unit/test_server_wire.c - what a hostile client may send to the calls that take the
 * driver's own bytes and arrays: nothing of it gets to the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/driver.h"
#include "gen/handlers.h"
#include "server/session/handles.h"
#include "server/modules/link.h"
#include "server/session/session.h"
#include "tests/unit/server_links.h"

static struct cks_session session;
static struct cks_request request = {.session = &session};
static unsigned int driver_calls;

/* --- a driver that counts */

static CUresult fake_get(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	(void)type;
	resource->type = CU_DEV_RESOURCE_TYPE_SM;
	resource->sm.smCount = 16 + (unsigned int)device;
	return CUDA_SUCCESS;
}

static CUresult fake_split(CUdevResource *result, unsigned int *groups, const CUdevResource *input,
			   CUdevResource *rest, unsigned int flags, unsigned int least)
{
	(void)flags;
	driver_calls++;
	*groups = 2;
	for (unsigned int i = 0; result && i < 2; i++)
		result[i] = *input;
	for (unsigned int i = 0; result && i < 2; i++)
		result[i].sm.smCount = least;
	*rest = *input;
	return CUDA_SUCCESS;
}

static CUresult fake_desc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int count)
{
	(void)resources;
	driver_calls++;
	*desc = (CUdevResourceDesc)(uintptr_t)(1000 + count);
	return CUDA_SUCCESS;
}

static CUresult fake_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
			   void *address, const cuuint64_t *dims, const cuuint64_t *strides,
			   const cuuint32_t *box, const cuuint32_t *steps,
			   CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
			   CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	(void)type;
	(void)address;
	(void)interleave;
	(void)swizzle;
	(void)promotion;
	(void)fill;
	driver_calls++;
	map->opaque[0] = dims[rank - 1] + strides[0] + box[rank - 1] + steps[rank - 1];
	return CUDA_SUCCESS;
}

static CUresult fake_batch(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
			   unsigned int flags)
{
	(void)stream;
	(void)params;
	(void)flags;
	driver_calls += count;
	return CUDA_SUCCESS;
}

/* A kernel with parameters at 0 and 8, of 4 and 8 bytes. */
static CUresult fake_param(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	(void)f;
	if (i > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = i * 8;
	*size = i ? 8 : 4;
	return CUDA_SUCCESS;
}

static CUresult fake_multi(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
	driver_calls += count;
	assert_int_equal(flags, 2);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value;

		assert_ptr_equal(list[i].function, (void *)0x1234);
		assert_int_equal(list[i].gridDimY, 2);
		assert_int_equal(list[i].blockDimZ, 6);
		assert_int_equal(list[i].sharedMemBytes, 7);
		memcpy(&value, list[i].kernelParams[1], sizeof(value));
		assert_int_equal(value, 0x5678);
		assert_null(list[i].kernelParams[2]);
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	ck_driver.cuDeviceGetDevResource = fake_get;
	ck_driver.cuDevSmResourceSplitByCount = fake_split;
	ck_driver.cuDevResourceGenerateDesc = fake_desc;
	ck_driver.cuTensorMapEncodeTiled = fake_tiled;
	ck_driver.cuStreamBatchMemOp_v2 = fake_batch;
	ck_driver.cuFuncGetParamInfo = fake_param;
	ck_driver.cuLaunchCooperativeKernelMultiDevice = fake_multi;
	return cks_handles_create(&session.handles);
}

static int end(void **state)
{
	(void)state;
	cks_handles_destroy(session.handles);
	return 0;
}

static int fresh(void **state)
{
	(void)state;
	driver_calls = 0;
	return 0;
}

/* --- resources */

static CUresult split(CUdevResource *input, size_t size, CUdevResource *parts)
{
	ck_resource_split_args args = {.wanted = 1, .room = 2, .least = 8};
	ck_resource_split_res res = {0};
	CUresult err;

	args.input.input_val = (char *)input;
	args.input.input_len = (u_int)size;
	err = ck_serve_resource_split(&request, &args, &res);
	if (!err) {
		assert_int_equal(res.groups, 2);
		assert_int_equal(res.parts.parts_len, 2 * sizeof(*parts));
		memcpy(parts, res.parts.parts_val, res.parts.parts_len);
	}
	free(res.parts.parts_val);
	free(res.rest.rest_val);
	return err;
}

static CUresult describe(CUdevResource *resources, size_t size, uint64_t id)
{
	ck_resource_desc_args args = {.desc = id};
	ck_resource_desc_res res;

	args.resources.resources_val = (char *)resources;
	args.resources.resources_len = (u_int)size;
	return ck_serve_resource_desc(&request, &args, &res);
}

static void test_only_resources_that_were_given_are_taken(void **state)
{
	cuDeviceGetDevResource_args get = {.type = CU_DEV_RESOURCE_TYPE_SM};
	cuDeviceGetDevResource_res got;
	CUdevResource whole, forged, parts[2];

	(void)state;
	assert_int_equal(ck_serve_cuDeviceGetDevResource(&request, &get, &got), CUDA_SUCCESS);
	memcpy(&whole, got.resource, sizeof(whole));
	forged = whole;
	forged._internal_padding[5] ^= 1;
	assert_int_equal(split(&forged, sizeof(forged), parts), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(split(&whole, sizeof(whole) - 1, parts), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 0);
	assert_int_equal(split(&whole, sizeof(whole), parts), CUDA_SUCCESS);
	assert_int_equal(driver_calls, 1);
	assert_int_equal(describe(&forged, sizeof(forged), 100), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(describe(parts, sizeof(parts) + 1, 100), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(describe(parts, 0, 100), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 1);
	assert_int_equal(describe(parts, sizeof(parts), 100), CUDA_SUCCESS);
	assert_ptr_equal(cks_handles_get(session.handles, 100, CK_KIND_RESOURCES), (void *)1002);
	assert_int_equal(describe(parts, sizeof(parts), 100), CUDA_ERROR_INVALID_VALUE);
}

/* --- tensor maps */

static void test_arrays_have_as_many_elements_as_the_rank_says(void **state)
{
	cuuint64_t dims[5] = {8, 4, 2, 2, 2}, strides[4] = {16, 32, 64, 128};
	cuuint32_t box[5] = {8, 3, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
	ck_tensor_map_args args = {.rank = 2}, good;
	ck_tensor_map_res res = {0};
	CUtensorMap map;

	(void)state;
	args.dims.dims_val = (char *)dims;
	args.dims.dims_len = 16;
	args.strides.strides_val = (char *)strides;
	args.strides.strides_len = 8;
	args.box.box_val = (char *)box;
	args.box.box_len = 8;
	args.steps.steps_val = (char *)steps;
	args.steps.steps_len = 8;
	good = args;
	args.rank = 3;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args = good;
	args.rank = 0;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args.rank = 1u << 30;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args = good;
	args.kind = 3;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args = good;
	args.box.box_len = 4;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	args = good;
	args.lower.lower_val = (char *)box;
	args.lower.lower_len = 4;
	assert_int_equal(ck_serve_tensor_map(&request, &args, &res), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 0);
	assert_int_equal(ck_serve_tensor_map(&request, &good, &res), CUDA_SUCCESS);
	assert_int_equal(res.map.map_len, sizeof(map));
	memcpy(&map, res.map.map_val, sizeof(map));
	assert_int_equal(map.opaque[0], 4 + 16 + 3 + 1);
	free(res.map.map_val);
}

/* --- batches of operations in a stream */

static void test_a_batch_is_whole_operations_and_not_too_many(void **state)
{
	static CUstreamBatchMemOpParams operations[256];
	ck_stream_operations_args args = {0};

	(void)state;
	args.operations.operations_val = (char *)operations;
	args.operations.operations_len = sizeof(operations);
	assert_int_equal(ck_serve_stream_operations(&request, &args, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	args.operations.operations_len = sizeof(operations[0]) + 1;
	assert_int_equal(ck_serve_stream_operations(&request, &args, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	args.operations.operations_len = 0;
	assert_int_equal(ck_serve_stream_operations(&request, &args, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	args.operations.operations_len = 2 * sizeof(operations[0]);
	args.stream = 77;
	assert_int_equal(ck_serve_stream_operations(&request, &args, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(driver_calls, 0);
	args.stream = 0;
	assert_int_equal(ck_serve_stream_operations(&request, &args, NULL), CUDA_SUCCESS);
	assert_int_equal(driver_calls, 2);
}

/* --- one launch on several devices */

struct launch_item {
	uint64_t function, stream;
	uint32_t grid[3], block[3], shared, params;
	uint64_t block_of[2];
};

static CUresult launch_multi(const struct launch_item *items, size_t size)
{
	ck_launch_multi_args args = {.flags = 2};

	args.launches.launches_val = (char *)(uintptr_t)items;
	args.launches.launches_len = (u_int)size;
	return ck_serve_launch_multi(&request, &args, NULL);
}

static void test_launches_on_devices_are_whole_with_all_their_parameters(void **state)
{
	const struct launch_item good = {30, 0, {1, 2, 3}, {4, 5, 6}, 7, 16, {0, 0x5678}};
	struct launch_item items[2] = {good, good}, many[65];

	(void)state;
	assert_int_equal(cks_handles_put(session.handles, 30, CK_KIND_FUNCTION, 0, (void *)0x1234),
			 CUDA_SUCCESS);
	assert_int_equal(launch_multi(items, sizeof(items) - 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch_multi(items, sizeof(items[0]) + 20), CUDA_ERROR_INVALID_VALUE);
	items[1].params = 15; /* less than the kernel has */
	assert_int_equal(launch_multi(items, sizeof(items) - 1), CUDA_ERROR_INVALID_VALUE);
	items[1].params = 0;
	assert_int_equal(launch_multi(items, sizeof(items) - 16), CUDA_ERROR_INVALID_VALUE);
	items[1].params = UINT32_MAX;
	assert_int_equal(launch_multi(items, sizeof(items)), CUDA_ERROR_INVALID_VALUE);
	items[1] = good;
	items[1].function = 31;
	assert_int_equal(launch_multi(items, sizeof(items)), CUDA_ERROR_INVALID_HANDLE);
	items[1] = good;
	items[1].stream = 30; /* a function, not a stream */
	assert_int_equal(launch_multi(items, sizeof(items)), CUDA_ERROR_INVALID_HANDLE);
	for (size_t i = 0; i < 65; i++)
		many[i] = good;
	assert_int_equal(launch_multi(many, sizeof(many)), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(driver_calls, 0);
	items[1] = good;
	assert_int_equal(launch_multi(items, sizeof(items)), CUDA_SUCCESS);
	assert_int_equal(driver_calls, 2);
}

/* --- the linker */

static CUresult fake_link(unsigned int count, CUjit_option *options, void **values,
			  CUlinkState *state)
{
	(void)count;
	(void)options;
	(void)values;
	(void)state;
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void test_text_of_several_units_is_known(void **state)
{
	(void)state;
	ck_driver.cuLinkCreate_v2 = fake_link;
	assert_false(cks_link_needed(".version 7.0\n.target sm_75\n"));
	assert_false(cks_link_needed("// one .version\n.version 7.0\n"
				     ".target sm_75 // and another .version\n"));
	assert_true(cks_link_needed("\n.version 7.0\n.target sm_75\n\n.version 8.0\n"));
	assert_false(cks_link_needed("\177ELF\n.version 7.0\n.version 7.0\n"));
	assert_false(cks_link_needed(""));
}

static void test_a_link_that_is_none_is_refused(void **state)
{
	ck_link_fetch_args fetch = {.link = 5};
	ck_link_fetch_res fetched = {0};
	ck_link_complete_args complete = {.link = 100}; /* resources, not a link */
	ck_link_complete_res completed = {0};

	(void)state;
	assert_int_equal(ck_serve_link_fetch(&request, &fetch, &fetched),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ck_serve_link_complete(&request, &complete, &completed),
			 CUDA_ERROR_INVALID_HANDLE);
}

static CUresult link_size(uint64_t id)
{
	ck_link_complete_args args = {.link = id};
	ck_link_complete_res res = {0};
	CUresult err = ck_serve_link_complete(&request, &args, &res);

	free(res.info_log.info_log_val);
	free(res.error_log.error_log_val);
	return err;
}

/* Their memory, too: LeakSanitizer looks. */
static void test_links_go_with_their_context(void **state)
{
	const uint64_t was = request.ctx;
	ck_link_create_args create = {.link = 501};
	ck_link_create_res created = {0};
	cuLinkDestroy_args destroy = {.state = 502};
	cuLinkDestroy_res destroyed = {0};

	(void)state;
	links_install();
	request.ctx = 7;
	assert_int_equal(ck_serve_link_create(&request, &create, &created), CUDA_SUCCESS);
	request.ctx = 8;
	create.link = 502;
	assert_int_equal(ck_serve_link_create(&request, &create, &created), CUDA_SUCCESS);
	cks_links_drop_context(session.handles, 7);
	assert_int_equal(link_size(501), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(link_size(502), CUDA_SUCCESS);
	assert_int_equal(ck_serve_cuLinkDestroy(&request, &destroy, &destroyed), CUDA_SUCCESS);
	request.ctx = was;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
	const struct CMUnitTest tests[] = {
		TEST(test_only_resources_that_were_given_are_taken),
		TEST(test_arrays_have_as_many_elements_as_the_rank_says),
		TEST(test_a_batch_is_whole_operations_and_not_too_many),
		TEST(test_launches_on_devices_are_whole_with_all_their_parameters),
		TEST(test_text_of_several_units_is_known),
		TEST(test_a_link_that_is_none_is_refused),
		TEST(test_links_go_with_their_context),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
