/*
 * client/memory/tensor_map.c - tensor descriptors for the copy engine of the multiprocessors. The
 * server's driver encodes them; the application keeps the 128 bytes.
 *
 * A descriptor depends on its arguments and on nothing else. Programs encode the same ones before
 * each launch, so those that have been encoded are kept.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/memory/state.h"
#include "util/hash.h"

#define RANK_MAX 5
#define CORNERS_MAX (RANK_MAX - 2)
#define SETS 1024 /* of descriptors that are kept, with so many each: 1.3 MB */
#define WAYS 4

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

static size_t count_corners(const struct form *f)
{
	return f->kind == IM2COL ? f->rank - 2 : f->kind == IM2COL_WIDE ? 1 : 0;
}

/* --- descriptors that are kept */

/* All that a descriptor depends on. Without gaps, so that keys are compared as bytes. */
struct key {
	uint64_t ctx; /* its GPU determines the format; 0: not in use */
	uint64_t address, dims[RANK_MAX], strides[RANK_MAX - 1];
	uint32_t box[RANK_MAX], steps[RANK_MAX];
	int32_t lower[CORNERS_MAX], upper[CORNERS_MAX];
	uint32_t kind, type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
};

struct ckc_tensor_map {
	struct key key;
	unsigned char bytes[sizeof(CUtensorMap)];
};

static void copy_array(void *to, const void *from, size_t size)
{
	if (size > 0)
		memcpy(to, from, size);
}

static struct key key_of(uint64_t ctx, const struct form *f)
{
	size_t corners = count_corners(f) * sizeof(int);
	struct key key = {
		.ctx = ctx,
		.address = (uintptr_t)f->address,
		.kind = f->kind,
		.type = f->type,
		.rank = f->rank,
		.channels = f->channels,
		.pixels = f->pixels,
		.interleave = f->interleave,
		.mode = f->mode,
		.swizzle = f->swizzle,
		.promotion = f->promotion,
		.fill = f->fill,
	};

	copy_array(key.dims, f->dims, f->rank * sizeof(*f->dims));
	copy_array(key.strides, f->strides, (f->rank - 1) * sizeof(*f->strides));
	copy_array(key.box, f->box, f->kind == TILED ? f->rank * sizeof(*f->box) : 0);
	copy_array(key.steps, f->steps, f->rank * sizeof(*f->steps));
	copy_array(key.lower, f->lower, corners);
	copy_array(key.upper, f->upper, corners);
	return key;
}

/* The place of @key in its set, or NULL. Call with the lock held. */
static struct ckc_tensor_map *find_map(const struct ckc_tensor_maps *all, const struct key *key,
				       size_t *set)
{
	*set = ck_hash_key(key, sizeof(*key)) % SETS * WAYS;
	for (size_t i = 0; all->known && i < WAYS; i++) {
		if (memcmp(&all->known[*set + i].key, key, sizeof(*key)) == 0)
			return &all->known[*set + i];
	}
	return NULL;
}

static bool recall_map(struct ckc_tensor_maps *all, const struct key *key, CUtensorMap *map)
{
	struct ckc_tensor_map *known;
	size_t set;

	ck_lock(&all->lock);
	known = find_map(all, key, &set);
	if (known)
		memcpy((void *)map, known->bytes, sizeof(*map));
	ck_unlock(&all->lock);
	return known != NULL;
}

static void keep_map(struct ckc_tensor_maps *all, const struct key *key, const CUtensorMap *map)
{
	struct ckc_tensor_map *known;
	size_t set;

	ck_lock(&all->lock);
	if (!all->known)
		all->known = calloc((size_t)SETS * WAYS, sizeof(*all->known));
	known = find_map(all, key, &set);
	if (!known && all->known)
		known = &all->known[set + all->turn++ % WAYS];
	if (known) {
		known->key = *key;
		memcpy(known->bytes, (const void *)map, sizeof(*map));
	}
	ck_unlock(&all->lock);
}

/* --- encoding */

static CUresult ask_server(uint64_t ctx, CUtensorMap *map, const struct form *f)
{
	size_t corners = count_corners(f);
	ck_tensor_map_res r;
	CUresult err = ck_wire_tensor_map(
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

static CUresult encode_map(CUtensorMap *map, const struct form *f)
{
	struct ckc_tensor_maps *all;
	struct key key;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!map || !form_valid(f))
		return CUDA_ERROR_INVALID_VALUE;
	all = &ckc_client_current()->memory->tensor_maps;
	key = key_of(ctx, f);
	if (recall_map(all, &key, map))
		return CUDA_SUCCESS;
	err = ask_server(ctx, map, f);
	if (!err)
		keep_map(all, &key, map);
	return err;
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
