/*
 * client/copy/copy.c - linear copies (D9). Host bytes are read during the call. Bytes from the
 * device have arrived when it returns; for pinned memory they may be delivered later
 * (client/wire/delivery.h). Pinned memory shared with the worker is different: the message names
 * the bytes, and the GPU moves them when the stream reaches the copy.
 */
#include <string.h>

#include "client/copy/compressed_upload.h"
#include "client/copy/mirror.h"
#include "client/copy/multi_server.h"
#include "client/copy/parallel_upload.h"
#include "client/copy/split_copy.h"
#include "client/copy/staging.h"
#include "client/copy/state.h"
#include "client/managed/managed.h"
#include "client/memory/pinned.h"
#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/wire/compression.h"
#include "client/wire/delivery.h"
#include "client/link/hooks.h"
#include "client/wire/striping.h"
#include "rpc/pinned.h"

#define EARLY_RETURN 65536 /* CUDA: copies up to this may return before the transfer */

/*
 * Sizes in bytes at which another way is faster, measured on an H200. A copy that the GPU makes
 * from shared pinned memory costs 3 us more than natively at any size; a message costs less at
 * first, and 20 us at 64 KiB. Parts of pageable memory go through pinned windows where staging.c
 * has one for them (CK_STAGE_MIN).
 */
static const struct limits {
	size_t message; /* shared pinned memory: up to this a message */
	size_t parts;	/* other memory: from this on in parts, over several connections */
} up = {4096, CK_STRIPING_MIN},
  down = {1024, 1}; /* a download waits for each part, so it has no other message */

/* How the bytes get to or from the device. */
enum way {
	CAPTURED,  /* a node of the graph that the stream captures */
	DIRECT,	   /* the GPU reads or writes the program's own pages */
	DELIVERED, /* to pinned memory, when their turn in the stream comes */
	MESSAGE,   /* one message, or one pinned window */
	PARTS,	   /* several, at the same time */
};

/* The context of a copy, and the stream on both sides. */
struct place {
	struct ckc_context *ctx;
	struct ckc_stream *stream; /* NULL: legacy */
	uint64_t id;
	bool waits;  /* until the copy is done: a synchronous form */
	bool drains; /* it waits for the work in its stream, or there is none */
	bool direct; /* the GPU reads or writes the program's own pages */
};

static CUresult enter_copy(CUstream handle, struct place *p)
{
	CUresult err = ckc_stream_enter(handle, &p->ctx, &p->stream);

	p->waits = p->drains = p->direct = false;
	if (!err)
		p->id = p->stream ? p->stream->object.id : 0;
	return err ? err : ckc_capture_work(p->stream);
}

/* The synchronous forms wait, which is impossible in a stream that is being captured. */
static CUresult enter_sync(struct place *p)
{
	CUresult err = enter_copy(NULL, p);

	p->waits = true;
	return err ? err : ckc_capture_wait(p->stream);
}

static struct ckc_staged make_staged(const struct place *p, CUdeviceptr device, const void *host,
				     size_t size)
{
	return (struct ckc_staged){p->ctx, p->stream, device, (void *)(uintptr_t)host,
				   size,   p->drains};
}

/*
 * May the GPU access the program's pages directly? Small bytes that the program may change on
 * return go in the message instead, unless earlier work may still write them.
 */
static bool is_quiet(const struct place *p, uint64_t last)
{
	const struct ckc_uploaded *u = &p->ctx->client->copying->uploaded;

	return (u->command == last && u->context == p->ctx && u->stream == p->id) ||
	       (ckc_stream_reached(p->ctx, p->stream) && last == ckc_command_last());
}

/*
 * The way of a copy between the device and @host. Small bytes travel in a message, because the
 * program may change them when the call returns, unless earlier work may still write them.
 */
static enum way choose_way(const struct place *p, const void *host, size_t size,
			   const struct limits *l)
{
	if (ckc_capturing(p->stream))
		return CAPTURED;
	if (ckc_pinned_holds(host, size) &&
	    !(p->waits && size <= l->message && is_quiet(p, ckc_command_last())))
		return DIRECT;
	if (l == &down && !p->waits && ckc_hostmem_takes_delivery((void *)(uintptr_t)host, size))
		return DELIVERED;
	return size < l->parts ? MESSAGE : PARTS;
}

