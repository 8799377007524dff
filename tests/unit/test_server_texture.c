/*
 * tests/unit/test_server_texture.c - ids of arrays in what a client sends, and objects that are
 * numbers: what the driver is not given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/session/session.h"
#include "server/memory/texture.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

static int array, mipmap, level, module, reference; /* their addresses serve as handles */
static struct cks_session *session;
static struct cks_request request;
static CUDA_RESOURCE_DESC seen;
static CUDA_MEMCPY3D copied;
static bool viewed;
static unsigned int destroyed;

static CUresult texture_create(CUtexObject *number, const CUDA_RESOURCE_DESC *resource,
			       const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view)
{
	(void)desc;
	seen = *resource;
	viewed = view;
	*number = 77;
	return CUDA_SUCCESS;
}

static CUresult texture_destroy(CUtexObject number)
{
	destroyed += number == 77;
	return CUDA_SUCCESS;
}

static CUresult get_level(CUarray *out, CUmipmappedArray from, unsigned int number)
{
	*out = (CUarray)&level;
	return from == (CUmipmappedArray)&mipmap && number == 2 ? CUDA_SUCCESS
								: CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_reference(CUtexref *out, CUmodule from, const char *name)
{
	*out = (CUtexref)&reference;
	return from == (CUmodule)&module && !strcmp(name, "picture") ? CUDA_SUCCESS
								     : CUDA_ERROR_NOT_FOUND;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream)
{
	(void)stream;
	copied = *c;
	return CUDA_SUCCESS;
}

static int make(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuTexObjectCreate = texture_create;
	ck_driver.cuTexObjectDestroy = texture_destroy;
	ck_driver.cuSurfObjectDestroy = texture_destroy;
	ck_driver.cuMipmappedArrayGetLevel = get_level;
	ck_driver.cuModuleGetTexRef = get_reference;
	ck_driver.cuMemcpy3DAsync_v2 = copy_3d;
	destroyed = 0;
	session = session_without_client();
	request = (struct cks_request){.session = session, .ctx = 16};
	return cks_handles_put(session->handles, 20, CK_KIND_ARRAY, 16, &array) ||
	       cks_handles_put(session->handles, 21, CK_KIND_MIPMAP, 16, &mipmap) ||
	       cks_handles_put(session->handles, 22, CK_KIND_MODULE, 16, &module);
}

static int drop(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

static CUresult create(CUresourcetype type, uint64_t id, CUtexObject *number)
{
	CUDA_RESOURCE_DESC resource = {.resType = type};
	cuTexObjectCreate_args a = {0};
	cuTexObjectCreate_res r = {0};
	CUresult err;

	memset(&resource.res, 0xee, sizeof(resource.res)); /* what is not looked at */
	resource.res.array.hArray = (CUarray)(uintptr_t)id;
	memcpy(a.pResDesc, &resource, sizeof(resource));
	err = ck_serve_cuTexObjectCreate(&request, &a, &r);
	*number = r.pTexObject;
	return err;
}

static CUresult destroy(CUtexObject number)
{
	cuTexObjectDestroy_args a = {.texObject = number};
	cuTexObjectDestroy_res r;

	return ck_serve_cuTexObjectDestroy(&request, &a, &r);
}

static void a_resource_gets_the_drivers_handles_and_nothing_else(void **state)
{
	CUDA_RESOURCE_DESC want = {0};
	CUtexObject number;

	(void)state;
	assert_int_equal(create(CU_RESOURCE_TYPE_ARRAY, 20, &number), CUDA_SUCCESS);
	assert_int_equal(number, 77);
	want.res.array.hArray = (CUarray)&array;
	assert_memory_equal(&seen, &want, sizeof(want));
	assert_false(viewed);
	assert_int_equal(create(CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, 21, &number), CUDA_SUCCESS);
	assert_ptr_equal(seen.res.mipmap.hMipmappedArray, &mipmap);
}

static void ids_of_another_kind_or_none_are_refused(void **state)
{
	CUtexObject number;

	(void)state;
	assert_int_equal(create(CU_RESOURCE_TYPE_ARRAY, 21, &number), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(create(CU_RESOURCE_TYPE_ARRAY, 0, &number), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(create(CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, ~0ull, &number),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(create((CUresourcetype)77, 20, &number), CUDA_ERROR_INVALID_VALUE);
}

static void a_number_that_was_not_made_here_never_reaches_the_driver(void **state)
{
	cuSurfObjectDestroy_args surface = {.surfObject = 77};
	cuSurfObjectDestroy_res r;
	CUtexObject number;

	(void)state;
	assert_int_equal(destroy(77), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(create(CU_RESOURCE_TYPE_ARRAY, 20, &number), CUDA_SUCCESS);
	assert_int_equal(ck_serve_cuSurfObjectDestroy(&request, &surface, &r),
			 CUDA_ERROR_INVALID_VALUE);
	request.ctx = 17; /* another context may have the same number */
	assert_int_equal(destroy(77), CUDA_ERROR_INVALID_VALUE);
	request.ctx = 16;
	assert_int_equal(destroyed, 0);
	assert_int_equal(destroy(77), CUDA_SUCCESS);
	assert_int_equal(destroy(77), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(destroyed, 1);
}

static void objects_go_with_their_context(void **state)
{
	CUtexObject number;

	(void)state;
	assert_int_equal(create(CU_RESOURCE_TYPE_ARRAY, 20, &number), CUDA_SUCCESS);
	cks_textures_drop_context(session->textures, 16);
	assert_int_equal(destroy(77), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(destroyed, 0);
}

static void a_level_has_one_id_and_goes_with_its_mipmapped_array(void **state)
{
	cuMipmappedArrayGetLevel_args a = {.hMipmappedArray = 21, .level = 2};
	cuMipmappedArrayGetLevel_res r = {0}, again = {0};

	(void)state;
	assert_int_equal(ck_serve_cuMipmappedArrayGetLevel(&request, &a, &r), CUDA_SUCCESS);
	assert_true(r.pLevelArray >= CK_OWN_OBJECTS);
	assert_int_equal(ck_serve_cuMipmappedArrayGetLevel(&request, &a, &again), CUDA_SUCCESS);
	assert_int_equal(r.pLevelArray, again.pLevelArray);
	assert_ptr_equal(cks_handles_get(session->handles, r.pLevelArray, CK_KIND_ARRAY), &level);
	cks_handle_remove(&request, 21);
	assert_null(cks_handles_get(session->handles, r.pLevelArray, CK_KIND_ARRAY));
	assert_int_equal(ck_serve_cuMipmappedArrayGetLevel(&request, &a, &r),
			 CUDA_ERROR_INVALID_HANDLE);
}

static void a_reference_goes_with_its_module(void **state)
{
	cuModuleGetTexRef_args a = {.hmod = 22, .name = (char *)"picture"};
	cuModuleGetTexRef_res r = {0};

	(void)state;
	assert_int_equal(ck_serve_cuModuleGetTexRef(&request, &a, &r), CUDA_SUCCESS);
	assert_ptr_equal(cks_handles_get(session->handles, r.pTexRef, CK_KIND_TEXREF), &reference);
	cks_handle_remove(&request, 22);
	assert_null(cks_handles_get(session->handles, r.pTexRef, CK_KIND_TEXREF));
}

static CUresult copy(CUDA_MEMCPY3D c)
{
	ck_copy_3d_args a = {0};

	memcpy(a.copy, &c, sizeof(c));
	memset(&copied, 0, sizeof(copied));
	return ck_serve_copy_3d(&request, &a, NULL);
}

static void a_copy_gets_the_drivers_array_and_no_pointer_of_the_clients(void **state)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			   .srcArray = (CUarray)20,
			   .srcHost = (void *)8,
			   .dstArray = (CUarray)21,
			   .dstHost = (void *)8,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstDevice = 4096,
			   .reserved1 = (void *)8,
			   .WidthInBytes = 4,
			   .Height = 1,
			   .Depth = 1};

	(void)state;
	assert_int_equal(copy(c), CUDA_SUCCESS);
	assert_ptr_equal(copied.srcArray, &array);
	assert_null(copied.dstArray);
	assert_null(copied.srcHost);
	assert_null(copied.dstHost);
	assert_null(copied.reserved1);
	c.srcArray = (CUarray)21;
	assert_int_equal(copy(c), CUDA_ERROR_INVALID_HANDLE);
	c.srcArray = (CUarray)20;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	assert_int_equal(copy(c), CUDA_ERROR_INVALID_VALUE);
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	assert_int_equal(copy(c), CUDA_ERROR_INVALID_HANDLE);
	assert_null(copied.srcArray);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define test(name) cmocka_unit_test_setup_teardown(name, make, drop)
		test(a_resource_gets_the_drivers_handles_and_nothing_else),
		test(ids_of_another_kind_or_none_are_refused),
		test(a_number_that_was_not_made_here_never_reaches_the_driver),
		test(objects_go_with_their_context),
		test(a_level_has_one_id_and_goes_with_its_mipmapped_array),
		test(a_reference_goes_with_its_module),
		test(a_copy_gets_the_drivers_array_and_no_pointer_of_the_clients),
#undef test
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
