/*
 * client/copy/copy_3d.c - copies of rectangles and boxes, including arrays: where their sides are,
 * and which way they go. A 2D copy is a 3D copy of depth 1.
 */
#include <stdlib.h>
#include <string.h>

#include "client/memory/array.h"
#include "client/memory/box.h"
#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/managed/managed.h"
#include "client/copy/copy_3d.h"
#include "client/copy/mirror.h"
#include "client/memory/pinned.h"

/* Compute the pitches and the extent; false: rows overlap, or a number is too large. */
static bool measure_side(struct ckc_side *s, const struct ckc_box_copy *b, size_t pitch,
			 size_t rows, const size_t at[3])
{
	struct ckc_box box = ckc_box_of(s, b);

	if (!ckc_box_place(&box, s->start, pitch, rows, at))
		return false;
	s->start = box.start;
	s->pitch = box.pitch;
	s->slice = box.slice;
	s->extent = (b->depth - 1) * s->slice + (b->height - 1) * s->pitch + b->width;
	return true;
}

static bool range_fits(size_t at, size_t count, size_t extent)
{
	return count <= extent && at <= extent - count;
}

/* Check that whole elements are copied, within the array's extent. */
static CUresult resolve_array(struct ckc_side *s, const struct ckc_box_copy *b, CUarray handle,
			      const size_t at[3])
{
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUresult err = ckc_array_describe(handle, &desc, &s->array);
	size_t element;

	if (err)
		return err;
	element = ckc_array_element(&desc);
	if (element && (at[0] % element || b->width % element ||
			!range_fits(at[0], b->width, desc.Width * element)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!range_fits(at[1], b->height, ck_max(desc.Height, (size_t)1)) ||
	    !range_fits(at[2], b->depth, ck_max(desc.Depth, (size_t)1)))
		return CUDA_ERROR_INVALID_VALUE;
	s->device = true;
	memcpy(s->at, at, sizeof(s->at));
	return CUDA_SUCCESS;
}

static CUresult resolve_side(struct ckc_side *s, const struct ckc_box_copy *b, CUmemorytype type,
			     const void *host, CUdeviceptr device, size_t pitch, size_t height,
			     const size_t at[3])
{
	if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE &&
	    type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	s->device = type == CU_MEMORYTYPE_DEVICE ||
		    (type == CU_MEMORYTYPE_UNIFIED && ckc_on_device(device));
	s->start = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
	if (!s->start || !measure_side(s, b, pitch, height, at))
		return CUDA_ERROR_INVALID_VALUE;
	/* memory that the GPU reaches directly counts as device memory */
	s->device = s->device || ckc_pinned_holds((const void *)(uintptr_t)s->start, s->extent) ||
		    (ckc_managed_moves(ckc_client_current(), s->start, s->extent) &&
		     !ckc_managed_is_attached(s->start));
	return CUDA_SUCCESS;
}

static CUresult on_host(const struct ckc_box_copy *b, CUstream handle)
{
	struct ckc_box dst = ckc_box_of(&b->dst, b), src = ckc_box_of(&b->src, b);
	CUresult err = ckc_stream_take_turn(handle);

	if (!err)
		ckc_box_copy(&dst, &src);
	return err;
}

static bool is_linear(const struct ckc_side *s)
{
	return s->device && !s->array;
}

static bool is_too_large(const struct ckc_box_copy *b)
{
	uint64_t bytes;

	return ck_mul_overflow(b->width, b->height, &bytes) ||
	       ck_mul_overflow(bytes, b->depth, &bytes);
}

static CUresult run_copy(struct ckc_box_copy *b, const CUDA_MEMCPY3D *asked, CUstream handle,
			 bool waits)
{
	struct ckc_box_place p = {.waits = waits};
	CUresult err = ckc_stream_enter(handle, &p.ctx, &p.stream);

	if (!err)
		err = ckc_capture_work(p.stream);
	if (!err && ckc_box_between(b, &p, &err))
		return err;
	if (!err && is_linear(&b->dst))
		err = ckc_device_reach(b->dst.start, b->dst.extent);
	if (!err && is_linear(&b->src))
		err = ckc_device_reach(b->src.start, b->src.extent);
	if (err)
		return err;
	if (is_too_large(b))
		return CUDA_ERROR_INVALID_VALUE;
	p.id = p.stream ? p.stream->object.id : 0;
	if (ckc_capturing(p.stream) && !(b->dst.device && b->src.device))
		return ckc_mirror_capture(asked, p.id);
	if (is_linear(&b->src))
		ckc_managed_device(b->src.start, b->src.extent, false);
	if (is_linear(&b->dst))
		ckc_managed_device(b->dst.start, b->dst.extent, true);
	if (b->dst.device && b->src.device)
		return ckc_box_between_devices(b, &p);
	if (b->dst.device)
		err = ckc_hostmem_await_writers(p.ctx, p.stream,
						(const void *)(uintptr_t)b->src.start);
	else if (b->src.device)
		err = ckc_hostmem_await_delivery(p.ctx, p.stream, (void *)(uintptr_t)b->dst.start,
						 b->dst.extent);
	if (b->dst.device || b->src.device)
		return err ? err : ckc_box_in_parts(b, &p);
	return on_host(b, handle);
}

static CUresult resolve_both(struct ckc_box_copy *b, const CUDA_MEMCPY3D *c)
{
	const size_t src[] = {c->srcXInBytes, c->srcY, c->srcZ};
	const size_t dst[] = {c->dstXInBytes, c->dstY, c->dstZ};
	CUresult err;

	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		err = resolve_array(&b->src, b, c->srcArray, src);
	else
		err = resolve_side(&b->src, b, c->srcMemoryType, c->srcHost, c->srcDevice,
				   c->srcPitch, c->srcHeight, src);
	if (err)
		return err;
	if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return resolve_array(&b->dst, b, c->dstArray, dst);
	return resolve_side(&b->dst, b, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch,
			    c->dstHeight, dst);
}

/* Build the box that @c describes; it has no bytes if there is nothing to copy. */
static CUresult copy_of(const CUDA_MEMCPY3D *c, struct ckc_box_copy *b)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);

	if (err)
		return err;
	if (!c || c->srcLOD || c->dstLOD || c->reserved0 || c->reserved1)
		return CUDA_ERROR_INVALID_VALUE;
	*b = (struct ckc_box_copy){
		.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
	if (!b->width || !b->height || !b->depth)
		return CUDA_SUCCESS;
	return resolve_both(b, c);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool waits)
{
	struct ckc_box_copy b;
	CUresult err = copy_of(c, &b);

	return err || !b.width || !b.height || !b.depth ? err : run_copy(&b, c, stream, waits);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool waits)
{
	CUDA_MEMCPY3D d;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	d = (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcPitch = c->srcPitch,
		.srcArray = c->srcArray,
		.dstArray = c->dstArray,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
	return copy_3d(&d, stream, waits);
}

/* Contexts matter only if both sides are on devices: otherwise unified addressing suffices. */
static CUresult copy_peer(const CUDA_MEMCPY3D_PEER *peer, CUstream stream, bool waits)
{
	CUDA_MEMCPY3D c;
	struct ckc_box_copy b;
	CUresult err;

	if (!peer)
		return CUDA_ERROR_INVALID_VALUE;
	_Static_assert(sizeof(c) == sizeof(*peer), "they differ in the contexts");
	memcpy(&c, peer, sizeof(c));
	c.reserved0 = c.reserved1 = NULL;
	err = copy_of(&c, &b);
	if (err || !b.width || !b.height || !b.depth)
		return err;
	if (b.src.device && peer->srcMemoryType != CU_MEMORYTYPE_HOST)
		err = ckc_context_id(peer->srcContext, &b.src.context);
	if (!err && b.dst.device && peer->dstMemoryType != CU_MEMORYTYPE_HOST)
		err = ckc_context_id(peer->dstContext, &b.dst.context);
	return err ? err : run_copy(&b, &c, stream, waits);
}

/* Synchronous forms: bytes to the device have arrived on return. */
static CUresult wait_for_copy(CUresult err)
{
	return err ? err : ckc_stream_synchronize(NULL);
}

CK_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	return wait_for_copy(copy_2d(pCopy, NULL, true));
}

CK_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return wait_for_copy(copy_2d(pCopy, NULL, true));
}

CK_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return copy_2d(pCopy, hStream, false);
}

CK_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	return wait_for_copy(copy_3d(pCopy, NULL, true));
}

CK_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return copy_3d(pCopy, hStream, false);
}

CK_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	return wait_for_copy(copy_peer(pCopy, NULL, true));
}

CK_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	return copy_peer(pCopy, hStream, false);
}