/* Copy between device and shared pages. Done on return if @p waits, else in stream order. */
static CUresult pinned_copy(const struct place *p, CUdeviceptr dst, CUdeviceptr src, size_t size,
			    unsigned int kind)
{
	uint64_t last = ckc_command_last();
	bool down_copy = kind == CK_PINNED_TO_HOST;
	CUresult err;

	ckc_managed_device(down_copy ? dst : src, size, down_copy);
	if (p->waits && !p->stream) { /* the driver has a faster path */
		err = ck_wire_pinned_move(p->ctx->object.id, dst, src, size, kind);
		if (!err)
			ckc_stream_synced(p->ctx, NULL, last);
		return err;
	}
	err = ck_wire_pinned_copy(p->ctx->object.id, dst, src, size, p->id, kind);
	return err || !p->waits ? err : ckc_stream_wait(p->ctx, p->stream);
}

/* Small bytes: taken over when this returns. */
static CUresult upload_message(const struct place *p, CUdeviceptr dst, const void *src, size_t size)
{
	const struct ckc_staged s = make_staged(p, dst, src, size);
	struct ckc_uploaded *u = &p->ctx->client->copying->uploaded;
	uint64_t last = ckc_command_last();
	bool quiet = is_quiet(p, last);
	CUresult err;

	if (ckc_staging_upload(&s, &err) || ckc_packed_message(&s, &err))
		return err;
	err = ckc_parallel_upload_suits(&s)
		      ? ckc_parallel_upload(&s)
		      : ck_wire_upload(p->ctx->object.id, dst, p->id, 0, src, size);
	if (quiet &&
	    ckc_command_last() == last + 1) { /* and no other thread has enqueued anything */
		u->context = p->ctx;
		u->stream = p->id;
		u->command = last + 1;
	}
	return err;
}

static CUresult upload_parts(const struct place *p, CUdeviceptr dst, const void *src, size_t size)
{
	const struct ckc_staged s = make_staged(p, dst, src, size);

	return ckc_split_copy_upload(&s);
}

/* False: the server does not keep it. */
static bool upload_kept(const struct place *p, CUdeviceptr dst, const void *src, size_t size,
			CUresult *err)
{
	const struct ckc_staged s = make_staged(p, dst, src, size);

	return ckc_stored_upload(&s, err);
}

static CUresult upload_bytes(struct place *p, CUdeviceptr dst, const void *src, size_t size);
static CUresult download_bytes(struct place *p, void *dst, CUdeviceptr src, size_t size);

/* To or from memory of another server than the stream's: in the legacy stream there; done on
 * return. */
static CUresult copy_elsewhere(struct place *p, CUdeviceptr device, void *to, const void *from,
			       size_t size)
{
	struct place there = {.ctx = ckc_multi_server_home(p->ctx, device), .waits = true};
	CUresult err =
		there.ctx ? ckc_multi_server_begin(p->ctx, p->stream) : CUDA_ERROR_INVALID_VALUE;

	if (err)
		return err;
	ckc_route(there.ctx->client);
	if (to)
		return download_bytes(&there, to, device, size);
	err = upload_bytes(&there, device, from, size);
	return err ? err : ckc_stream_wait(there.ctx, NULL);
}

static CUresult upload_bytes(struct place *p, CUdeviceptr dst, const void *src, size_t size)
{
	enum way way;
	CUresult err;

	if (size == 0)
		return CUDA_SUCCESS;
	if (ckc_multi_server_is(p->ctx, dst))
		return copy_elsewhere(p, dst, NULL, src, size);
	err = src ? ckc_device_reach(dst, size) : CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	way = choose_way(p, src, size, &up);
	if (way == CAPTURED)
		return ckc_mirror_capture_flat(dst, true, (uintptr_t)src, false, size, p->id);
	p->direct = way == DIRECT;
	if (!p->direct && !is_quiet(p, ckc_command_last()))
		err = ckc_hostmem_await_writers(p->ctx, p->stream, src);
	if (err)
		return err;
	ckc_managed_device(dst, size, true);
	if (way == DIRECT)
		return pinned_copy(p, dst, (uintptr_t)src, size, CK_PINNED_TO_DEVICE);
	ckc_hostmem_copied(src);
	if (way == PARTS && upload_kept(p, dst, src, size, &err))
		return err;
	if (way == PARTS && ckc_compression_hides(p->ctx->client, size))
		way = MESSAGE;
	p->drains = p->waits || (size >= CK_STAGE_MIN && ckc_stream_idle(p->ctx, p->stream));
	return (way == MESSAGE ? upload_message : upload_parts)(p, dst, src, size);
}

