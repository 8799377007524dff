/*
 * client/modules/texref.c - texture and surface references, named in a module.
 */
#include "client/memory/array.h"
#include "client/link/client.h"

/* Look up a reference of @kind in a module; @ask queries the server. */
static CUresult
find_reference(enum ckc_object_kind kind, CUmodule handle, const char *name, void **out,
	       CUresult (*ask)(uint64_t ctx, uint64_t *told, uint64_t module, const char *name))
{
	struct ckc_object *module;
	uint64_t ctx, id, told = 0;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!out || !name)
		return CUDA_ERROR_INVALID_VALUE;
	module = ckc_object_check(handle, CK_OBJECT_MODULE);
	err = ckc_module_id(handle, &id);
	if (!err)
		err = ask(ctx, &told, id, name);
	if (err)
		return err;
	*out = ckc_inmate_named(kind, told, module);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CK_EXPORT CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	return find_reference(CK_OBJECT_TEXREF, hmod, name, (void **)pTexRef,
			      ck_wire_cuModuleGetTexRef);
}

CK_EXPORT CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	return find_reference(CK_OBJECT_SURFREF, hmod, name, (void **)pSurfRef,
			      ck_wire_cuModuleGetSurfRef);
}

/* @ByteOffset may be NULL, if the program knows that it is 0. */
CK_EXPORT CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr,
					 size_t bytes)
{
	size_t offset = 0;
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_texref_id(hTexRef, &id);
	if (!err)
		err = ck_wire_cuTexRefSetAddress_v2(ctx, &offset, id, dptr, bytes);
	if (!err && ByteOffset)
		*ByteOffset = offset;
	return err;
}

CK_EXPORT CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (!err && !pBorderColor)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ckc_texref_id(hTexRef, &id);
	return err ? err
		   : ck_wire_border_set(ctx, id, pBorderColor[0], pBorderColor[1], pBorderColor[2],
					pBorderColor[3]);
}

CK_EXPORT CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (!err && !pBorderColor)
		err = CUDA_ERROR_INVALID_VALUE;
	if (!err)
		err = ckc_texref_id(hTexRef, &id);
	return err ? err
		   : ck_wire_border_get(ctx, id, &pBorderColor[0], &pBorderColor[1],
					&pBorderColor[2], &pBorderColor[3]);
}
