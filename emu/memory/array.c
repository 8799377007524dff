/*
 * emu/memory/array.c - arrays: descriptors and memory.
 */
#include <stdlib.h>

#include "cuda/array_format.h"
#include "emu/memory/arena.h"
#include "emu/memory/texture.h"

#define ROW_ALIGN 32ul
#define KNOWN_FLAGS                                                                                \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
	 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT)
#define UNMAPPED_FLAGS (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

unsigned int ck_emu_texel_bytes(CUarray_format format, unsigned int channels)
{
	if (channels != 1 && channels != 2 && channels != 4)
		return 0;
	return ck_channel_bytes(format) * channels;
}

/* The largest extents of each kind of array, as attributes; 0: not bounded by one. */
struct limits {
	CUdevice_attribute width, height, depth;
};

#define LIMIT(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name

enum kind { ONE, TWO, THREE, ONE_LAYERED, TWO_LAYERED, CUBE, CUBE_LAYERED };

static const struct limits texture_limits[] = {
	[ONE] = {LIMIT(TEXTURE1D_WIDTH), 0, 0},
	[TWO] = {LIMIT(TEXTURE2D_WIDTH), LIMIT(TEXTURE2D_HEIGHT), 0},
	[THREE] = {LIMIT(TEXTURE3D_WIDTH), LIMIT(TEXTURE3D_HEIGHT), LIMIT(TEXTURE3D_DEPTH)},
	[ONE_LAYERED] = {LIMIT(TEXTURE1D_LAYERED_WIDTH), 0, LIMIT(TEXTURE1D_LAYERED_LAYERS)},
	[TWO_LAYERED] = {LIMIT(TEXTURE2D_LAYERED_WIDTH), LIMIT(TEXTURE2D_LAYERED_HEIGHT),
			 LIMIT(TEXTURE2D_LAYERED_LAYERS)},
	[CUBE] = {LIMIT(TEXTURECUBEMAP_WIDTH), LIMIT(TEXTURECUBEMAP_WIDTH), 0},
	[CUBE_LAYERED] = {LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH), LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH),
			  LIMIT(TEXTURECUBEMAP_LAYERED_LAYERS)},
};

static const struct limits surface_limits[] = {
	[ONE] = {LIMIT(SURFACE1D_WIDTH), 0, 0},
	[TWO] = {LIMIT(SURFACE2D_WIDTH), LIMIT(SURFACE2D_HEIGHT), 0},
	[THREE] = {LIMIT(SURFACE3D_WIDTH), LIMIT(SURFACE3D_HEIGHT), LIMIT(SURFACE3D_DEPTH)},
	[ONE_LAYERED] = {LIMIT(SURFACE1D_LAYERED_WIDTH), 0, LIMIT(SURFACE1D_LAYERED_LAYERS)},
	[TWO_LAYERED] = {LIMIT(SURFACE2D_LAYERED_WIDTH), LIMIT(SURFACE2D_LAYERED_HEIGHT),
			 LIMIT(SURFACE2D_LAYERED_LAYERS)},
	[CUBE] = {LIMIT(SURFACECUBEMAP_WIDTH), LIMIT(SURFACECUBEMAP_WIDTH), 0},
	[CUBE_LAYERED] = {LIMIT(SURFACECUBEMAP_LAYERED_WIDTH), LIMIT(SURFACECUBEMAP_LAYERED_WIDTH),
			  LIMIT(SURFACECUBEMAP_LAYERED_LAYERS)},
};

static const struct limits alternate_limits = {LIMIT(TEXTURE3D_WIDTH_ALTERNATE),
					       LIMIT(TEXTURE3D_HEIGHT_ALTERNATE),
					       LIMIT(TEXTURE3D_DEPTH_ALTERNATE)};
static const struct limits gather_limits = {LIMIT(TEXTURE2D_GATHER_WIDTH),
					    LIMIT(TEXTURE2D_GATHER_HEIGHT), 0};

static bool size_is_within_limits(const struct ck_emu_device *device,
				  const CUDA_ARRAY3D_DESCRIPTOR *d, const struct limits *limits)
{
	const CUdevice_attribute which[3] = {limits->width, limits->height, limits->depth};
	const size_t extent[3] = {d->Width, d->Height, d->Depth};

	for (int i = 0; i < 3; i++) {
		if (which[i] && extent[i] > (size_t)ck_emu_attribute(device, which[i]))
			return false;
	}
	return true;
}

/* The kind of array that a descriptor requests; false: none. */
static bool kind_of(const CUDA_ARRAY3D_DESCRIPTOR *d, enum kind *kind)
{
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

	if (!d->Width)
		return false;
	if (d->Flags & CUDA_ARRAY3D_CUBEMAP) {
		*kind = layered ? CUBE_LAYERED : CUBE;
		return d->Width == d->Height && d->Depth && d->Depth % 6 == 0 &&
		       (layered || d->Depth == 6);
	}
	if (layered) {
		*kind = d->Height ? TWO_LAYERED : ONE_LAYERED;
		return d->Depth > 0;
	}
	*kind = d->Depth ? THREE : d->Height ? TWO : ONE;
	return !d->Depth || d->Height;
}