/*
 * Make sure that later work in any stream finds the bytes in place. A small copy needs no wait
 * while every stream synchronises with the legacy one; a large one waits, as in the driver. So does
 * one into attached memory, because an access by the host does not wait for it.
 */
static CUresult wait_for_place(const struct place *p, CUdeviceptr dst, size_t size)
{
	if (size == 0 || p->direct ||
	    (size <= EARLY_RETURN && !p->ctx->client->unordered_streams &&
	     !ckc_managed_is_attached(dst)))
		return CUDA_SUCCESS;
	return ckc_stream_wait(p->ctx, p->stream);
}

static CUresult download_parts(struct place *p, void *dst, CUdeviceptr src, size_t size)
{
	struct ckc_staged s = make_staged(p, src, dst, size);
	uint64_t last = ckc_command_last();
	CUresult err;

	s.waits = true;
	err = ckc_split_copy_download(&s);
	if (!err)
		ckc_stream_synced(p->ctx, p->stream, last);
	return err;
}

/* To memory that the device can write: nothing travels until the program reads it. And a launch of
 * another thread could take the pages away before bytes for them have arrived. */
static CUresult copy_on_device(const struct place *p, CUdeviceptr dst, CUdeviceptr src, size_t size)
{
	CUresult err;

	ckc_managed_device(src, size, false);
	ckc_managed_device(dst, size, true);
	err = ck_wire_cuMemcpyDtoDAsync_v2(p->ctx->object.id, dst, src, size, p->id);
	return err || !(p->waits || ckc_managed_is_attached(dst))
		       ? err
		       : ckc_stream_wait(p->ctx, p->stream);
}

static CUresult download_bytes(struct place *p, void *dst, CUdeviceptr src, size_t size)
{
	enum way way;
	CUresult err;

	if (size == 0)
		return CUDA_SUCCESS;
	if (ckc_multi_server_is(p->ctx, src))
		return dst ? copy_elsewhere(p, src, dst, NULL, size) : CUDA_ERROR_INVALID_VALUE;
	err = dst ? ckc_device_reach(src, size) : CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	way = choose_way(p, dst, size, &down);
	if (way == CAPTURED)
		return ckc_mirror_capture_flat((uintptr_t)dst, false, src, true, size, p->id);
	if (ckc_managed_moves(p->ctx->client, (uintptr_t)dst, size))
		return copy_on_device(p, (uintptr_t)dst, src, size);
	ckc_managed_device(src, size, false);
	if (way == DIRECT)
		return pinned_copy(p, (uintptr_t)dst, src, size, CK_PINNED_TO_HOST);
	ckc_hostmem_copied(dst);
	if (way == DELIVERED)
		return ckc_delivery_copy(p->ctx->client, p->ctx->object.id, p->id, dst, src, size);
	err = ckc_hostmem_await_delivery(p->ctx, p->stream, dst, size);
	return err ? err : download_parts(p, dst, src, size);
}

CK_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	struct place p;
	CUresult err = enter_sync(&p);

	if (!err)
		err = upload_bytes(&p, dstDevice, srcHost, ByteCount);
	return ckc_work_done(err ? err : wait_for_place(&p, dstDevice, ByteCount));
}

CK_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
					size_t ByteCount, CUstream hStream)
{
	struct place p;
	CUresult err = enter_copy(hStream, &p);

	return err ? err : upload_bytes(&p, dstDevice, srcHost, ByteCount);
}

CK_EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	struct place p;
	CUresult err = enter_sync(&p);

	return ckc_work_done(err ? err : download_bytes(&p, dstHost, srcDevice, ByteCount));
}

