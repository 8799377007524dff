/*
 * server/memory/tensor_map.c - tensor descriptors. The driver reads as many elements as the rank
 * says, so their number is checked.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"

#define CK_RANK_MAX 5

/* Arrays copied from the message, where they are unaligned. */
struct arrays {
	cuuint64_t dims[CK_RANK_MAX], strides[CK_RANK_MAX];
	cuuint32_t box[CK_RANK_MAX], steps[CK_RANK_MAX];
	int lower[CK_RANK_MAX], upper[CK_RANK_MAX];
};

/* Copy exactly @count elements of @size bytes. */
static bool copy_elements(void *to, size_t size, size_t count, const void *bytes, u_int length)
{
	if (length != size * count)
		return false;
	if (length > 0)
		memcpy(to, bytes, length);
	return true;
}

static bool arrays_take(struct arrays *t, const ck_tensor_map_args *a)
{
	static const unsigned int least[] = {1, 3, 3};
	size_t corners, rank = a->rank;

	if (a->kind > 2 || rank < least[a->kind] || rank > CK_RANK_MAX)
		return false;
	corners = a->kind == 1 ? rank - 2 : a->kind == 2 ? 1 : 0;
	return copy_elements(t->dims, 8, rank, a->dims.dims_val, a->dims.dims_len) &&
	       copy_elements(t->strides, 8, rank - 1, a->strides.strides_val,
			     a->strides.strides_len) &&
	       copy_elements(t->box, 4, a->kind ? 0 : rank, a->box.box_val, a->box.box_len) &&
	       copy_elements(t->steps, 4, rank, a->steps.steps_val, a->steps.steps_len) &&
	       copy_elements(t->lower, 4, corners, a->lower.lower_val, a->lower.lower_len) &&
	       copy_elements(t->upper, 4, corners, a->upper.upper_val, a->upper.upper_len);
}

static CUresult encode_map(CUtensorMap *map, const ck_tensor_map_args *a, const struct arrays *t)
{
	void *address = (void *)(uintptr_t)a->address;
	CUtensorMapDataType type = (CUtensorMapDataType)a->type;
	CUtensorMapInterleave interleave = (CUtensorMapInterleave)a->interleave;
	CUtensorMapSwizzle swizzle = (CUtensorMapSwizzle)a->swizzle;
	CUtensorMapL2promotion promotion = (CUtensorMapL2promotion)a->promotion;
	CUtensorMapFloatOOBfill fill = (CUtensorMapFloatOOBfill)a->fill;

	if (a->kind == 0 && ck_driver.cuTensorMapEncodeTiled)
		return ck_driver.cuTensorMapEncodeTiled(map, type, a->rank, address, t->dims,
							t->strides, t->box, t->steps, interleave,
							swizzle, promotion, fill);
	if (a->kind == 1 && ck_driver.cuTensorMapEncodeIm2col)
		return ck_driver.cuTensorMapEncodeIm2col(
			map, type, a->rank, address, t->dims, t->strides, t->lower, t->upper,
			a->channels, a->pixels, t->steps, interleave, swizzle, promotion, fill);
	if (a->kind == 2 && ck_driver.cuTensorMapEncodeIm2colWide)
		return ck_driver.cuTensorMapEncodeIm2colWide(
			map, type, a->rank, address, t->dims, t->strides, t->lower[0], t->upper[0],
			a->channels, a->pixels, t->steps, interleave,
			(CUtensorMapIm2ColWideMode)a->mode, swizzle, promotion, fill);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Copy @map to a reply. */
static CUresult copy_map(const CUtensorMap *map, char **bytes, u_int *size)
{
	*bytes = malloc(sizeof(*map));
	if (!*bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(*bytes, map, sizeof(*map));
	*size = sizeof(*map);
	return CUDA_SUCCESS;
}

CUresult ck_serve_tensor_map(struct cks_request *q, ck_tensor_map_args *a, ck_tensor_map_res *res)
{
	struct arrays arrays = {0};
	CUtensorMap map;
	CUresult err;

	(void)q;
	if (!arrays_take(&arrays, a))
		return CUDA_ERROR_INVALID_VALUE;
	memset(&map, 0, sizeof(map));
	err = encode_map(&map, a, &arrays);
	return err ? err : copy_map(&map, &res->map.map_val, &res->map.map_len);
}

CUresult ck_serve_tensor_map_address(struct cks_request *q, ck_tensor_map_address_args *a,
				     ck_tensor_map_address_res *res)
{
	CUtensorMap map;
	CUresult err;

	(void)q;
	if (!ck_driver.cuTensorMapReplaceAddress)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (a->map.map_len != sizeof(map))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&map, a->map.map_val, sizeof(map));
	err = ck_driver.cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)a->address);
	return err ? err : copy_map(&map, &res->changed.changed_val, &res->changed.changed_len);
}

CUresult ck_serve_tensor_map_class(struct cks_request *q, ck_tensor_map_class_args *a,
				   ck_tensor_map_class_res *res)
{
	CUtensorMapAllocClass effective = CU_TENSOR_MAP_ALLOC_CLASS_SMALL;
	CUtensorMap map;
	CUresult err;

	(void)q;
	if (!ck_driver.cuTensorMapSetAllocationClass)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (a->map.map_len != sizeof(map))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&map, a->map.map_val, sizeof(map));
	err = ck_driver.cuTensorMapSetAllocationClass(&map, (CUtensorMapAllocClass)a->wanted,
						      &effective);
	res->effective = effective;
	return err ? err : copy_map(&map, &res->changed.changed_val, &res->changed.changed_len);
}
