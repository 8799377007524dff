/*
 * emu/modules/texref.c - texture and surface references: objects that a module's variable names.
 *
 * Each change makes the object anew and puts its number into the variable, once the work that may
 * be reading it is done. Without an object, or with one that cannot be made, the number is 0.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/modules/function.h"
#include "emu/core/locks.h"
#include "emu/modules/texref.h"

static struct ck_mutex references_lock = CK_MUTEX(CK_RANK_REFERENCES);

/* End the object that a reference stood for. */
static void current_drop(struct ck_emu_reference *ref)
{
	struct ck_emu_texture *texture = ref->current;

	ref->current = NULL;
	if (!texture)
		return;
	ck_emu_object_retract(&texture->base);
	ck_emu_context_wait(texture->base.context);
	ck_emu_object_put(&texture->base); /* the handle's */
	ck_emu_object_put(&texture->base);
}

/* Lock held. */
static CUresult rebind_reference(struct ck_emu_reference *ref)
{
	struct ck_emu_texture *texture = NULL;
	CUDA_TEXTURE_DESC desc = ref->desc;
	CUresult result = CUDA_SUCCESS;
	uint64_t number;

	/* mipmapped textures have normalised coordinates, independent of the flags */
	if (ref->resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		desc.flags |= CU_TRSF_NORMALIZED_COORDINATES;
	if (ref->bound)
		result = ck_emu_texture_create(ref->base.context, ref->surface, &ref->resource,
					       ref->surface ? NULL : &desc, NULL, &texture);
	number = (uint64_t)(uintptr_t)texture;
	if (ref->slot) {
		ck_emu_context_wait(ref->base.context);
		memcpy((void *)(uintptr_t)ref->slot, &number, sizeof(number));
	}
	current_drop(ref);
	ref->current = texture;
	return result;
}

static void reference_free(struct ck_emu_object *object)
{
	struct ck_emu_reference *ref = (struct ck_emu_reference *)object;

	if (ref->current)
		ck_emu_object_put(&ref->current->base);
	free(ref->name);
	free(ref);
}

static struct ck_emu_reference *reference_new(struct ck_emu_context *context, bool surface)
{
	struct ck_emu_reference *ref = calloc(1, sizeof(*ref));

	if (!ref)
		return NULL;
	ck_emu_object_init(&ref->base, surface ? CK_EMU_SURFREF : CK_EMU_TEXREF, context,
			   reference_free);
	ref->surface = surface;
	ref->format = CU_AD_FORMAT_FLOAT;
	ref->channels = 1;
	ref->desc.maxAnisotropy = 1;
	for (int i = 0; i < 3; i++)
		ref->desc.addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
	return ref;
}

void ck_emu_references_retract(struct ck_emu_module *module)
{
	ck_lock(&references_lock);
	for (struct ck_emu_reference *ref = module->references; ref; ref = ref->next)
		ck_emu_object_retract(&ref->base);
	ck_unlock(&references_lock);
}

void ck_emu_references_free(struct ck_emu_module *module)
{
	while (module->references) {
		struct ck_emu_reference *ref = module->references;

		module->references = ref->next;
		if (ref->current && ck_emu_object_retract(&ref->current->base))
			ck_emu_object_put(&ref->current->base);
		reference_free(&ref->base);
	}
}

/* The reference of a name, made when it is first asked for; it lives with the module. */
static CUresult reference_find(struct ck_emu_module *module, const char *name, bool surface,
			       struct ck_emu_reference **out)
{
	struct ck_emu_reference *ref;
	uint64_t slot;

	if (ck_ptx_reference(module->ptx, name, surface, &slot) < 0)
		return CUDA_ERROR_NOT_FOUND;
	for (ref = module->references; ref; ref = ref->next) {
		if (ref->slot == slot) {
			*out = ref;
			return CUDA_SUCCESS;
		}
	}
	ref = reference_new(NULL, surface);
	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ref->base.owner = &module->base;
	ref->base.context = module->base.context;
	ref->slot = slot;
	ref->name = strdup(name);
	if (!ref->name || ck_emu_object_publish(&ref->base) != CUDA_SUCCESS) {
		reference_free(&ref->base);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	ref->next = module->references;
	module->references = ref;
	*out = ref;
	return CUDA_SUCCESS;
}

static CUresult module_reference(void **out, CUmodule handle, const char *name, bool surface)
{
	struct ck_emu_reference *ref = NULL;
	struct ck_emu_context *context;
	struct ck_emu_module *module;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	module = ck_emu_object_get(handle, CK_EMU_MODULE);
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	ck_lock(&references_lock);
	result = reference_find(module, name, surface, &ref);
	ck_unlock(&references_lock);
	if (result == CUDA_SUCCESS)
		*out = ref;
	ck_emu_object_put(&module->base);
	return result;
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	return module_reference((void **)pTexRef, hmod, name, false);
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	return module_reference((void **)pSurfRef, hmod, name, true);
}

CUresult ck_emu_reference_begin(const void *handle, bool surface, bool complete,
				struct ck_emu_reference **ref)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!complete)
		return CUDA_ERROR_INVALID_VALUE;
	*ref = ck_emu_object_get(handle, surface ? CK_EMU_SURFREF : CK_EMU_TEXREF);
	if (!*ref)
		return CUDA_ERROR_INVALID_HANDLE;
	ck_lock(&references_lock);
	return CUDA_SUCCESS;
}

