/*
 * emu/copy/copy_nd.c - copies of two and three dimensions, between linear memory and arrays.
 */
#include "cuda/copy_side.h"
#include "emu/copy/box.h"
#include "emu/core/hooks.h"
#include "emu/memory/texture.h"

/* One end of a copy as its caller describes it. */
struct end {
	CUmemorytype type;
	uint64_t host, device;
	CUarray array;
	size_t x, y, z;	      /* in bytes, rows, slices */
	size_t pitch, height; /* of the surrounding memory: bytes, rows */
};

static bool range_fits(size_t at, size_t count, size_t extent)
{
	return count <= extent && at <= extent - count;
}

/* Address and steps of an array, whose elements are copied whole and whose extents are kept to. */
static CUresult array_resolve(const struct end *end, const struct ck_emu_box *box,
			      uint64_t *address, size_t *pitch, size_t *slice)
{
	struct ck_emu_array *array = ck_emu_array_get(end->array);
	const struct ck_ptx_image *m;
	CUresult result = CUDA_SUCCESS;

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	m = &array->image;
	if (end->x % array->texel || box->width % array->texel ||
	    !range_fits(end->x, box->width, (size_t)m->size[0] * array->texel) ||
	    !range_fits(end->y, box->height, m->size[1]) ||
	    !range_fits(end->z, box->depth, m->size[2]))
		result = CUDA_ERROR_INVALID_VALUE;
	*address = m->base + end->z * m->slice + end->y * m->pitch + end->x;
	*pitch = m->pitch;
	*slice = m->slice;
	/* destroying the array waits for the copy */
	ck_emu_object_put(&array->base);
	return result;
}

/* Address and steps of an end. */
static CUresult end_resolve(const struct end *end, const struct ck_emu_box *box,
			    enum ck_emu_side *side, uint64_t *address, size_t *pitch, size_t *slice)
{
	size_t rows, offset, width;

	if (end->type == CU_MEMORYTYPE_ARRAY) {
		*side = CK_EMU_SIDE_ARRAY;
		return array_resolve(end, box, address, pitch, slice);
	}
	if (end->type != CU_MEMORYTYPE_HOST && end->type != CU_MEMORYTYPE_DEVICE &&
	    end->type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	/* a pitch of 0 means rows back to back, as does a height of 0 for slices */
	if (ck_add_overflow(end->x, box->width, &width))
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = end->pitch ? end->pitch : width;
	rows = end->height ? end->height : end->y + box->height;
	if ((box->height > 1 || box->depth > 1) && *pitch < width)
		return CUDA_ERROR_INVALID_VALUE;
	if (box->depth > 1 && (rows < box->height || rows - box->height < end->y))
		return CUDA_ERROR_INVALID_VALUE;
	if (ck_mul_overflow(*pitch, rows, slice) || ck_mul_overflow(*slice, end->z, &offset) ||
	    ck_mul_overflow(*pitch, end->y, &rows) || ck_add_overflow(offset, rows, &offset) ||
	    ck_add_overflow(offset, end->x, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	*side = end->type == CU_MEMORYTYPE_HOST	    ? CK_EMU_SIDE_HOST
		: end->type == CU_MEMORYTYPE_DEVICE ? CK_EMU_SIDE_DEVICE
						    : CK_EMU_SIDE_ANY;
	*address = *side == CK_EMU_SIDE_HOST ? end->host : end->device;
	if (!*address || ck_add_overflow(*address, offset, address))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult copy_box(const struct end *dst, const struct end *src, struct ck_emu_box *box,
			 CUstream stream, bool sync)
{
	enum ck_emu_side dst_side, src_side;
	CUresult result;

	if (!box->width || !box->height || !box->depth)
		return CUDA_SUCCESS;
	result = end_resolve(dst, box, &dst_side, &box->dst, &box->dst_pitch, &box->dst_slice);
	if (result == CUDA_SUCCESS)
		result = end_resolve(src, box, &src_side, &box->src, &box->src_pitch,
				     &box->src_slice);
	if (result != CUDA_SUCCESS)
		return result;
	return ck_emu_box_copy(box, dst_side, src_side, stream, sync);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool sync)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;

	struct end src = {.type = c->srcMemoryType,
			  .host = (uint64_t)c->srcHost,
			  .device = c->srcDevice,
			  .array = c->srcArray,
			  .x = c->srcXInBytes,
			  .y = c->srcY,
			  .pitch = c->srcPitch};
	struct end dst = {.type = c->dstMemoryType,
			  .host = (uint64_t)c->dstHost,
			  .device = c->dstDevice,
			  .array = c->dstArray,
			  .x = c->dstXInBytes,
			  .y = c->dstY,
			  .pitch = c->dstPitch};
	struct ck_emu_box box = {.width = c->WidthInBytes, .height = c->Height, .depth = 1};

	return copy_box(&dst, &src, &box, stream, sync);
}

static struct end end_of(const CUDA_MEMCPY3D *c, enum ck_copy_end which)
{
	const struct ck_copy_side s = ck_copy_side(c, which);

	return (struct end){.type = s.type,
			    .host = (uint64_t)s.host,
			    .device = s.device,
			    .array = s.array,
			    .x = s.x,
			    .y = s.y,
			    .z = s.z,
			    .pitch = s.pitch,
			    .height = s.height};
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool sync, bool peer)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!c || c->reserved0 || c->reserved1 || c->srcLOD || c->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;

	const struct end src = end_of(c, CK_COPY_SOURCE), dst = end_of(c, CK_COPY_DESTINATION);
	struct ck_emu_box box = {
		.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth, .peer = peer};

	return copy_box(&dst, &src, &box, stream, sync);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, NULL, true);
}

/* The same copy as one of three dimensions. */
static CUDA_MEMCPY3D convert_2d_to_3d(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
			       .srcY = c->srcY,
			       .srcMemoryType = c->srcMemoryType,
			       .srcHost = c->srcHost,
			       .srcDevice = c->srcDevice,
			       .srcArray = c->srcArray,
			       .srcPitch = c->srcPitch,
			       .dstXInBytes = c->dstXInBytes,
			       .dstY = c->dstY,
			       .dstMemoryType = c->dstMemoryType,
			       .dstHost = c->dstHost,
			       .dstDevice = c->dstDevice,
			       .dstArray = c->dstArray,
			       .dstPitch = c->dstPitch,
			       .WidthInBytes = c->WidthInBytes,
			       .Height = c->Height,
			       .Depth = 1};
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D node = pCopy ? convert_2d_to_3d(pCopy) : (CUDA_MEMCPY3D){0};
	CUresult result;

