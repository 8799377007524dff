/*
 * tests/unit/test_client_texture.c - arrays, texture objects and references on the client's side:
 * what is refused without a message, and which ids travel in place of handles.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/client_peer.h"

#define OWN (1ull << 23) /* ids from here on are the server's */
#define NUMBER 0x700001234ull

static CUDA_RESOURCE_DESC resource; /* as the peer got it */
static CUDA_MEMCPY3D copied;
static uint64_t created;

/* An array of 8 by 4 floats, whatever was asked for. */
static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	static const CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 8, .Height = 4, .NumChannels = 1, .Format = CU_AD_FORMAT_FLOAT};

	(void)payload;
	if (m->number == CK_PROC_cuArrayCreate_v2) {
		created = ((const cuArrayCreate_v2_args *)m->args)->pHandle;
	} else if (m->number == CK_PROC_cuArray3DGetDescriptor_v2) {
		memcpy(((cuArray3DGetDescriptor_v2_res *)res)->pArrayDescriptor, &desc,
		       sizeof(desc));
	} else if (m->number == CK_PROC_cuMipmappedArrayGetLevel) {
		((cuMipmappedArrayGetLevel_res *)res)->pLevelArray =
			OWN + ((const cuMipmappedArrayGetLevel_args *)m->args)->level;
	} else if (m->number == CK_PROC_cuTexObjectCreate) {
		memcpy(&resource, ((const cuTexObjectCreate_args *)m->args)->pResDesc,
		       sizeof(resource));
		((cuTexObjectCreate_res *)res)->pTexObject = NUMBER;
	} else if (m->number == CK_PROC_cuSurfObjectCreate) {
		((cuSurfObjectCreate_res *)res)->pSurfObject = NUMBER;
	}
	return CUDA_SUCCESS;
}

static void command(const struct peer_message *m)
{
	if (m->number == CK_PROC_upload_3d)
		memcpy(&copied, ((const ck_upload_3d_args *)m->args)->copy, sizeof(copied));
	if (m->number == CK_PROC_copy_3d)
		memcpy(&copied, ((const ck_copy_3d_args *)m->args)->copy, sizeof(copied));
}

static int begin(void **state)
{
	peer.command = command;
	peer.call = answer;
	return peer_begin(state);
}

static CUarray array_made(void)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 8, .Height = 4, .NumChannels = 1, .Format = CU_AD_FORMAT_FLOAT};
	CUarray array = NULL;

	assert_int_equal(cuArrayCreate_v2(&array, &desc), CUDA_SUCCESS);
	assert_non_null(array);
	return array;
}

static CUresult upload(CUarray array, size_t x, size_t y, size_t width, size_t height)
{
	static const char host[8 * 4 * 4];
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .srcPitch = 32,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = array,
			   .dstXInBytes = x,
			   .dstY = y,
			   .WidthInBytes = width,
			   .Height = height};

	memset(&copied, 0, sizeof(copied));
	return cuMemcpy2D_v2(&c);
}

static void a_copy_carries_the_arrays_id_and_place(void **state)
{
	CUarray array = array_made();
	size_t asked = peer_count(CK_PROC_cuArray3DGetDescriptor_v2);

	(void)state;
	assert_int_equal(upload(array, 4, 1, 28, 3), CUDA_SUCCESS);
	assert_int_equal(copied.dstMemoryType, CU_MEMORYTYPE_ARRAY);
	assert_int_equal((uintptr_t)copied.dstArray, created);
	assert_int_equal(copied.dstXInBytes, 4);
	assert_int_equal(copied.dstY, 1);
	assert_int_equal(copied.srcMemoryType, CU_MEMORYTYPE_HOST);
	assert_null(copied.srcHost);
	assert_int_equal(upload(array, 0, 0, 32, 4), CUDA_SUCCESS);
	/* what it is like is asked once */
	assert_int_equal(peer_count(CK_PROC_cuArray3DGetDescriptor_v2), asked + 1);
	assert_int_equal(cuMemcpyAtoA_v2(array, 0, array, 16, 16), CUDA_SUCCESS);
	assert_int_equal(copied.srcXInBytes, 16);
	assert_int_equal(cuArrayDestroy(array), CUDA_SUCCESS);
}

