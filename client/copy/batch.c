/*
 * client/copy/batch.c - many copies in one call, and copies between two contexts.
 *
 * A batch is ordered with its stream; its copies are not ordered among each other. Copies that
 * involve the host go through copy.c one by one; copies between device addresses are collected into
 * one message.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/multi_server.h"
#include "client/managed/managed.h"
#include "client/link/client.h"
#include "libcuda/batch.h"
#include "libcuda/libcuda.h"

#define COLLECT 256 /* copies in one message */

/* --- between contexts */

struct peer {
	uint64_t ctx, dst, src; /* context ids: current, and of both sides' memory */
	struct ckc_stream *stream;
	bool waits; /* a synchronous form */
	bool done;  /* between servers */
};

/* Do the contexts of both sides, or the current one, belong to different servers? Then copy. */
static CUresult copy_between_servers(CUcontext dst, CUcontext src, CUdeviceptr to, CUdeviceptr from,
				     size_t size, struct peer *p)
{
	struct ckc_multi_server b = {.context = p->stream ? p->stream->object.context
							  : ckc_context_current(),
				     .stream = p->stream,
				     .waits = p->waits,
				     .to = ckc_context_from(dst),
				     .from = ckc_context_from(src),
				     .dst = to,
				     .src = from,
				     .size = size};

	if (b.to->client == b.from->client && b.to->client == b.context->client)
		return CUDA_SUCCESS;
	p->done = true;
	return ckc_multi_server_copy(&b);
}

static CUresult enter_peer(CUcontext dst, CUcontext src, CUdeviceptr to, CUdeviceptr from,
			   size_t size, CUstream stream, struct peer *p)
{
	CUresult err = ckc_enter(&p->ctx);

	if (err)
		return err;
	err = ckc_stream_from(stream, &p->stream);
	if (err || size == 0)
		return err;
	if (ckc_context_id(dst, &p->dst) || ckc_context_id(src, &p->src))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (unlikely(ckc_many))
		err = copy_between_servers(dst, src, to, from, size, p);
	if (err || p->done)
		return err;
	err = ckc_device_reach(to, size);
	if (err)
		return err;
	err = ckc_device_reach(from, size);
	if (err)
		return err;
	ckc_managed_device(from, size, false);
	ckc_managed_device(to, size, true);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
				     CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
				     CUstream hStream)
{
	struct peer p = {.done = false};
	CUresult err =
		enter_peer(dstContext, srcContext, dstDevice, srcDevice, ByteCount, hStream, &p);

	if (err || ByteCount == 0 || p.done)
		return err;
	return ck_wire_cuMemcpyPeerAsync(p.ctx, dstDevice, p.dst, srcDevice, p.src, ByteCount,
					 p.stream ? p.stream->object.id : 0);
}

CK_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				CUcontext srcContext, size_t ByteCount)
{
	struct peer p = {.waits = true};
	CUresult err =
		enter_peer(dstContext, srcContext, dstDevice, srcDevice, ByteCount, NULL, &p);

	if (err || ByteCount == 0 || p.done)
		return err;
	if (p.stream) /* the per-thread form of the call: the copy goes to its stream */
		err = ck_wire_cuMemcpyPeerAsync(p.ctx, dstDevice, p.dst, srcDevice, p.src,
						ByteCount, p.stream->object.id);
	else
		err = ck_wire_cuMemcpyPeer(p.ctx, dstDevice, p.dst, srcDevice, p.src, ByteCount);
	return err || !ckc_managed_is_attached(dstDevice) ? err : ckc_stream_synchronize(NULL);
}

/* --- batches */

struct item { /* encoding: see server/copy/batch.c */
	uint64_t dst, src, size;
};

struct batch {
	uint64_t ctx, stream;
	struct ckc_context *context; /* of the stream */
	struct item items[COLLECT];
	size_t count;
};

static CUresult batch_send(struct batch *b)
{
	size_t count = b->count;

	b->count = 0;
	return count ? ck_wire_copy_batch(b->ctx, b->stream, b->items, count * sizeof(b->items[0]))
		     : CUDA_SUCCESS;
}

CUresult ck_libcuda_takes_batch(CUstream handle)
{
	struct ckc_stream *stream;
	CUresult err = ckc_stream_from(handle, &stream);

	return err ? err : stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult enter_batch(CUstream handle, struct batch *b)
{
	struct ckc_stream *stream = NULL;
	CUresult err = ckc_enter(&b->ctx);

	if (!err)
		err = ck_libcuda_takes_batch(handle);
	if (!err)
		err = ckc_stream_from(handle, &stream);
	if (err)
		return err;
	b->count = 0;
	b->stream = stream->object.id;
	b->context = stream->object.context;
	return CUDA_SUCCESS;
}

static CUresult batch_copy(struct batch *b, CUdeviceptr dst, CUdeviceptr src, size_t size,
			   CUstream stream)
{
	CUresult err;

	if (!ckc_on_device(dst) || !ckc_on_device(src) || ckc_multi_server_is(b->context, dst) ||
	    ckc_multi_server_is(b->context, src)) {
		err = batch_send(b);
		return err ? err : cuMemcpyAsync(dst, src, size, stream);
	}
	err = ckc_device_reach(dst, size);
	if (!err)
		err = ckc_device_reach(src, size);
	if (err)
		return err;
	ckc_managed_device(src, size, false);
	ckc_managed_device(dst, size, true);
	if (b->count == COLLECT)
		err = batch_send(b);
	b->items[b->count++] = (struct item){dst, src, size};
	return err;
}

/* @fail: index of the refused copy; SIZE_MAX: the error concerns none of them. */
static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			   const CUmemcpyAttributes *attrs, const size_t *first, size_t attr_count,
			   size_t *fail, CUstream stream)
{
	struct batch *b = malloc(sizeof(*b)); /* threads may have a stack of 16 KiB */
	CUresult err = b ? enter_batch(stream, b) : CUDA_ERROR_OUT_OF_MEMORY, sent;

	*fail = SIZE_MAX;
	if (!err && (!dsts || !srcs || !sizes || count == 0 ||
		     !ck_batch_attributes_ok(attrs, first, attr_count, count)))
		err = CUDA_ERROR_INVALID_VALUE;
	if (err) {
		free(b);
		return err;
	}
	for (size_t i = 0; i < count && !err; i++) {
		err = sizes[i] ? batch_copy(b, dsts[i], srcs[i], sizes[i], stream)
			       : CUDA_ERROR_INVALID_VALUE;
		if (err)
			*fail = i;
	}
	sent = batch_send(b);
	free(b);
	return err ? err : sent;
}

CK_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				      size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				      size_t numAttrs, size_t *failIdx, CUstream hStream)
{
	size_t fail;
	CUresult err =
		copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &fail, hStream);

	if (err && failIdx)
		*failIdx = fail;
	return err;
}

CK_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
					 size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
					 size_t numAttrs, CUstream hStream)
{
	size_t fail;

	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &fail, hStream);
}
