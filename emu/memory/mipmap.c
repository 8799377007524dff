/*
 * emu/memory/mipmap.c - mipmapped arrays: one piece of memory, and an array for each level in it.
 */
#include <stdlib.h>

#include "emu/memory/arena.h"
#include "emu/memory/texture.h"

#define LEVEL_ALIGN 512ul

static void mipmap_free(struct ck_emu_object *object)
{
	ck_emu_arena_sweep(object->context, object);
	free(object);
}

static void levels_retract(struct ck_emu_object *object)
{
	struct ck_emu_mipmap *mipmap = (struct ck_emu_mipmap *)object;

	for (unsigned int i = 0; i < mipmap->level_count; i++)
		ck_emu_object_retract(&mipmap->levels[i].base);
}

/* The extents of level @i, each half of the one before; layers stay. */
static void level_init(struct ck_emu_mipmap *mipmap, unsigned int i)
{
	struct ck_emu_array *level = &mipmap->levels[i];
	CUDA_ARRAY3D_DESCRIPTOR *d = &level->desc;

	/* the mipmapped array holds the context and counts the references */
	ck_emu_object_init(&level->base, CK_EMU_ARRAY, NULL, NULL);
	level->base.owner = &mipmap->base;
	level->base.context = mipmap->base.context;
	level->is_level = true;
	*d = mipmap->desc;
	d->Width = ck_max(d->Width >> i, (size_t)1);
	if (d->Height)
		d->Height = ck_max(d->Height >> i, (size_t)1);
	if (d->Depth && !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		d->Depth = ck_max(d->Depth >> i, (size_t)1);
}

/* One piece of memory for all levels. */
static CUresult levels_alloc(struct ck_emu_mipmap *mipmap)
{
	size_t offset[CK_PTX_MAX_LEVELS], total = 0;
	uint64_t base;

	for (unsigned int i = 0; i < mipmap->level_count; i++) {
		size_t size;

		level_init(mipmap, i);
		size = ck_emu_array_lay_out(&mipmap->levels[i]);
		offset[i] = total;
		if (!size || ck_add_overflow(total, CK_ALIGN_UP(size, LEVEL_ALIGN), &total))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	base = ck_emu_arena_alloc(mipmap->base.context, total, CK_EMU_MEMORY_ARRAY, mipmap);
	if (!base)
		return ck_emu_context_refusal(mipmap->base.context);
	for (unsigned int i = 0; i < mipmap->level_count; i++)
		mipmap->levels[i].image.base = base + offset[i];
	return CUDA_SUCCESS;
}

static CUresult mipmap_publish(struct ck_emu_mipmap *mipmap)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; result == CUDA_SUCCESS && i < mipmap->level_count; i++)
		result = ck_emu_object_publish(&mipmap->levels[i].base);
	if (result == CUDA_SUCCESS)
		result = ck_emu_object_publish(&mipmap->base);
	if (result != CUDA_SUCCESS)
		levels_retract(&mipmap->base);
	return result;
}

/* How many levels there can be until all extents are 1. */
static unsigned int levels_max(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t extent = ck_max(d->Width, ck_max(d->Height, layers ? (size_t)0 : d->Depth));

	return 64 - (unsigned int)__builtin_clzll(extent | 1);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
				unsigned int numMipmapLevels)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_mipmap *mipmap;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !pMipmappedArrayDesc || !numMipmapLevels)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_array_check(context->device, pMipmappedArrayDesc);
	if (result != CUDA_SUCCESS)
		return result;
	mipmap = calloc(1, sizeof(*mipmap));
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&mipmap->base, CK_EMU_MIPMAP, context, mipmap_free);
	mipmap->base.retract = levels_retract;
	mipmap->desc = *pMipmappedArrayDesc;
	mipmap->level_count = ck_min(numMipmapLevels, levels_max(&mipmap->desc));
	result = levels_alloc(mipmap);
	if (result == CUDA_SUCCESS)
		result = mipmap_publish(mipmap);
	if (result != CUDA_SUCCESS)
		ck_emu_object_put(&mipmap->base);
	else
		*pHandle = (CUmipmappedArray)mipmap;
	return result;
}

static CUresult begin_mipmap(CUmipmappedArray handle, const void *output,
			     struct ck_emu_mipmap **mipmap)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*mipmap = ck_emu_object_get(handle, CK_EMU_MIPMAP);
	return *mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
				  unsigned int level)
{
	struct ck_emu_mipmap *mipmap;
	CUresult result = begin_mipmap(hMipmappedArray, pLevelArray, &mipmap);

	if (result != CUDA_SUCCESS)
		return result;
	if (level < mipmap->level_count)
		*pLevelArray = (CUarray)&mipmap->levels[level];
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&mipmap->base);
	return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct ck_emu_mipmap *mipmap = NULL;
	CUresult result = begin_mipmap(hMipmappedArray, &mipmap, &mipmap);

	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_object_retract(&mipmap->base)) {
		ck_emu_context_wait(mipmap->base.context);
		ck_emu_object_put(&mipmap->base);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	ck_emu_object_put(&mipmap->base);
	return result;
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
					     CUmipmappedArray mipmap)
{
	struct ck_emu_mipmap *found;
	CUresult result = begin_mipmap(mipmap, sparseProperties, &found);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&found->base);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
					       CUmipmappedArray mipmap, CUdevice device)
{
	struct ck_emu_mipmap *found;
	CUresult result = begin_mipmap(mipmap, memoryRequirements, &found);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&found->base);
	return ck_emu_device_at(device) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
}
