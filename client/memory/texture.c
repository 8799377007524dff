/*
 * client/memory/texture.c - texture and surface objects.
 *
 * An object's value is the driver's own number, which kernels take as a parameter. Its description
 * is kept here, so that queries can return the program's own handles.
 */
#include <stdlib.h>
#include <string.h>

#include "client/memory/array.h"
#include "client/memory/state.h"
#include "client/link/client.h"
#include "client/link/hooks.h"
#include "util/map.h"

struct object {
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
};

/* Numbers are unique per context, separately for textures and surfaces. */
struct key {
	uint64_t ctx, number, surface;
};

static struct ckc_textures *get_textures(void)
{
	return &ckc_client_current()->memory->textures;
}

static CUresult insert_object(const struct key *key, const struct object *from)
{
	struct ckc_textures *all = get_textures();
	struct object *o = malloc(sizeof(*o));
	bool done;

	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*o = *from;
	ck_lock(&all->lock);
	if (!all->objects)
		all->objects = ck_map_create();
	done = all->objects;
	if (done)
		free(ck_map_remove(all->objects, key, sizeof(*key)));
	done = done && ck_map_insert(all->objects, key, sizeof(*key), o) == 0;
	ck_unlock(&all->lock);
	if (!done)
		free(o);
	return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Find a number of the current context: INVALID_VALUE if there is no such object. */
static CUresult look_up(uint64_t number, bool surface, const void *output, struct object *found)
{
	struct ckc_textures *all = get_textures();
	struct key key = {.number = number, .surface = surface};
	const struct object *o;
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&all->lock);
	o = all->objects ? ck_map_find(all->objects, &key, sizeof(key)) : NULL;
	if (o)
		*found = *o;
	ck_unlock(&all->lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool remove_object(const struct key *key)
{
	struct ckc_textures *all = get_textures();
	struct object *o;

	ck_lock(&all->lock);
	o = all->objects ? ck_map_remove(all->objects, key, sizeof(*key)) : NULL;
	ck_unlock(&all->lock);
	free(o);
	return o;
}

static void context_ended(struct ckc_context *context)
{
	struct ckc_textures *all = &context->client->memory->textures;
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	ck_lock(&all->lock);
	while (all->objects && ck_map_next(all->objects, &it)) {
		struct key key;

		memcpy(&key, it.key, sizeof(key));
		if (key.ctx == context->object.id)
			free(ck_map_remove(all->objects, &key, sizeof(key)));
	}
	ck_unlock(&all->lock);
}
CK_ON_CONTEXT_END(CK_LAYER_MEMORY, context_ended);

/* Encode a resource: ids for handles. */
static CUresult resource_encode(const CUDA_RESOURCE_DESC *from, CUDA_RESOURCE_DESC *to)
{
	uint64_t id = 0;
	CUresult err = CUDA_SUCCESS;

	*to = *from;
	if (from->resType == CU_RESOURCE_TYPE_ARRAY) {
		err = ckc_array_id(from->res.array.hArray, &id);
		to->res.array.hArray = (CUarray)(uintptr_t)id;
	} else if (from->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
		err = ckc_mipmap_id(from->res.mipmap.hMipmappedArray, &id);
		to->res.mipmap.hMipmappedArray = (CUmipmappedArray)(uintptr_t)id;
	} else if (from->resType != CU_RESOURCE_TYPE_LINEAR &&
		   from->resType != CU_RESOURCE_TYPE_PITCH2D) {
		err = CUDA_ERROR_INVALID_VALUE;
	}
	return err;
}

CK_EXPORT CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
				     const CUDA_TEXTURE_DESC *pTexDesc,
				     const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	static const CUDA_RESOURCE_VIEW_DESC no_view;
	CUDA_RESOURCE_DESC resource;
	struct object o = {0};
	struct key key = {0};
	CUtexObject number = 0;
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!pTexObject || !pResDesc || !pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	err = resource_encode(pResDesc, &resource);
	if (!err)
		err = ck_wire_cuTexObjectCreate(key.ctx, &number, &resource, pTexDesc,
						pResViewDesc ? pResViewDesc : &no_view);
	if (err)
		return err;
	o.resource = *pResDesc;
	o.texture = *pTexDesc;
	o.has_view = pResViewDesc;
	if (pResViewDesc)
		o.view = *pResViewDesc;
	key.number = *pTexObject = number;
	return insert_object(&key, &o);
}

CK_EXPORT CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	CUDA_RESOURCE_DESC resource;
	struct object o = {0};
	struct key key = {.surface = true};
	CUsurfObject number = 0;
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!pSurfObject || !pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	err = resource_encode(pResDesc, &resource);
	if (!err)
		err = ck_wire_cuSurfObjectCreate(key.ctx, &number, &resource);
	if (err)
		return err;
	o.resource = *pResDesc;
	key.number = *pSurfObject = number;
	return insert_object(&key, &o);
}

CK_EXPORT CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	struct key key = {.number = texObject};
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!texObject) /* as the driver: there is nothing to destroy */
		return CUDA_SUCCESS;
	return remove_object(&key) ? ck_wire_cuTexObjectDestroy(key.ctx, texObject)
				   : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	struct key key = {.number = surfObject, .surface = true};
	CUresult err = ckc_enter(&key.ctx);

	if (err)
		return err;
	if (!surfObject) /* as the driver: there is nothing to destroy */
		return CUDA_SUCCESS;
	return remove_object(&key) ? ck_wire_cuSurfObjectDestroy(key.ctx, surfObject)
				   : CUDA_ERROR_INVALID_VALUE;
}

CK_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct object o;
	CUresult err = look_up(texObject, false, pResDesc, &o);

	if (!err)
		*pResDesc = o.resource;
	return err;
}

CK_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct object o;
	CUresult err = look_up(texObject, false, pTexDesc, &o);

	if (!err)
		*pTexDesc = o.texture;
	return err;
}

CK_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
						  CUtexObject texObject)
{
	struct object o;
	CUresult err = look_up(texObject, false, pResViewDesc, &o);

	if (!err && !o.has_view)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		*pResViewDesc = o.view;
	return err;
}

CK_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc,
					       CUsurfObject surfObject)
{
	struct object o;
	CUresult err = look_up(surfObject, true, pResDesc, &o);

	if (!err)
		*pResDesc = o.resource;
	return err;
}
