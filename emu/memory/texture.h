/*
 * emu/memory/texture.h - arrays, mipmapped arrays, texture and surface objects.
 *
 * An array is memory in rows and slices, in a private layout. Objects hold a reference to the array
 * that they show, and a kernel finds them by their number, which is the address of the object.
 * Destroyed arrays and objects live until the work that may use them is done.
 */
#ifndef CK_EMU_MEMORY_TEXTURE_H
#define CK_EMU_MEMORY_TEXTURE_H

#include "emu/core/emu.h"
#include "emu/ptx/language/ptx.h"

struct ck_emu_array {
	struct ck_emu_object base; /* its owner is the mipmapped array, if it is a level of one */
	CUDA_ARRAY3D_DESCRIPTOR desc;
	unsigned int texel; /* bytes */
	struct ck_ptx_image image;
	bool is_level;
};

struct ck_emu_mipmap {
	struct ck_emu_object base;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	unsigned int level_count;
	struct ck_emu_array levels[CK_PTX_MAX_LEVELS];
};

struct ck_emu_texture {
	struct ck_emu_object base; /* CK_EMU_TEXTURE or CK_EMU_SURFACE */
	struct ck_ptx_texture texture;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC desc;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
	atomic_bool destroyed; /* by the program; it lives until the work queued before is done */
	struct ck_emu_object *source; /* array or mipmap, with a reference; NULL: memory */
};

/* Bytes of a texel; 0: a format or number of channels that there is not (array.c). */
unsigned int ck_emu_texel_bytes(CUarray_format format, unsigned int channels);
/* Whether the device has arrays like that: INVALID_VALUE, NOT_SUPPORTED. */
CUresult ck_emu_array_check(const struct ck_emu_device *device, const CUDA_ARRAY3D_DESCRIPTOR *d);
/*
 * Fill in texel and image except for its base; the bytes that it takes, 0 when they are too many.
 */
size_t ck_emu_array_lay_out(struct ck_emu_array *array);
/* The array behind a handle, with a reference, or NULL. */
struct ck_emu_array *ck_emu_array_get(CUarray handle);

/* An object that is published, with one reference besides the handle's; @desc and @view may be
 * NULL (texture.c). */
CUresult ck_emu_texture_create(struct ck_emu_context *context, bool surface,
			       const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *desc,
			       const CUDA_RESOURCE_VIEW_DESC *view, struct ck_emu_texture **out);

#endif
