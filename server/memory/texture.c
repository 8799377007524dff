/*
 * server/memory/texture.c - texture and surface objects, levels of mipmapped arrays, references.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"
#include "server/session/locks.h"
#include "server/memory/texture.h"
#include "util/map.h"

struct cks_textures {
	struct ck_mutex lock;
	struct ck_map *known; /* of struct key; the values say nothing */
};

/* Numbers are unique per context, separately for textures and surfaces. */
struct key {
	uint64_t ctx, number, surface;
};

int cks_textures_create(struct cks_textures **out)
{
	struct cks_textures *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->known = ck_map_create();
	if (!t->known) {
		free(t);
		return -ENOMEM;
	}
	t->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_TEXTURES);
	*out = t;
	return 0;
}

void cks_textures_destroy(struct cks_textures *t)
{
	if (!t)
		return;
	ck_map_destroy(t->known);
	ck_mutex_destroy(&t->lock);
	free(t);
}

void cks_textures_drop_context(struct cks_textures *t, uint64_t ctx)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	ck_lock(&t->lock);
	while (ck_map_next(t->known, &it)) {
		struct key key;

		memcpy(&key, it.key, sizeof(key));
		if (key.ctx == ctx)
			ck_map_remove(t->known, &key, sizeof(key));
	}
	ck_unlock(&t->lock);
}