static void copies_beyond_an_array_are_refused_at_once(void **state)
{
	CUarray array = array_made();
	size_t sent;

	(void)state;
	assert_int_equal(upload(array, 0, 0, 32, 4), CUDA_SUCCESS);
	sent = peer_count(CK_PROC_upload_3d);
	assert_int_equal(upload(array, 4, 0, 32, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload(array, 0, 1, 32, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload(array, 2, 0, 4, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload(array, 0, 0, 6, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload(array, (size_t)-4, 0, 4, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload(array, 0, (size_t)-1, 4, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload((CUarray)&sent, 0, 0, 4, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(upload(NULL, 0, 0, 4, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuArrayDestroy(array), CUDA_SUCCESS);
	assert_int_equal(upload(array, 0, 0, 4, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(peer_count(CK_PROC_upload_3d), sent);
}

static void levels_are_known_again_and_end_with_their_mipmapped_array(void **state)
{
	const CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = 8, .Height = 4, .NumChannels = 1, .Format = CU_AD_FORMAT_FLOAT};
	CUarray first, second, again;
	CUmipmappedArray mipmap;
	CUtexref none;

	(void)state;
	assert_int_equal(cuMipmappedArrayCreate(&mipmap, &desc, 3), CUDA_SUCCESS);
	assert_int_equal(cuMipmappedArrayGetLevel(&first, mipmap, 0), CUDA_SUCCESS);
	assert_int_equal(cuMipmappedArrayGetLevel(&second, mipmap, 1), CUDA_SUCCESS);
	assert_int_equal(cuMipmappedArrayGetLevel(&again, mipmap, 0), CUDA_SUCCESS);
	assert_ptr_equal(first, again);
	assert_ptr_not_equal(first, second);
	assert_int_equal(upload(second, 0, 0, 32, 4), CUDA_SUCCESS);
	assert_int_equal((uintptr_t)copied.dstArray, OWN + 1);
	assert_int_equal(cuMipmappedArrayGetLevel(NULL, mipmap, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMipmappedArrayGetLevel(&again, (CUmipmappedArray)first, 0),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetTexRef(&none, (CUmodule)mipmap, "x"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMipmappedArrayDestroy(mipmap), CUDA_SUCCESS);
	assert_int_equal(upload(first, 0, 0, 4, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(upload(second, 0, 0, 4, 1), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
}

static void an_object_is_told_in_the_programs_own_handles(void **state)
{
	CUDA_RESOURCE_DESC desc = {.resType = CU_RESOURCE_TYPE_ARRAY}, told;
	CUDA_TEXTURE_DESC texture_desc = {.mipmapLevelBias = 2.5f}, texture_told;
	CUDA_RESOURCE_VIEW_DESC view;
	CUsurfObject surface = 0;
	CUtexObject texture = 0;

	(void)state;
	desc.res.array.hArray = array_made();
	assert_int_equal(cuTexObjectCreate(&texture, &desc, &texture_desc, NULL), CUDA_SUCCESS);
	assert_true(texture == NUMBER);
	assert_int_equal((uintptr_t)resource.res.array.hArray, created);
	assert_int_equal(cuTexObjectGetResourceDesc(&told, texture), CUDA_SUCCESS);
	assert_ptr_equal(told.res.array.hArray, desc.res.array.hArray);
	assert_int_equal(cuTexObjectGetTextureDesc(&texture_told, texture), CUDA_SUCCESS);
	assert_float_equal(texture_told.mipmapLevelBias, 2.5f, 0);
	assert_int_equal(cuTexObjectGetResourceViewDesc(&view, texture), CUDA_ERROR_INVALID_VALUE);
	/* a surface may have the same number */
	assert_int_equal(cuSurfObjectGetResourceDesc(&told, NUMBER), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuSurfObjectCreate(&surface, &desc), CUDA_SUCCESS);
	assert_int_equal(cuTexObjectDestroy(texture), CUDA_SUCCESS);
	assert_int_equal(cuSurfObjectGetResourceDesc(&told, surface), CUDA_SUCCESS);
	assert_int_equal(cuSurfObjectDestroy(surface), CUDA_SUCCESS);
}

static void wrong_objects_are_refused_without_a_message(void **state)
{
	CUDA_RESOURCE_DESC desc = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC texture_desc = {0};
	size_t created_before = peer_count(CK_PROC_cuTexObjectCreate);
	CUtexObject texture;

	(void)state;
	desc.res.array.hArray = (CUarray)&desc;
	assert_int_equal(cuTexObjectCreate(&texture, &desc, &texture_desc, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	desc.resType = (CUresourcetype)12;
	assert_int_equal(cuTexObjectCreate(&texture, &desc, &texture_desc, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuTexObjectCreate(NULL, &desc, &texture_desc, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuTexObjectCreate(&texture, NULL, &texture_desc, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuTexObjectCreate(&texture, &desc, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuTexObjectDestroy(4711), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuSurfObjectDestroy(4711), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuTexObjectDestroy(0), CUDA_SUCCESS);
	assert_int_equal(cuSurfObjectDestroy(0), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuTexObjectCreate), created_before);
	assert_int_equal(peer_count(CK_PROC_cuTexObjectDestroy), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_objects_are_refused_without_a_message),
		cmocka_unit_test(a_copy_carries_the_arrays_id_and_place),
		cmocka_unit_test(copies_beyond_an_array_are_refused_at_once),
		cmocka_unit_test(levels_are_known_again_and_end_with_their_mipmapped_array),
		cmocka_unit_test(an_object_is_told_in_the_programs_own_handles),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