	if (pCopy && ck_emu_hooks->capture_copy(hStream, &node, &result))
		return result;
	return copy_2d(pCopy, hStream, false);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	return copy_3d(pCopy, NULL, true, false);
}

CUresult ck_emu_copy_peer(const CUDA_MEMCPY3D *c, CUstream stream, bool sync)
{
	CUresult result;

	if (!sync && ck_emu_hooks->capture_copy(stream, c, &result))
		return result;
	return copy_3d(c, stream, sync, true);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	CUresult result;

	if (pCopy && ck_emu_hooks->capture_copy(hStream, pCopy, &result))
		return result;
	return copy_3d(pCopy, hStream, false, false);
}

/* --- runs of bytes in the first row of an array, as 1D arrays have it */

#define ROW(size) .WidthInBytes = (size), .Height = 1, .Depth = 1
#define FROM_ARRAY(array, at)                                                                      \
	.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = (array), .srcXInBytes = (at)
#define TO_ARRAY(array, at)                                                                        \
	.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = (array), .dstXInBytes = (at)

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
			 size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 TO_ARRAY(dstArray, dstOffset)};

	return cuMemcpy3D_v2(&c);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
			 size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dstDevice};

	return cuMemcpy3D_v2(&c);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
			 size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), TO_ARRAY(dstArray, dstOffset),
				 .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = srcDevice};

	return cuMemcpy3D_v2(&c);
}

CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = dstHost};

	return cuMemcpy3D_v2(&c);
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
			      CUstream hStream)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), FROM_ARRAY(srcArray, srcOffset),
				 .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = dstHost};

	return cuMemcpy3DAsync_v2(&c, hStream);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), TO_ARRAY(dstArray, dstOffset),
				 .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = srcHost};

	return cuMemcpy3D_v2(&c);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
			      size_t ByteCount, CUstream hStream)
{
	const CUDA_MEMCPY3D c = {ROW(ByteCount), TO_ARRAY(dstArray, dstOffset),
				 .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = srcHost};

	return cuMemcpy3DAsync_v2(&c, hStream);
}