static CUresult record_object(struct cks_request *q, uint64_t number, bool surface)
{
	const struct key key = {q->ctx, number, surface};
	struct cks_textures *t = q->session->textures;
	int ret;

	ck_lock(&t->lock);
	ret = ck_map_insert(t->known, &key, sizeof(key), t);
	ck_unlock(&t->lock);
	return ret == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static bool forget_object(struct cks_request *q, uint64_t number, bool surface)
{
	const struct key key = {q->ctx, number, surface};
	struct cks_textures *t = q->session->textures;
	bool found;

	ck_lock(&t->lock);
	found = ck_map_remove(t->known, &key, sizeof(key));
	ck_unlock(&t->lock);
	return found;
}

/* Replace ids by the driver's handles; absent parts stay 0. */
static CUresult resource_decode(struct cks_request *q, const void *bytes, CUDA_RESOURCE_DESC *to)
{
	CUDA_RESOURCE_DESC from;

	memcpy(&from, bytes, sizeof(from));
	memset(to, 0, sizeof(*to));
	to->resType = from.resType;
	to->flags = from.flags;
	switch (from.resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return cks_array_find(q, (uintptr_t)from.res.array.hArray, &to->res.array.hArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return cks_mipmap_find(q, (uintptr_t)from.res.mipmap.hMipmappedArray,
				       &to->res.mipmap.hMipmappedArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_LINEAR:
		to->res.linear = from.res.linear;
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_PITCH2D:
		to->res.pitch2D = from.res.pitch2D;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult ck_serve_cuTexObjectCreate(struct cks_request *q, cuTexObjectCreate_args *a,
				    cuTexObjectCreate_res *res)
{
	static const CUDA_RESOURCE_VIEW_DESC no_view;
	CUDA_RESOURCE_VIEW_DESC view;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUtexObject number = 0;
	CUresult err = resource_decode(q, a->pResDesc, &resource);

	_Static_assert(sizeof(resource) == sizeof(a->pResDesc), "it travels as its bytes");
	_Static_assert(sizeof(texture) == sizeof(a->pTexDesc), "it travels as its bytes");
	_Static_assert(sizeof(view) == sizeof(a->pResViewDesc), "it travels as its bytes");
	if (err)
		return err;
	if (!ck_driver.cuTexObjectCreate || !ck_driver.cuTexObjectDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(&texture, a->pTexDesc, sizeof(texture));
	memcpy(&view, a->pResViewDesc, sizeof(view));
	err = ck_driver.cuTexObjectCreate(&number, &resource, &texture,
					  memcmp(&view, &no_view, sizeof(view)) ? &view : NULL);
	if (!err)
		err = record_object(q, number, false);
	res->pTexObject = number;
	return err;
}

CUresult ck_serve_cuTexObjectDestroy(struct cks_request *q, cuTexObjectDestroy_args *a,
				     cuTexObjectDestroy_res *res)
{
	(void)res;
	return forget_object(q, a->texObject, false) ? ck_driver.cuTexObjectDestroy(a->texObject)
						     : CUDA_ERROR_INVALID_VALUE;
}

CUresult ck_serve_cuSurfObjectCreate(struct cks_request *q, cuSurfObjectCreate_args *a,
				     cuSurfObjectCreate_res *res)
{
	CUDA_RESOURCE_DESC resource;
	CUsurfObject number = 0;
	CUresult err = resource_decode(q, a->pResDesc, &resource);

	if (err)
		return err;
	if (!ck_driver.cuSurfObjectCreate || !ck_driver.cuSurfObjectDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuSurfObjectCreate(&number, &resource);
	if (!err)
		err = record_object(q, number, true);
	res->pSurfObject = number;
	return err;
}

CUresult ck_serve_cuSurfObjectDestroy(struct cks_request *q, cuSurfObjectDestroy_args *a,
				      cuSurfObjectDestroy_res *res)
{
	(void)res;
	return forget_object(q, a->surfObject, true) ? ck_driver.cuSurfObjectDestroy(a->surfObject)
						     : CUDA_ERROR_INVALID_VALUE;
}

/* --- objects that belong to others and end with them */

static bool parent_find(struct cks_request *q, uint64_t id, enum cks_kind kind,
			struct cks_object *parent)
{
	return cks_handles_find(q->session->handles, id, CK_KIND_BIT(kind), parent);
}

CUresult ck_serve_cuMipmappedArrayGetLevel(struct cks_request *q, cuMipmappedArrayGetLevel_args *a,
					   cuMipmappedArrayGetLevel_res *res)
{
	struct cks_object mipmap;
	CUarray level = NULL;
	CUresult err;

	if (!ck_driver.cuMipmappedArrayGetLevel)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!parent_find(q, a->hMipmappedArray, CK_KIND_MIPMAP, &mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuMipmappedArrayGetLevel(&level, mipmap.handle, a->level);
	return err ? err
		   : cks_handles_name(q->session->handles, CK_KIND_ARRAY, mipmap.ctx, level,
				      a->hMipmappedArray, &res->pLevelArray);
}

CUresult ck_serve_cuArrayGetPlane(struct cks_request *q, cuArrayGetPlane_args *a,
				  cuArrayGetPlane_res *res)
{
	struct cks_object array;
	CUarray plane = NULL;
	CUresult err;

	if (!ck_driver.cuArrayGetPlane)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!parent_find(q, a->hArray, CK_KIND_ARRAY, &array))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuArrayGetPlane(&plane, array.handle, a->planeIdx);
	return err ? err
		   : cks_handles_name(q->session->handles, CK_KIND_ARRAY, array.ctx, plane,
				      a->hArray, &res->pPlaneArray);
}

CUresult ck_serve_cuModuleGetTexRef(struct cks_request *q, cuModuleGetTexRef_args *a,
				    cuModuleGetTexRef_res *res)
{
	struct cks_object module;
	CUtexref reference = NULL;
	CUresult err;

	if (!ck_driver.cuModuleGetTexRef)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!parent_find(q, a->hmod, CK_KIND_MODULE, &module))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuModuleGetTexRef(&reference, module.handle, a->name);
	return err ? err
		   : cks_handles_name(q->session->handles, CK_KIND_TEXREF, module.ctx, reference,
				      a->hmod, &res->pTexRef);
}

CUresult ck_serve_cuModuleGetSurfRef(struct cks_request *q, cuModuleGetSurfRef_args *a,
				     cuModuleGetSurfRef_res *res)
{
	struct cks_object module;
	CUsurfref reference = NULL;
	CUresult err;

	if (!ck_driver.cuModuleGetSurfRef)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!parent_find(q, a->hmod, CK_KIND_MODULE, &module))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuModuleGetSurfRef(&reference, module.handle, a->name);
	return err ? err
		   : cks_handles_name(q->session->handles, CK_KIND_SURFREF, module.ctx, reference,
				      a->hmod, &res->pSurfRef);
}

CUresult ck_serve_border_set(struct cks_request *q, ck_border_set_args *a, ck_border_set_res *res)
{
	float color[4] = {a->red, a->green, a->blue, a->alpha};
	CUtexref reference;

	(void)res;
	if (!ck_driver.cuTexRefSetBorderColor)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_texref_find(q, a->reference, &reference))
		return CUDA_ERROR_INVALID_HANDLE;
	return ck_driver.cuTexRefSetBorderColor(reference, color);
}

CUresult ck_serve_border_get(struct cks_request *q, ck_border_get_args *a, ck_border_get_res *res)
{
	float color[4] = {0};
	CUtexref reference;
	CUresult err;

	if (!ck_driver.cuTexRefGetBorderColor)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_texref_find(q, a->reference, &reference))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuTexRefGetBorderColor(color, reference);
	res->red = color[0];
	res->green = color[1];
	res->blue = color[2];
	res->alpha = color[3];
	return err;
}
