/*
 * emu/memory/texture.c - texture and surface objects: their resources and descriptors.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/memory/texture.h"

static size_t get_device_limit(const struct ck_emu_context *context, CUdevice_attribute number)
{
	return (size_t)ck_emu_attribute(context->device, number);
}

static CUresult linear_fill(struct ck_emu_context *context, const CUDA_RESOURCE_DESC *r,
			    struct ck_ptx_texture *t)
{
	unsigned int texel = ck_emu_texel_bytes(r->res.linear.format, r->res.linear.numChannels);
	size_t count = texel ? r->res.linear.sizeInBytes / texel : 0;

	if (!count ||
	    count > get_device_limit(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH) ||
	    r->res.linear.devPtr %
		    get_device_limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) ||
	    !ck_emu_arena_covers(r->res.linear.devPtr, r->res.linear.sizeInBytes))
		return CUDA_ERROR_INVALID_VALUE;
	t->format = r->res.linear.format;
	t->channels = r->res.linear.numChannels;
	t->texel = texel;
	t->linear = t->checked = true;
	t->level_count = 1;
	t->levels[0] = (struct ck_ptx_image){.base = r->res.linear.devPtr,
					     .size = {(uint32_t)count, 1, 1}};
	return CUDA_SUCCESS;
}

static CUresult pitch_fill(struct ck_emu_context *context, const CUDA_RESOURCE_DESC *r,
			   struct ck_ptx_texture *t)
{
	const __typeof__(r->res.pitch2D) *p = &r->res.pitch2D;
	unsigned int texel = ck_emu_texel_bytes(p->format, p->numChannels);

	if (!texel || !p->width || !p->height ||
	    p->width >
		    get_device_limit(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
	    p->height > get_device_limit(context,
					 CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
	    p->pitchInBytes >
		    get_device_limit(context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
	    p->pitchInBytes < p->width * texel ||
	    p->pitchInBytes %
		    get_device_limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) ||
	    p->devPtr % get_device_limit(context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) ||
	    !ck_emu_arena_covers(p->devPtr, p->pitchInBytes * (p->height - 1) + p->width * texel))
		return CUDA_ERROR_INVALID_VALUE;
	t->format = p->format;
	t->channels = p->numChannels;
	t->texel = texel;
	t->checked = true;
	t->level_count = 1;
	t->levels[0] = (struct ck_ptx_image){.base = p->devPtr,
					     .pitch = p->pitchInBytes,
					     .size = {(uint32_t)p->width, (uint32_t)p->height, 1}};
	return CUDA_SUCCESS;
}

/* The format of the elements, common to arrays and mipmapped arrays. */
static void format_fill(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct ck_ptx_texture *t)
{
	t->format = desc->Format;
	t->channels = desc->NumChannels;
	t->texel = ck_emu_texel_bytes(desc->Format, desc->NumChannels);
}

static CUresult array_fill(const CUDA_RESOURCE_DESC *r, struct ck_ptx_texture *t,
			   struct ck_emu_object **source)
{
	struct ck_emu_array *array = ck_emu_array_get(r->res.array.hArray);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	*source = &array->base;
	format_fill(&array->desc, t);
	t->level_count = 1;
	t->levels[0] = array->image;
	return CUDA_SUCCESS;
}

static CUresult mipmap_fill(const CUDA_RESOURCE_DESC *r, struct ck_ptx_texture *t,
			    struct ck_emu_object **source)
{
	struct ck_emu_mipmap *mipmap =
		ck_emu_object_get(r->res.mipmap.hMipmappedArray, CK_EMU_MIPMAP);

	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	*source = &mipmap->base;
	format_fill(&mipmap->desc, t);
	t->level_count = mipmap->level_count;
	for (unsigned int i = 0; i < mipmap->level_count; i++)
		t->levels[i] = mipmap->levels[i].image;
	return CUDA_SUCCESS;
}