/* Waits unless the memory is pinned. */
CK_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
					CUstream hStream)
{
	struct place p;
	CUresult err = enter_copy(hStream, &p);

	return err ? err : download_bytes(&p, dstHost, srcDevice, ByteCount);
}

/* Check both addresses. True in *@done: the copy concerned another server, and is done. */
static CUresult check_both(const struct place *p, CUdeviceptr dst, CUdeviceptr src, size_t size,
			   bool *done)
{
	CUresult err;

	*done = size > 0 && (ckc_multi_server_is(p->ctx, dst) || ckc_multi_server_is(p->ctx, src));
	if (*done)
		return ckc_multi_server_copy(&(struct ckc_multi_server){
			.context = p->ctx,
			.stream = p->stream,
			.waits = p->waits,
			.to = ckc_multi_server_home(p->ctx, dst),
			.from = ckc_multi_server_home(p->ctx, src),
			.dst = dst,
			.src = src,
			.size = size,
		});
	err = size ? ckc_device_reach(dst, size) : CUDA_SUCCESS;
	if (!err && size)
		err = ckc_device_reach(src, size);
	if (err)
		return err;
	ckc_managed_device(src, size, false);
	ckc_managed_device(dst, size, true);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	struct place p;
	bool done = false;
	CUresult err = enter_sync(&p);

	if (!err)
		err = check_both(&p, dstDevice, srcDevice, ByteCount, &done);
	if (err || !ByteCount || done)
		return err;
	if (p.id) /* the per-thread form of the call: the copy goes to its stream */
		err = ck_wire_cuMemcpyDtoDAsync_v2(p.ctx->object.id, dstDevice, srcDevice,
						   ByteCount, p.id);
	else
		err = ck_wire_cuMemcpyDtoD_v2(p.ctx->object.id, dstDevice, srcDevice, ByteCount);
	return err || !ckc_managed_is_attached(dstDevice) ? err : ckc_stream_synchronize(NULL);
}

CK_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
					size_t ByteCount, CUstream hStream)
{
	struct place p;
	bool done = false;
	CUresult err = enter_copy(hStream, &p);

	if (!err)
		err = check_both(&p, dstDevice, srcDevice, ByteCount, &done);
	if (err || !ByteCount || done)
		return err;
	return ck_wire_cuMemcpyDtoDAsync_v2(p.ctx->object.id, dstDevice, srcDevice, ByteCount,
					    p.id);
}

/* In stream order; in a capture, a copy like any other. */
static CUresult host_to_host(void *dst, const void *src, size_t size, CUstream stream)
{
	struct place p;
	CUresult err = enter_copy(stream, &p);

	if (!err && size && (!dst || !src))
		return CUDA_ERROR_INVALID_VALUE;
	if (!err && size && ckc_capturing(p.stream))
		return ckc_mirror_capture_flat((uintptr_t)dst, false, (uintptr_t)src, false, size,
					       p.id);
	if (!err)
		err = ckc_stream_take_turn(stream);
	if (!err && size)
		memmove(dst, src, size);
	return err;
}

/* Unified addressing: the addresses determine the kind of copy. */
static CUresult copy_unified(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream,
			     bool async)
{
	bool to = ckc_on_device(dst), from = ckc_on_device(src);
	void *to_host = (void *)(uintptr_t)dst, *from_host = (void *)(uintptr_t)src;

	if (to && from)
		return async ? cuMemcpyDtoDAsync_v2(dst, src, size, stream)
			     : cuMemcpyDtoD_v2(dst, src, size);
	if (to)
		return async ? cuMemcpyHtoDAsync_v2(dst, from_host, size, stream)
			     : cuMemcpyHtoD_v2(dst, from_host, size);
	if (from)
		return async ? cuMemcpyDtoHAsync_v2(to_host, src, size, stream)
			     : cuMemcpyDtoH_v2(to_host, src, size);
	return host_to_host(to_host, from_host, size, stream);
}

CK_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return copy_unified(dst, src, ByteCount, NULL, false);
}

CK_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
				 CUstream hStream)
{
	return copy_unified(dst, src, ByteCount, hStream, true);
}
