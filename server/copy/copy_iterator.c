/*
 * server/copy/copy_iterator.c - cut copies into pieces; see copy_iterator.h.
 */
#include <string.h>

#include "gen/driver.h"
#include "server/copy/copy_iterator.h"
#include "server/copy/staging.h"
#include "util/util.h"

#define CK_PIECE_MIN (64u << 10)

void cks_copy_iterator_flat(struct cks_copy_iterator *walk, bool to_device, CUdeviceptr address,
			    size_t size)
{
	*walk = (struct cks_copy_iterator){
		.total = size, .flat = true, .to_device = to_device, .address = address};
}

/* Does the extent fit in rows of @pitch bytes and slices of @height rows? */
static bool extent_fits(size_t x, size_t y, size_t pitch, size_t height, const CUDA_MEMCPY3D *c)
{
	size_t end;

	if (ck_add_overflow(x, c->WidthInBytes, &end))
		return false;
	if ((c->Height > 1 || c->Depth > 1 || y > 0) && end > pitch)
		return false;
	if (ck_add_overflow(y, c->Height, &end))
		return false;
	return c->Depth <= 1 || end <= height;
}

CUresult cks_copy_iterator_box(struct cks_copy_iterator *walk, bool to_device,
			       const CUDA_MEMCPY3D *c)
{
	CUmemorytype type = to_device ? c->dstMemoryType : c->srcMemoryType;
	size_t total, lod = to_device ? c->dstLOD : c->srcLOD;

	if ((type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_ARRAY) || lod ||
	    ck_mul_overflow(c->WidthInBytes, c->Height, &total) ||
	    ck_mul_overflow(total, c->Depth, &total))
		return CUDA_ERROR_INVALID_VALUE;
	/* the driver checks the extents of an array */
	if (type == CU_MEMORYTYPE_DEVICE &&
	    (to_device ? !extent_fits(c->dstXInBytes, c->dstY, c->dstPitch, c->dstHeight, c)
		       : !extent_fits(c->srcXInBytes, c->srcY, c->srcPitch, c->srcHeight, c)))
		return CUDA_ERROR_INVALID_VALUE;
	*walk = (struct cks_copy_iterator){.total = total, .to_device = to_device, .shape = *c};
	return CUDA_SUCCESS;
}

/* The piece at (x, y, z): the longest run of packed bytes that is a box. */
static void box_piece(struct cks_copy_iterator *walk)
{
	const CUDA_MEMCPY3D *c = &walk->shape;
	size_t width = c->WidthInBytes;

	walk->w = walk->h = walk->d = 1;
	if (width > CK_PIECE_MAX) {
		walk->w = ck_min(width - walk->x, (size_t)CK_PIECE_MAX);
	} else if (c->Height > CK_PIECE_MAX / width) {
		walk->w = width;
		walk->h = ck_min(c->Height - walk->y, CK_PIECE_MAX / width);
	} else {
		walk->w = width;
		walk->h = c->Height;
		walk->d = ck_min(c->Depth - walk->z, CK_PIECE_MAX / (width * c->Height));
	}
	walk->piece = walk->w * walk->h * walk->d;
}

/* Move past the current piece: x first, then y, then z. */
static void box_advance(struct cks_copy_iterator *walk)
{
	walk->x += walk->w;
	if (walk->x < walk->shape.WidthInBytes)
		return;
	walk->x = 0;
	walk->y += walk->h;
	if (walk->y < walk->shape.Height)
		return;
	walk->y = 0;
	walk->z += walk->d;
}

/* A quarter of the copy, so that the device moves a piece while the next arrives; useful from 64
 * KiB on. */
static size_t flat_piece(const struct cks_copy_iterator *walk)
{
	size_t quarter = CK_ALIGN_UP(walk->total / 4, CK_PIECE_MIN);

	return ck_min(walk->total - walk->done,
		      ck_min(ck_max(quarter, (size_t)CK_PIECE_MIN), (size_t)CK_PIECE_MAX));
}

bool cks_copy_iterator_next(struct cks_copy_iterator *walk)
{
	if (walk->piece > 0 && !walk->flat)
		box_advance(walk);
	walk->done += walk->piece;
	walk->piece = 0;
	if (walk->done >= walk->total)
		return false;
	if (walk->flat)
		walk->piece = flat_piece(walk);
	else
		box_piece(walk);
	return true;
}

static CUresult box_copy(const struct cks_copy_iterator *walk, void *host, CUstream stream)
{
	const CUDA_MEMCPY3D *c = &walk->shape;
	CUDA_MEMCPY3D m = {
		.srcMemoryType = walk->to_device ? CU_MEMORYTYPE_HOST : c->srcMemoryType,
		.dstMemoryType = walk->to_device ? c->dstMemoryType : CU_MEMORYTYPE_HOST,
		.WidthInBytes = walk->w,
		.Height = walk->h,
		.Depth = walk->d,
	};

	if (!ck_driver.cuMemcpy3DAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (walk->to_device) {
		m.srcHost = host;
		m.srcPitch = walk->w;
		m.srcHeight = walk->h;
		m.dstDevice = c->dstDevice;
		m.dstArray = c->dstArray;
		m.dstXInBytes = c->dstXInBytes + walk->x;
		m.dstY = c->dstY + walk->y;
		m.dstZ = c->dstZ + walk->z;
		m.dstPitch = c->dstPitch;
		m.dstHeight = c->dstHeight;
	} else {
		m.dstHost = host;
		m.dstPitch = walk->w;
		m.dstHeight = walk->h;
		m.srcDevice = c->srcDevice;
		m.srcArray = c->srcArray;
		m.srcXInBytes = c->srcXInBytes + walk->x;
		m.srcY = c->srcY + walk->y;
		m.srcZ = c->srcZ + walk->z;
		m.srcPitch = c->srcPitch;
		m.srcHeight = c->srcHeight;
	}
	return ck_driver.cuMemcpy3DAsync_v2(&m, stream);
}

CUresult cks_copy_iterator_copy(const struct cks_copy_iterator *walk, void *host, CUstream stream)
{
	CUdeviceptr at = walk->address + walk->done;

	if (!walk->flat)
		return box_copy(walk, host, stream);
	if (walk->to_device) {
		if (!ck_driver.cuMemcpyHtoDAsync_v2)
			return CUDA_ERROR_NOT_SUPPORTED;
		return ck_driver.cuMemcpyHtoDAsync_v2(at, host, walk->piece, stream);
	}
	if (!ck_driver.cuMemcpyDtoHAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuMemcpyDtoHAsync_v2(host, at, walk->piece, stream);
}