/* *@source gets a reference as soon as it is known, also on error. */
static CUresult resource_fill(struct ck_emu_context *context, bool surface,
			      const CUDA_RESOURCE_DESC *r, struct ck_ptx_texture *t,
			      struct ck_emu_object **source)
{
	if (r->flags || (surface && r->resType != CU_RESOURCE_TYPE_ARRAY))
		return CUDA_ERROR_INVALID_VALUE;
	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return array_fill(r, t, source);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return mipmap_fill(r, t, source);
	case CU_RESOURCE_TYPE_LINEAR:
		return linear_fill(context, r, t);
	case CU_RESOURCE_TYPE_PITCH2D:
		return pitch_fill(context, r, t);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult desc_fill(const CUDA_TEXTURE_DESC *d, CUresourcetype type, struct ck_ptx_texture *t)
{
	const unsigned int known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
				   CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
				   CU_TRSF_SEAMLESS_CUBEMAP;

	if (d->flags & ~known || (unsigned int)d->filterMode > CU_TR_FILTER_MODE_LINEAR ||
	    (unsigned int)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < 3; i++) {
		if ((unsigned int)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
		t->address[i] = d->addressMode[i];
	}
	if (type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
	    !(d->flags & CU_TRSF_NORMALIZED_COORDINATES))
		return CUDA_ERROR_INVALID_VALUE;
	t->filter = d->filterMode;
	t->mipmap_filter = d->mipmapFilterMode;
	t->flags = d->flags;
	t->bias = d->mipmapLevelBias;
	t->min_level = d->minMipmapLevelClamp;
	t->max_level = d->maxMipmapLevelClamp;
	memcpy(t->border, d->borderColor, sizeof(t->border));
	return CUDA_SUCCESS;
}

/* Formats of views that are not compressed, as array formats and numbers of channels. */
static bool view_format(CUresourceViewFormat format, CUarray_format *out, unsigned int *channels)
{
	static const CUarray_format formats[] = {
		CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
		CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
		CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
		CU_AD_FORMAT_HALF,	     CU_AD_FORMAT_FLOAT,
	};
	unsigned int index = (unsigned int)format - CU_RES_VIEW_FORMAT_UINT_1X8;

	if (index > CU_RES_VIEW_FORMAT_FLOAT_4X32 - CU_RES_VIEW_FORMAT_UINT_1X8)
		return false;
	*out = formats[index / 3];
	*channels = 1u << index % 3;
	return true;
}

static CUresult view_fill(const CUDA_RESOURCE_VIEW_DESC *v, CUresourcetype type,
			  struct ck_ptx_texture *t)
{
	unsigned int channels = t->channels;
	CUarray_format format = t->format;

	if (type != CU_RESOURCE_TYPE_ARRAY && type != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	if (v->format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 &&
	    v->format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (v->format != CU_RES_VIEW_FORMAT_NONE && !view_format(v->format, &format, &channels))
		return CUDA_ERROR_INVALID_VALUE;
	if (ck_emu_texel_bytes(format, channels) != t->texel ||
	    v->lastMipmapLevel >= t->level_count || v->firstMipmapLevel > v->lastMipmapLevel ||
	    v->lastLayer >= t->levels[0].size[2] || v->firstLayer > v->lastLayer)
		return CUDA_ERROR_INVALID_VALUE;
	t->format = format;
	t->channels = channels;
	t->level_count = v->lastMipmapLevel - v->firstMipmapLevel + 1;
	memmove(t->levels, t->levels + v->firstMipmapLevel, t->level_count * sizeof(t->levels[0]));
	for (unsigned int i = 0; v->lastLayer > 0 && i < t->level_count; i++) {
		t->levels[i].base += v->firstLayer * t->levels[i].slice;
		t->levels[i].size[2] = v->lastLayer - v->firstLayer + 1;
	}
	return CUDA_SUCCESS;
}

static void texture_free(struct ck_emu_object *object)
{
	struct ck_emu_texture *texture = (struct ck_emu_texture *)object;

	if (texture->source)
		ck_emu_object_put(texture->source);
	free(texture);
}

CUresult ck_emu_texture_create(struct ck_emu_context *context, bool surface,
			       const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *desc,
			       const CUDA_RESOURCE_VIEW_DESC *view, struct ck_emu_texture **out)
{
	struct ck_emu_texture *texture = calloc(1, sizeof(*texture));
	CUresult result;

	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&texture->base, surface ? CK_EMU_SURFACE : CK_EMU_TEXTURE, context,
			   texture_free);
	texture->resource = *resource;
	result = resource_fill(context, surface, resource, &texture->texture, &texture->source);
	if (result == CUDA_SUCCESS && desc) {
		texture->desc = *desc;
		result = desc_fill(desc, resource->resType, &texture->texture);
	}
	if (result == CUDA_SUCCESS && view) {
		texture->view = *view;
		texture->has_view = true;
		result = view_fill(view, resource->resType, &texture->texture);
	}
	ck_emu_object_ref(&texture->base);
	if (result == CUDA_SUCCESS)
		result = ck_emu_object_publish(&texture->base);
	if (result == CUDA_SUCCESS) {
		*out = texture;
		return CUDA_SUCCESS;
	}
	ck_emu_object_put(&texture->base);
	ck_emu_object_put(&texture->base);
	return result;
}

/* The number of a new object. */
static CUresult create_texture_object(unsigned long long *number, bool surface,
				      const CUDA_RESOURCE_DESC *resource,
				      const CUDA_TEXTURE_DESC *desc,
				      const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct ck_emu_texture *texture;
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!number || !resource || (!surface && !desc))
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_texture_create(context, surface, resource, desc, view, &texture);
	if (result != CUDA_SUCCESS)
		return result;
	*number = (unsigned long long)(uintptr_t)texture;
	ck_emu_object_put(&texture->base);
	return CUDA_SUCCESS;
}

/* The object of a number, with a reference. */
static CUresult acquire_texture(unsigned long long number, bool surface, const void *output,
				struct ck_emu_texture **texture)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*texture = ck_emu_object_get((const void *)(uintptr_t)number,
				     surface ? CK_EMU_SURFACE : CK_EMU_TEXTURE);
	if (*texture && atomic_load(&(*texture)->destroyed)) {
		ck_emu_object_put(&(*texture)->base);
		*texture = NULL;
	}
	return *texture ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The end of a destroyed object, once no work can look it up any more. */
struct end {
	struct ck_emu_command command;
	struct ck_emu_texture *texture; /* with a reference */
};

static CUresult end_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	(void)command;
	(void)context;
	return CUDA_SUCCESS;
}

/* Also of a command that is refused: its context is then at an end, or has a fault. */
static void end_free(struct ck_emu_command *command)
{
	struct ck_emu_object *object = &((struct end *)command)->texture->base;

	if (ck_emu_object_retract(object))
		ck_emu_object_put(object); /* the handle's */
	ck_emu_object_put(object);
	free(command);
}

/*
 * A grid finds an object by its number when it runs: the number stays good for the work that has
 * been queued, but no longer for calls.
 */
static CUresult destroy_texture_object(unsigned long long number, bool surface)
{
	struct ck_emu_texture *texture = NULL;
	CUresult result = acquire_texture(number, surface, &texture, &texture);
	struct end *end;

	/* destroying no object is no error, as in the driver */
	if (result != CUDA_SUCCESS)
		return result == CUDA_ERROR_INVALID_VALUE && !number ? CUDA_SUCCESS : result;
	end = calloc(1, sizeof(*end));
	if (!end)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (atomic_exchange(&texture->destroyed, true))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS) {
		ck_emu_object_put(&texture->base);
		free(end);
		return result;
	}
	end->command.run = end_run;
	end->command.free = end_free;
	end->texture = texture;
	ck_emu_context_then(texture->base.context, &end->command);
	return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
			   const CUDA_TEXTURE_DESC *pTexDesc,
			   const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	return create_texture_object(pTexObject, false, pResDesc, pTexDesc, pResViewDesc);
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	return destroy_texture_object(texObject, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct ck_emu_texture *texture;
	CUresult result = acquire_texture(texObject, false, pResDesc, &texture);

	if (result != CUDA_SUCCESS)
		return result;
	*pResDesc = texture->resource;
	ck_emu_object_put(&texture->base);
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct ck_emu_texture *texture;
	CUresult result = acquire_texture(texObject, false, pTexDesc, &texture);

	if (result != CUDA_SUCCESS)
		return result;
	*pTexDesc = texture->desc;
	ck_emu_object_put(&texture->base);
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
					CUtexObject texObject)
{
	struct ck_emu_texture *texture;
	CUresult result = acquire_texture(texObject, false, pResViewDesc, &texture);

	if (result != CUDA_SUCCESS)
		return result;
	if (texture->has_view)
		*pResViewDesc = texture->view;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&texture->base);
	return result;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	return create_texture_object(pSurfObject, true, pResDesc, NULL, NULL);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	return destroy_texture_object(surfObject, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	struct ck_emu_texture *texture;
	CUresult result = acquire_texture(surfObject, true, pResDesc, &texture);

	if (result != CUDA_SUCCESS)
		return result;
	*pResDesc = texture->resource;
	ck_emu_object_put(&texture->base);
	return CUDA_SUCCESS;
}

/* How long a linear texture can be: the device's bound, in elements of any format. */
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
					    unsigned int numChannels, CUdevice dev)
{
	const struct ck_emu_device *device = ck_emu_device_at(dev);
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!maxWidthInElements || !ck_emu_texel_bytes(format, numChannels))
		return CUDA_ERROR_INVALID_VALUE;
	*maxWidthInElements = (size_t)ck_emu_attribute(
		device, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
	return CUDA_SUCCESS;
}
