/*
 * client/modules/texref.c - texture and surface references, named in a module.
 */
#include "client/memory/array.h"
#include "client/wire/client.h"

/* Check the arguments of a call that looks up a name in a module. */
static CUresult enter_module(CUmodule handle, const void *output, const char *name, uint64_t *ctx,
			     struct ckc_module **module, uint64_t *id)
{
	CUresult err = ckc_enter(ctx);

	if (err)
		return err;
	if (!output || !name)
		return CUDA_ERROR_INVALID_VALUE;
	*module = ckc_object_check(handle, CK_OBJECT_MODULE);
	return ckc_module_id(handle, id);
}

CK_EXPORT CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	struct ckc_module *module;
	uint64_t ctx, id, told = 0;
	CUresult err = enter_module(hmod, pTexRef, name, &ctx, &module, &id);

	if (!err)
		err = ck_wire_cuModuleGetTexRef(ctx, &told, id, name);
	if (err)
		return err;
	*pTexRef = ckc_inmate_named(CK_OBJECT_TEXREF, told, &module->object);
	return *pTexRef ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CK_EXPORT CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	struct ckc_module *module;
	uint64_t ctx, id, told = 0;
	CUresult err = enter_module(hmod, pSurfRef, name, &ctx, &module, &id);

	if (!err)
		err = ck_wire_cuModuleGetSurfRef(ctx, &told, id, name);
	if (err)
		return err;
	*pSurfRef = ckc_inmate_named(CK_OBJECT_SURFREF, told, &module->object);
	return *pSurfRef ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
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