CUresult ck_emu_reference_end(struct ck_emu_reference *ref, CUresult result)
{
	ck_unlock(&references_lock);
	ck_emu_object_put(&ref->base);
	return result;
}

/* It may be that the object cannot be made until another setting has changed as well. */
CUresult ck_emu_reference_changed(struct ck_emu_reference *ref)
{
	rebind_reference(ref);
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

/* Bind to @resource. On failure the reference is unbound. */
static CUresult bind_resource(struct ck_emu_reference *ref, const CUDA_RESOURCE_DESC *resource)
{
	CUresult result;

	ref->resource = *resource;
	ref->bound = true;
	result = rebind_reference(ref);
	if (result != CUDA_SUCCESS)
		ref->bound = false;
	return ck_emu_reference_end(ref, result);
}

CUresult cuTexRefCreate(CUtexref *pTexRef)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_reference *ref;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pTexRef)
		return CUDA_ERROR_INVALID_VALUE;
	ref = reference_new(context, false);
	if (!ref)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = ck_emu_object_publish(&ref->base);
	if (result != CUDA_SUCCESS)
		ck_emu_object_put(&ref->base);
	else
		*pTexRef = (CUtexref)ref;
	return result;
}

CUresult cuTexRefDestroy(CUtexref hTexRef)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	/* a module's goes with the module */
	if (ref->base.owner)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	current_drop(ref);
	if (ck_emu_object_retract(&ref->base))
		ck_emu_object_put(&ref->base);
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

/* Bound by its name in the module: there is nothing left to do. */
CUresult cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef)
{
	struct ck_emu_function *function = ck_emu_object_get(hfunc, CK_EMU_FUNCTION);
	struct ck_emu_reference *ref;
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	ck_emu_object_put(&function->base);
	result = ck_emu_reference_begin(hTexRef, false, true, &ref);
	if (result != CUDA_SUCCESS)
		return result;
	if (texunit != CU_PARAM_TR_DEFAULT)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned int)CU_TRSA_OVERRIDE_FORMAT)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	resource.res.array.hArray = hArray;
	return bind_resource(ref, &resource);
}

CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
				   unsigned int Flags)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned int)CU_TRSA_OVERRIDE_FORMAT)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	resource.res.mipmap.hMipmappedArray = hMipmappedArray;
	return bind_resource(ref, &resource);
}

CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	resource.res.linear.devPtr = dptr;
	resource.res.linear.sizeInBytes = bytes;
	resource.res.linear.format = ref->format;
	resource.res.linear.numChannels = (unsigned int)ref->channels;
	result = bind_resource(ref, &resource);
	if (result == CUDA_SUCCESS && ByteOffset)
		*ByteOffset = 0;
	return result;
}

CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
				 CUdeviceptr dptr, size_t Pitch)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, desc != NULL, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	resource.res.pitch2D.devPtr = dptr;
	resource.res.pitch2D.format = desc->Format;
	resource.res.pitch2D.numChannels = desc->NumChannels;
	resource.res.pitch2D.width = desc->Width;
	resource.res.pitch2D.height = desc->Height;
	resource.res.pitch2D.pitchInBytes = Pitch;
	return bind_resource(ref, &resource);
}

CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hSurfRef, true, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	resource.res.array.hArray = hArray;
	return bind_resource(ref, &resource);
}
