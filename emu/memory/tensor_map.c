/*
 * emu/memory/tensor_map.c - descriptors of tensors: arguments are checked as CUDA documents it, and
 * kept in an encoding of our own. No kernel here can use one yet.
 */
#include <string.h>

#include "emu/core/emu.h"

#define MAGIC 0x31706d54u
#define RANK_MAX 5
#define ELEMENT_STRIDE_MAX 8
#define BOX_MAX 256
#define STRIDE_END ((uint64_t)1 << 40)
#define DIM_MAX ((uint64_t)1 << 32)

/* The layout of the opaque 128 bytes. */
struct map {
	uint64_t address;
	uint32_t magic;
	uint8_t kind, type, rank, interleave, swizzle, promotion, fill, mode;
	uint32_t dims[RANK_MAX];	/* less one */
	uint32_t strides[RANK_MAX - 1]; /* in units of 16 bytes */
	uint16_t box[RANK_MAX];		/* or channels and pixels */
	int16_t lower[RANK_MAX - 2], upper[RANK_MAX - 2];
	uint8_t steps[RANK_MAX];
};

_Static_assert(sizeof(struct map) <= sizeof(CUtensorMap), "a map has outgrown its place");

static const uint8_t element_size[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

static bool is_float(CUtensorMapDataType type)
{
	return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 &&
	       type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

/* Checks of all forms; the packed types are of later GPUs than ours. */
static bool common_put(struct map *m, CUtensorMapDataType type, cuuint32_t rank, void *address,
		       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
		       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	uint64_t align = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;

	if ((unsigned int)type >= sizeof(element_size) || rank == 0 || rank > RANK_MAX ||
	    (unsigned int)interleave > CU_TENSOR_MAP_INTERLEAVE_32B ||
	    (unsigned int)swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
	    (unsigned int)promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
	    (unsigned int)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
		return false;
	if (!address || (uintptr_t)address % align || (fill && !is_float(type)) ||
	    (interleave && rank < 3) ||
	    (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B))
		return false;
	*m = (struct map){
		.address = (uintptr_t)address,
		.magic = MAGIC,
		.type = (uint8_t)type,
		.rank = (uint8_t)rank,
		.interleave = (uint8_t)interleave,
		.swizzle = (uint8_t)swizzle,
		.promotion = (uint8_t)promotion,
		.fill = (uint8_t)fill,
	};
	return true;
}

static bool sizes_put(struct map *m, const cuuint64_t *dims, const cuuint64_t *strides,
		      const cuuint32_t *steps)
{
	uint64_t unit = m->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;

	if (!dims || !steps || (!strides && m->rank > 1))
		return false;
	for (unsigned int i = 0; i < m->rank; i++) {
		if (dims[i] == 0 || dims[i] > DIM_MAX)
			return false;
		if ((i > 0 || m->interleave) && (steps[i] == 0 || steps[i] > ELEMENT_STRIDE_MAX))
			return false;
		m->dims[i] = (uint32_t)(dims[i] - 1);
		m->steps[i] = (uint8_t)steps[i];
	}
	for (unsigned int i = 0; i + 1 < m->rank; i++) {
		if (strides[i] % unit || strides[i] >= STRIDE_END)
			return false;
		m->strides[i] = (uint32_t)(strides[i] / 16);
	}
	return true;
}

/* The inner side of a box in bytes: whole units, and no wider than the swizzle. */
static bool inner_valid(const struct map *m, uint64_t elements)
{
	uint64_t bytes = elements * element_size[m->type];

	if (m->interleave)
		return true;
	return bytes % 16 == 0 && (!m->swizzle || bytes <= (uint64_t)16 << m->swizzle);
}

static CUresult store_tensor_map(CUtensorMap *out, const struct map *m)
{
	memset(out, 0, sizeof(*out));
	memcpy(out, m, sizeof(*m));
	return CUDA_SUCCESS;
}

static bool place_valid(const CUtensorMap *map)
{
	return map && (uintptr_t)map % 64 == 0;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				cuuint32_t tensorRank, void *globalAddress,
				const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
				CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
				CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	CUresult result = ck_emu_enter_bare();
	struct map m;

	if (result != CUDA_SUCCESS)
		return result;
	if (!place_valid(tensorMap) || !boxDim ||
	    !common_put(&m, tensorDataType, tensorRank, globalAddress, interleave, swizzle,
			l2Promotion, oobFill) ||
	    !sizes_put(&m, globalDim, globalStrides, elementStrides) || !inner_valid(&m, boxDim[0]))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < tensorRank; i++) {
		if (boxDim[i] == 0 || boxDim[i] > BOX_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		m.box[i] = (uint16_t)boxDim[i];
	}
	return store_tensor_map(tensorMap, &m);
}

/* Corners: how far they may go depends on how many there are. */
static bool corners_put(struct map *m, const int *lower, const int *upper, unsigned int count)
{
	int limit = 1 << (16 / count - 1);

	for (unsigned int i = 0; i < count; i++) {
		if (lower[i] < -limit || lower[i] >= limit || upper[i] < -limit ||
		    upper[i] >= limit)
			return false;
		m->lower[i] = (int16_t)lower[i];
		m->upper[i] = (int16_t)upper[i];
	}
	return true;
}

static bool columns_put(struct map *m, cuuint32_t channels, cuuint32_t pixels)
{
	if (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024)
		return false;
	m->box[0] = (uint16_t)channels;
	m->box[1] = (uint16_t)pixels;
	return inner_valid(m, channels);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				 cuuint32_t tensorRank, void *globalAddress,
				 const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				 const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
				 cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
				 const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
				 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
				 CUtensorMapFloatOOBfill oobFill)
{
	CUresult result = ck_emu_enter_bare();
	struct map m;

	if (result != CUDA_SUCCESS)
		return result;
	if (!place_valid(tensorMap) || tensorRank < 3 || !pixelBoxLowerCorner ||
	    !pixelBoxUpperCorner ||
	    !common_put(&m, tensorDataType, tensorRank, globalAddress, interleave, swizzle,
			l2Promotion, oobFill) ||
	    !sizes_put(&m, globalDim, globalStrides, elementStrides) ||
	    !corners_put(&m, pixelBoxLowerCorner, pixelBoxUpperCorner, tensorRank - 2) ||
	    !columns_put(&m, channelsPerPixel, pixelsPerColumn))
		return CUDA_ERROR_INVALID_VALUE;
	m.kind = 1;
	return store_tensor_map(tensorMap, &m);
}

/* The wide form is of GPUs after ours. */
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
				     cuuint32_t tensorRank, void *globalAddress,
				     const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
				     int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
				     cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
				     const cuuint32_t *elementStrides,
				     CUtensorMapInterleave interleave,
				     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
				     CUtensorMapL2promotion l2Promotion,
				     CUtensorMapFloatOOBfill oobFill)
{
	CUresult result = ck_emu_enter_bare();
	struct map m;

	if (result != CUDA_SUCCESS)
		return result;
	if (!place_valid(tensorMap) || tensorRank < 3 || (unsigned int)mode > 1 ||
	    !common_put(&m, tensorDataType, tensorRank, globalAddress, interleave, swizzle,
			l2Promotion, oobFill) ||
	    !sizes_put(&m, globalDim, globalStrides, elementStrides) ||
	    !corners_put(&m, &pixelBoxLowerCornerWidth, &pixelBoxUpperCornerWidth, 1) ||
	    !columns_put(&m, channelsPerPixel, pixelsPerColumn))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	CUresult result = ck_emu_enter_bare();
	struct map m;

	if (result != CUDA_SUCCESS)
		return result;
	if (!place_valid(tensorMap))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&m, tensorMap, sizeof(m));
	if (m.magic != MAGIC || !globalAddress ||
	    (uintptr_t)globalAddress % (m.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16))
		return CUDA_ERROR_INVALID_VALUE;
	m.address = (uintptr_t)globalAddress;
	memcpy(tensorMap, &m, sizeof(m));
	return CUDA_SUCCESS;
}

/* The class changes nothing here, as on a GPU whose addresses do not depend on it. */
CUresult cuTensorMapSetAllocationClass(CUtensorMap *tensorMap, CUtensorMapAllocClass allocClass,
				       CUtensorMapAllocClass *outAllocClass)
{
	CUresult result = ck_emu_enter_bare();
	struct map m;

	if (outAllocClass)
		*outAllocClass = CU_TENSOR_MAP_ALLOC_CLASS_SMALL;
	if (result != CUDA_SUCCESS)
		return result;
	if (!place_valid(tensorMap) || (unsigned int)allocClass > CU_TENSOR_MAP_ALLOC_CLASS_LARGE)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&m, tensorMap, sizeof(m));
	return m.magic == MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