CUresult ck_emu_array_check(const struct ck_emu_device *device, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	enum kind kind;

	if (d->Flags & UNMAPPED_FLAGS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (d->Flags & ~(unsigned int)KNOWN_FLAGS || !kind_of(d, &kind) ||
	    !ck_emu_texel_bytes(d->Format, d->NumChannels))
		return CUDA_ERROR_INVALID_VALUE;
	if (!size_is_within_limits(device, d, &texture_limits[kind]) &&
	    !(kind == THREE && size_is_within_limits(device, d, &alternate_limits)))
		return CUDA_ERROR_INVALID_VALUE;
	if ((d->Flags & CUDA_ARRAY3D_SURFACE_LDST) &&
	    !size_is_within_limits(device, d, &surface_limits[kind]))
		return CUDA_ERROR_INVALID_VALUE;
	if ((d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) &&
	    (kind != TWO || !size_is_within_limits(device, d, &gather_limits)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

size_t ck_emu_array_lay_out(struct ck_emu_array *array)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &array->desc;
	struct ck_ptx_image *m = &array->image;
	size_t size;

	array->texel = ck_emu_texel_bytes(d->Format, d->NumChannels);
	m->size[0] = (uint32_t)d->Width;
	m->size[1] = (uint32_t)ck_max(d->Height, (size_t)1);
	m->size[2] = (uint32_t)ck_max(d->Depth, (size_t)1);
	m->pitch = CK_ALIGN_UP(d->Width * array->texel, ROW_ALIGN);
	m->slice = m->pitch * m->size[1];
	return ck_mul_overflow((size_t)m->slice, (size_t)m->size[2], &size) ? 0 : size;
}

static void array_free(struct ck_emu_object *object)
{
	ck_emu_arena_sweep(object->context, object);
	free(object);
}

static CUresult create_array(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_array *array;
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_array_check(context->device, desc);
	if (result != CUDA_SUCCESS)
		return result;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&array->base, CK_EMU_ARRAY, context, array_free);
	array->desc = *desc;
	size = ck_emu_array_lay_out(array);
	array->image.base = ck_emu_arena_alloc(context, size, CK_EMU_MEMORY_ARRAY, array);
	result = array->image.base ? ck_emu_object_publish(&array->base)
				   : ck_emu_context_refusal(context);
	if (result != CUDA_SUCCESS)
		ck_emu_object_put(&array->base);
	else
		*out = (CUarray)array;
	return result;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {0};

	if (pAllocateArray) {
		desc.Width = pAllocateArray->Width;
		desc.Height = pAllocateArray->Height;
		desc.Format = pAllocateArray->Format;
		desc.NumChannels = pAllocateArray->NumChannels;
	}
	return create_array(pHandle, pAllocateArray ? &desc : NULL);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	return create_array(pHandle, pAllocateArray);
}

struct ck_emu_array *ck_emu_array_get(CUarray handle)
{
	return ck_emu_object_get(handle, CK_EMU_ARRAY);
}

/* The start of a call on one array: the array, with a reference. */
static CUresult acquire_array(CUarray handle, const void *output, struct ck_emu_array **array)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	*array = ck_emu_array_get(handle);
	return *array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct ck_emu_array *array;
	CUresult result = acquire_array(hArray, pArrayDescriptor, &array);

	if (result != CUDA_SUCCESS)
		return result;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = array->desc.Width,
						    .Height = array->desc.Height,
						    .Format = array->desc.Format,
						    .NumChannels = array->desc.NumChannels};
	ck_emu_object_put(&array->base);
	return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct ck_emu_array *array;
	CUresult result = acquire_array(hArray, pArrayDescriptor, &array);

	if (result != CUDA_SUCCESS)
		return result;
	*pArrayDescriptor = array->desc;
	ck_emu_object_put(&array->base);
	return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray)
{
	struct ck_emu_array *array = NULL;
	CUresult result = acquire_array(hArray, &array, &array);

	if (result != CUDA_SUCCESS)
		return result;
	/* a level goes with its mipmapped array */
	if (array->is_level) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (ck_emu_object_retract(&array->base)) {
		ck_emu_context_wait(array->base.context);
		ck_emu_object_put(&array->base);
	} else {
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	ck_emu_object_put(&array->base);
	return result;
}

/* No array here has planes, is sparse, or waits for memory to be mapped. */
static CUresult has_none(CUarray handle, const void *output)
{
	struct ck_emu_array *array;
	CUresult result = acquire_array(handle, output, &array);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_object_put(&array->base);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	(void)planeIdx;
	return has_none(hArray, pPlaneArray);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)
{
	return has_none(array, sparseProperties);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
				      CUarray array, CUdevice device)
{
	CUresult result = has_none(array, memoryRequirements);

	if (result == CUDA_ERROR_INVALID_VALUE && memoryRequirements && !ck_emu_device_at(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return result;
}
