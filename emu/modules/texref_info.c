/*
 * emu/modules/texref_info.c - the settings of references, and their bindings.
 */
#include <string.h>

#include "emu/modules/texref.h"

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (NumPackedComponents < 0 || !ck_emu_texel_bytes(fmt, (unsigned int)NumPackedComponents))
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	ref->format = fmt;
	ref->channels = NumPackedComponents;
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (dim < 0 || dim > 2 || (unsigned int)am > CU_TR_ADDRESS_MODE_BORDER)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	ref->desc.addressMode[dim] = am;
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)fm > CU_TR_FILTER_MODE_LINEAR)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	ref->desc.filterMode = fm;
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)fm > CU_TR_FILTER_MODE_LINEAR)
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	ref->desc.mipmapFilterMode = fm;
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	ref->desc.mipmapLevelBias = bias;
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
				     float maxMipmapLevelClamp)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	ref->desc.minMipmapLevelClamp = minMipmapLevelClamp;
	ref->desc.maxMipmapLevelClamp = maxMipmapLevelClamp;
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	ref->desc.maxAnisotropy = ck_max(1u, ck_min(maxAniso, 16u));
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, pBorderColor != NULL, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(ref->desc.borderColor, pBorderColor, sizeof(ref->desc.borderColor));
	return ck_emu_reference_changed(ref);
}

CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, true, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~(unsigned int)(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
				    CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION))
		return ck_emu_reference_end(ref, CUDA_ERROR_INVALID_VALUE);
	ref->desc.flags = Flags;
	return ck_emu_reference_changed(ref);
}

/* The resource of a reference, if it is of @type: else INVALID_VALUE. */
static CUresult get_bound_resource(const void *handle, bool surface, const void *output,
				   CUresourcetype type, CUDA_RESOURCE_DESC *resource)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(handle, surface, output != NULL, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	*resource = ref->resource;
	return ck_emu_reference_end(ref, ref->bound && resource->resType == type
						 ? CUDA_SUCCESS
						 : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result =
		get_bound_resource(hSurfRef, true, phArray, CU_RESOURCE_TYPE_ARRAY, &resource);

	if (result == CUDA_SUCCESS)
		*phArray = resource.res.array.hArray;
	return result;
}

CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result =
		get_bound_resource(hTexRef, false, phArray, CU_RESOURCE_TYPE_ARRAY, &resource);

	if (result == CUDA_SUCCESS)
		*phArray = resource.res.array.hArray;
	return result;
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result = get_bound_resource(hTexRef, false, phMipmappedArray,
					     CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, &resource);

	if (result == CUDA_SUCCESS)
		*phMipmappedArray = resource.res.mipmap.hMipmappedArray;
	return result;
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result =
		get_bound_resource(hTexRef, false, pdptr, CU_RESOURCE_TYPE_LINEAR, &resource);

	if (result == CUDA_ERROR_INVALID_VALUE)
		result = get_bound_resource(hTexRef, false, pdptr, CU_RESOURCE_TYPE_PITCH2D,
					    &resource);
	if (result == CUDA_SUCCESS)
		*pdptr = resource.resType == CU_RESOURCE_TYPE_LINEAR ? resource.res.linear.devPtr
								     : resource.res.pitch2D.devPtr;
	return result;
}

/* The settings of a reference. */
static CUresult get_texture_desc(CUtexref handle, const void *output, CUDA_TEXTURE_DESC *desc)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(handle, false, output != NULL, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	*desc = ref->desc;
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pam, &desc);

	if (result == CUDA_SUCCESS && (dim < 0 || dim > 2))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*pam = desc.addressMode[dim];
	return result;
}

CUresult cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pfm, &desc);

	if (result == CUDA_SUCCESS)
		*pfm = desc.filterMode;
	return result;
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pfm, &desc);

	if (result == CUDA_SUCCESS)
		*pfm = desc.mipmapFilterMode;
	return result;
}

CUresult cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pbias, &desc);

	if (result == CUDA_SUCCESS)
		*pbias = desc.mipmapLevelBias;
	return result;
}

CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
				     CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pminMipmapLevelClamp, &desc);

	if (result == CUDA_SUCCESS && !pmaxMipmapLevelClamp)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		*pminMipmapLevelClamp = desc.minMipmapLevelClamp;
		*pmaxMipmapLevelClamp = desc.maxMipmapLevelClamp;
	}
	return result;
}

CUresult cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pmaxAniso, &desc);

	if (result == CUDA_SUCCESS)
		*pmaxAniso = (int)desc.maxAnisotropy;
	return result;
}

CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pBorderColor, &desc);

	if (result == CUDA_SUCCESS)
		memcpy(pBorderColor, desc.borderColor, sizeof(desc.borderColor));
	return result;
}

CUresult cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef)
{
	CUDA_TEXTURE_DESC desc;
	CUresult result = get_texture_desc(hTexRef, pFlags, &desc);

	if (result == CUDA_SUCCESS)
		*pFlags = desc.flags;
	return result;
}

CUresult cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
	struct ck_emu_reference *ref;
	CUresult result = ck_emu_reference_begin(hTexRef, false, pFormat && pNumChannels, &ref);

	if (result != CUDA_SUCCESS)
		return result;
	*pFormat = ref->format;
	*pNumChannels = ref->channels;
	return ck_emu_reference_end(ref, CUDA_SUCCESS);
}
