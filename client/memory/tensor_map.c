/*
 * client/memory/tensor_map.c - tensor descriptors for the copy engine of the multiprocessors. The
 * server's driver encodes them; the application keeps the 128 bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"

#define RANK_MAX 5

enum kind { TILED, IM2COL, IM2COL_WIDE };

/* The arguments of all three forms. */
struct form {
	enum kind kind;
	CUtensorMapDataType type;
	cuuint32_t rank;
	void *address;
	const cuuint64_t *dims, *strides;
	const cuuint32_t *box, *steps;
	const int *lower, *upper;
	cuuint32_t channels, pixels;
	CUtensorMapInterleave interleave;
	CUtensorMapIm2ColWideMode mode;
	CUtensorMapSwizzle swizzle;
	CUtensorMapL2promotion promotion;
	CUtensorMapFloatOOBfill fill;
};

/* Take the 128 bytes from a reply. */
static CUresult receive_map(CUresult err, CUtensorMap *map, void *bytes, size_t size)
{
	if (!err && size != sizeof(*map))
		err = CUDA_ERROR_UNKNOWN;
	if (!err)
		memcpy((void *)map, bytes, size);
	free(bytes);
	return err;
}

/* Check the rank first: it determines how many elements the arrays have. */
static bool form_valid(const struct form *f)
{
	size_t least = f->kind == TILED ? 1 : 3;

	if (f->rank < least || f->rank > RANK_MAX || !f->dims || !f->steps)
		return false;
	if (!f->strides && f->rank > 1)
		return false;
	return f->kind == TILED ? f->box != NULL : f->lower && f->upper;
}

static CUresult encode_map(CUtensorMap *map, const struct form *f)
{
	size_t corners = f->kind == IM2COL ? f->rank - 2 : f->kind == IM2COL_WIDE ? 1 : 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);
	ck_tensor_map_res r;

	if (err)
		return err;
	if (!map || !form_valid(f))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_tensor_map(
		&(ck_tensor_map_args){
			.head.ctx = ctx,
			.kind = (u_int)f->kind,
			.type = (u_int)f->type,
			.rank = f->rank,
			.address = (uintptr_t)f->address,
			.dims = CK_LIST(f->dims, f->rank * sizeof(*f->dims)),
			.strides = CK_LIST(f->strides, (f->rank - 1) * sizeof(*f->strides)),
			.box = CK_LIST(f->box, f->kind == TILED ? f->rank * sizeof(*f->box) : 0),
			.lower = CK_LIST(f->lower, corners * sizeof(*f->lower)),
			.upper = CK_LIST(f->upper, corners * sizeof(*f->upper)),
			.channels = f->channels,
			.pixels = f->pixels,
			.steps = CK_LIST(f->steps, f->rank * sizeof(*f->steps)),
			.interleave = (u_int)f->interleave,
			.mode = (u_int)f->mode,
			.swizzle = (u_int)f->swizzle,
			.promotion = (u_int)f->promotion,
			.fill = (u_int)f->fill},
		&r);
	return receive_map(err, map, r.map.map_val, r.map.map_len);
}

CK_EXPORT CUresult cuTensorMapEncodeTiled(
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
	const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	const struct form f = {
		.kind = TILED,
		.type = tensorDataType,
		.rank = tensorRank,
		.address = globalAddress,
		.dims = globalDim,
		.strides = globalStrides,
		.box = boxDim,
		.steps = elementStrides,
		.interleave = interleave,
		.swizzle = swizzle,
		.promotion = l2Promotion,
		.fill = oobFill,
	};

	return encode_map(tensorMap, &f);
}

CK_EXPORT CUresult cuTensorMapEncodeIm2col(
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
	const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
	cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	const struct form f = {
		.kind = IM2COL,
		.type = tensorDataType,
		.rank = tensorRank,
		.address = globalAddress,
		.dims = globalDim,
		.strides = globalStrides,
		.lower = pixelBoxLowerCorner,
		.upper = pixelBoxUpperCorner,
		.channels = channelsPerPixel,
		.pixels = pixelsPerColumn,
		.steps = elementStrides,
		.interleave = interleave,
		.swizzle = swizzle,
		.promotion = l2Promotion,
		.fill = oobFill,
	};

	return encode_map(tensorMap, &f);
}

CK_EXPORT CUresult cuTensorMapEncodeIm2colWide(
	CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
	void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
	int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
	cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	const struct form f = {
		.kind = IM2COL_WIDE,
		.type = tensorDataType,
		.rank = tensorRank,
		.address = globalAddress,
		.dims = globalDim,
		.strides = globalStrides,
		.lower = &pixelBoxLowerCornerWidth,
		.upper = &pixelBoxUpperCornerWidth,
		.channels = channelsPerPixel,
		.pixels = pixelsPerColumn,
		.steps = elementStrides,
		.interleave = interleave,
		.mode = mode,
		.swizzle = swizzle,
		.promotion = l2Promotion,
		.fill = oobFill,
	};

	return encode_map(tensorMap, &f);
}

CK_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);
	void *bytes = NULL;
	size_t size = 0;

	if (err)
		return err;
	if (!tensorMap)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_tensor_map_address(ctx, tensorMap, sizeof(*tensorMap),
					 (uintptr_t)globalAddress, &bytes, &size);
	return receive_map(err, tensorMap, bytes, size);
}

CK_EXPORT CUresult cuTensorMapSetAllocationClass(CUtensorMap *tensorMap,
						 CUtensorMapAllocClass allocClass,
						 CUtensorMapAllocClass *outAllocClass)
{
	unsigned int effective = CU_TENSOR_MAP_ALLOC_CLASS_SMALL;
	void *bytes = NULL;
	size_t size = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (outAllocClass)
		*outAllocClass = CU_TENSOR_MAP_ALLOC_CLASS_SMALL;
	if (err)
		return err;
	if (!tensorMap)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_tensor_map_class(ctx, tensorMap, sizeof(*tensorMap), allocClass, &bytes,
				       &size, &effective);
	err = receive_map(err, tensorMap, bytes, size);
	if (!err && outAllocClass)
		*outAllocClass = (CUtensorMapAllocClass)effective;
	return err;
}
