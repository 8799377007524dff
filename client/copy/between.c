/*
 * client/copy/between.c - see client/copy/between.h.
 */
#include <stdlib.h>

#include "client/copy/between.h"
#include "client/managed/managed.h"
#include "client/objects/capture.h"

#define PIECE ((size_t)16 << 20) /* memory that a copy needs here */

struct ckc_context *ckc_between_home(struct ckc_context *context, uint64_t address)
{
	struct ckc_allocation a;
	struct ckc_context *home;

	if (likely(!ckc_many))
		return context;
	ckc_route(
		context->client); /* where addresses of two servers are equal, the current one's counts */
	if (!ckc_allocation_find(address, &a) || !ckc_kind_on_device(a.kind) ||
	    ckc_gpu_client(a.device) == context->client)
		return context;
	home = a.context ? a.context : ckc_gpu(a.device)->primary;
	return home->active ? home : NULL;
}

CUresult ckc_between_begin(struct ckc_context *context, struct ckc_stream *stream)
{
	static bool told;

	if (ckc_capturing(stream))
		return ckc_refused("a copy between servers in a capture", &told);
	return ckc_stream_wait(context, stream);
}

/* Both sides are on one server, which is not the current one. */
static CUresult on_one_server(const struct ckc_between *b)
{
	CUresult err = ck_wire_cuMemcpyPeer(b->to->object.id, b->dst, b->to->object.id, b->src,
					    b->from->object.id, b->size);

	return err ? err : ckc_stream_wait(b->to, NULL);
}

static CUresult through_here(const struct ckc_between *b)
{
	size_t room = ck_min(b->size, PIECE);
	char *bytes = malloc(room);
	CUresult err = bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t at = 0; at < b->size && !err; at += room) {
		size_t n = ck_min(b->size - at, room);

		err = ckc_copy_download(b->from, bytes, b->src + at, n);
		if (!err)
			err = ckc_copy_upload(b->to, b->dst + at, bytes, n);
	}
	free(bytes);
	return err;
}

static CUresult reach(const struct ckc_context *context, CUdeviceptr at, size_t size, bool write)
{
	CUresult err;

	ckc_route(context->client);
	err = ckc_device_reach(at, size);
	if (!err)
		ckc_managed_device(at, size, write);
	return err;
}

CUresult ckc_between_copy(const struct ckc_between *b)
{
	CUresult err = b->to && b->from ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		err = reach(b->from, b->src, b->size, false);
	if (!err)
		err = reach(b->to, b->dst, b->size, true);
	if (!err)
		err = ckc_between_begin(b->context, b->stream);
	if (err)
		return err;
	return b->to->client == b->from->client ? on_one_server(b) : through_here(b);
}
