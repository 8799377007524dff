/*
 * client/memory/array.c - arrays: their descriptors, which copies need, and objects that belong to
 * others.
 *
 * An array's descriptor is fetched for the first copy; it never changes.
 */
#include <stdatomic.h>

#include "client/memory/array.h"
#include "cuda/array_format.h"
#include "client/memory/state.h"

void *ckc_inmate_named(enum ckc_object_kind kind, uint64_t id, const struct ckc_object *parent)
{
	struct ckc_inmate *o = ckc_object_named(kind, id);

	if (o && o->parent != parent->id) {
		o->parent = parent->id;
		o->object.context = parent->context;
		atomic_fetch_add(&ckc_client_current()->memory->inmates, 1);
	}
	return o;
}

static void inmate_end(struct ckc_object *object, void *parent)
{
	struct ckc_inmate *o = (struct ckc_inmate *)object;

	if ((object->kind == CK_OBJECT_ARRAY || object->kind == CK_OBJECT_TEXREF ||
	     object->kind == CK_OBJECT_SURFREF) &&
	    o->parent == *(const uint64_t *)parent)
		ckc_object_free(object);
}

void ckc_inmates_end(const struct ckc_object *parent)
{
	uint64_t id = parent->id; /* which may be freed with the others */

	/* usually there are none to search */
	if (atomic_load(&ckc_client_current()->memory->inmates) == 0)
		return;
	ckc_object_each(parent->context, inmate_end, &id);
}

size_t ckc_array_element(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	return (size_t)ck_channel_bytes(desc->Format) * desc->NumChannels;
}

CUresult ckc_array_describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *desc, uint64_t *id)
{
	struct ckc_inmate *a = ckc_object_check(handle, CK_OBJECT_ARRAY);
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	*id = a->object.id;
	if (!atomic_load_explicit(&a->described, memory_order_acquire)) {
		err = ck_wire_cuArray3DGetDescriptor_v2(ctx, desc, *id);
		if (err)
			return err;
		a->desc = *desc;
		atomic_store_explicit(&a->described, true, memory_order_release);
	}
	*desc = a->desc;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
					    unsigned int level)
{
	struct ckc_object *mipmap = ckc_object_check(hMipmappedArray, CK_OBJECT_MIPMAP);
	uint64_t ctx, id = 0;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pLevelArray)
		return CUDA_ERROR_INVALID_VALUE;
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_wire_cuMipmappedArrayGetLevel(ctx, &id, mipmap->id, level);
	if (err)
		return err;
	*pLevelArray = ckc_inmate_named(CK_OBJECT_ARRAY, id, mipmap);
	return *pLevelArray ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The levels end with it. Forget them before the server does: it may reuse their ids at once. */
CK_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct ckc_object *mipmap = ckc_object_check(hMipmappedArray, CK_OBJECT_MIPMAP);
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	ckc_inmates_end(mipmap);
	err = ck_wire_cuMipmappedArrayDestroy(ctx, mipmap->id);
	if (!err)
		ckc_object_end(CK_OBJECT_MIPMAP, mipmap->id);
	return err;
}

CK_EXPORT CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	struct ckc_object *array = ckc_object_check(hArray, CK_OBJECT_ARRAY);
	uint64_t ctx, id = 0;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pPlaneArray)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_wire_cuArrayGetPlane(ctx, &id, array->id, planeIdx);
	if (err)
		return err;
	*pPlaneArray = ckc_inmate_named(CK_OBJECT_ARRAY, id, array);
	return *pPlaneArray ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The planes end with their array. */
CK_EXPORT CUresult cuArrayDestroy(CUarray hArray)
{
	struct ckc_object *array = ckc_object_check(hArray, CK_OBJECT_ARRAY);
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	ckc_inmates_end(array);
	err = ck_wire_cuArrayDestroy(ctx, array->id);
	if (!err)
		ckc_object_end(CK_OBJECT_ARRAY, array->id);
	return err;
}
