/*
 * client/memory.c - device memory: getting it, giving it back, and where a block begins.
 *
 * Getting memory waits for the server, for its address and because a program must learn at once
 * that there is no more. Giving it back does not wait.
 */
#include "client/client.h"

#define TRIES 8	/* blocks that lie where this process has something of its own */

/* What is asked of the server: bytes, or rows when height is not 0. */
struct want {
	size_t bytes;
	size_t width, height, pitch;
	unsigned int element;
};

static CUresult ask(uint64_t ctx, struct want *w, CUdeviceptr *at)
{
	CUresult err;

	if (w->height == 0)
		return ck_wire_cuMemAlloc_v2(ctx, at, w->bytes);
	err = ck_wire_cuMemAllocPitch_v2(ctx, at, &w->pitch, w->width, w->height, w->element);
	return !err && ck_mul_overflow(w->pitch, w->height, &w->bytes) ? CUDA_ERROR_UNKNOWN : err;
}

/*
 * Memory whose addresses mean nothing else in this process: a block in the way of something of
 * ours is held while another is asked for, then given back. When there is no other, it is taken
 * all the same: a clash matters only to questions about addresses.
 */
static CUresult obtain(struct ck_context *context, struct want *w, CUdeviceptr *out)
{
	uint64_t ctx = context->object.id;
	CUdeviceptr held[TRIES], at;
	unsigned int count = 0;
	CUresult err = ask(ctx, w, &at);

	while (!err && !ck_address_claim(at, w->bytes) && count < TRIES) {
		held[count++] = at;
		if (ask(ctx, w, &at)) {
			at = held[--count];
			break;
		}
	}
	while (count > 0)
		ck_wire_cuMemFree_v2(ctx, held[--count]);
	if (err)
		return err;
	err = ck_allocation_add(at, w->bytes, CK_MEMORY_DEVICE, context, 0, false);
	if (err)
		ck_wire_cuMemFree_v2(ctx, at);
	else
		*out = at;
	return err;
}

CK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct want w = { .bytes = bytesize };
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);

	if (err)
		return err;
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return obtain(context, &w, dptr);
}

CK_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				      size_t Height, unsigned int ElementSizeBytes)
{
	struct want w = { .width = WidthInBytes, .height = Height, .element = ElementSizeBytes };
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);

	if (err)
		return err;
	if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	err = obtain(context, &w, dptr);
	if (!err)
		*pPitch = w.pitch;
	return err;
}

/* The message names the memory's own context, which need not be the current one. */
CK_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err || dptr == 0)
		return err;
	if (!ck_allocation_find(dptr, &a) || a.variable ||
	    !ck_allocation_remove(dptr, CK_MEMORY_DEVICE, &a))
		return CUDA_ERROR_INVALID_VALUE;
	return ck_wire_cuMemFree_v2(a.context ? a.context->object.id : ctx, dptr);
}

/* Pinned memory of the host has an address range as well. */
CK_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!ck_allocation_find(dptr, &a))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = a.base;
	if (psize)
		*psize = a.size;
	return CUDA_SUCCESS;
}
