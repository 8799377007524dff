/*
 * client/copy/copy_3d_send.c - the messages of copies of boxes. Host bytes are sent packed, without
 * gaps, in as many messages as needed.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/copy_3d.h"
#include "client/memory/box.h"
#include "client/link/client.h"
#include "client/managed/managed.h"
#include "util/util.h"

size_t ckc_copy_part = (size_t)1 << 30; /* a record's length has 31 bits */

/* Describe a side to the server; a host side is packed, and the server places it. */
static CUmemorytype describe_side(const struct ckc_side *s, const struct ckc_box_copy *b,
				  CUdeviceptr *device, CUarray *array, size_t *pitch,
				  size_t *height)
{
	*pitch = b->width;
	*height = b->height;
	if (s->array) {
		*array = (CUarray)(uintptr_t)s->array;
		return CU_MEMORYTYPE_ARRAY;
	}
	if (!s->device)
		return CU_MEMORYTYPE_HOST;
	*device = s->start;
	*pitch = s->pitch;
	if (b->depth > 1)
		*height = s->slice / s->pitch;
	return CU_MEMORYTYPE_DEVICE;
}

void ckc_box_describe(const struct ckc_box_copy *b, CUDA_MEMCPY3D *c)
{
	memset(c, 0, sizeof(*c));
	c->WidthInBytes = b->width;
	c->Height = b->height;
	c->Depth = b->depth;
	c->srcMemoryType =
		describe_side(&b->src, b, &c->srcDevice, &c->srcArray, &c->srcPitch, &c->srcHeight);
	c->srcXInBytes = b->src.at[0];
	c->srcY = b->src.at[1];
	c->srcZ = b->src.at[2];
	c->dstMemoryType =
		describe_side(&b->dst, b, &c->dstDevice, &c->dstArray, &c->dstPitch, &c->dstHeight);
	c->dstXInBytes = b->dst.at[0];
	c->dstY = b->dst.at[1];
	c->dstZ = b->dst.at[2];
}

CUresult ckc_box_to_device(const struct ckc_box_copy *b, const struct ckc_box_place *p)
{
	struct ckc_box src = ckc_box_of(&b->src, b);
	size_t size = b->width * b->height * b->depth;
	const char *bytes = (const char *)(uintptr_t)src.start;
	char *packed = NULL;
	CUDA_MEMCPY3D c;
	CUresult err;

	ckc_box_describe(b, &c);
	if (!ckc_box_is_packed(&src)) {
		packed = malloc(size);
		if (!packed)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ckc_box_pack(&src, packed);
		bytes = packed;
	}
	err = ck_wire_upload_3d(p->ctx->object.id, &c, p->id, bytes, size);
	free(packed);
	return err;
}

CUresult ckc_box_to_host(const struct ckc_box_copy *b, const struct ckc_box_place *p)
{
	struct ckc_box dst = ckc_box_of(&b->dst, b);
	size_t size = b->width * b->height * b->depth;
	/* a launch of another thread could take pages away before bytes for them have arrived */
	bool direct = ckc_box_is_packed(&dst) && !ckc_managed_may_be(dst.start);
	struct ckc_sink sink = {direct ? (void *)(uintptr_t)dst.start : malloc(size), size};
	uint64_t last = ckc_command_last();
	CUDA_MEMCPY3D c;
	CUresult err;

	if (!sink.data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ckc_box_describe(b, &c);
	err = ck_wire_download_3d(p->ctx->object.id, &c, p->id, &sink);
	if (!err && !direct)
		ckc_box_unpack(&dst, sink.data);
	if (!direct)
		free(sink.data);
	if (!err)
		ckc_stream_synced(p->ctx, p->stream, last);
	return err;
}

/* Move a side forward by @first. */
static void advance_side(struct ckc_side *s, enum ckc_box_cut cut, size_t first)
{
	const size_t steps[] = {1, s->pitch, s->slice};

	if (s->array)
		s->at[cut] += first;
	else
		s->start += first * steps[cut];
}

struct ckc_box_copy ckc_box_part(const struct ckc_box_copy *b, enum ckc_box_cut cut, size_t first,
				 size_t count)
{
	struct ckc_box_copy part = *b;
	size_t *const sizes[] = {&part.width, &part.height, &part.depth};

	advance_side(&part.dst, cut, first);
	advance_side(&part.src, cut, first);
	*sizes[cut] = count;
	return part;
}

enum ckc_box_cut ckc_box_cut(const struct ckc_box_copy *b, size_t *whole)
{
	const size_t sizes[] = {b->width, b->height, b->depth};
	enum ckc_box_cut cut = b->depth > 1    ? CK_CUT_DEPTH
			       : b->height > 1 ? CK_CUT_HEIGHT
					       : CK_CUT_WIDTH;

	*whole = sizes[cut];
	return cut;
}

/* Copy between host and device, in as many messages as needed. */
CUresult ckc_box_in_parts(const struct ckc_box_copy *b, const struct ckc_box_place *p)
{
	size_t whole;
	enum ckc_box_cut cut = ckc_box_cut(b, &whole);
	size_t bytes = b->width * b->height * b->depth, unit = bytes / whole;
	size_t step = unit < ckc_copy_part ? ckc_copy_part / unit : 1;
	CUresult err = CUDA_SUCCESS;

	if (bytes <= ckc_copy_part)
		return b->dst.device ? ckc_box_to_device(b, p) : ckc_box_to_host(b, p);
	for (size_t at = 0; at < whole && !err; at += step) {
		struct ckc_box_copy part = ckc_box_part(b, cut, at, ck_min(step, whole - at));

		err = ckc_box_in_parts(&part, p);
	}
	return err;
}

CUresult ckc_box_between_devices(const struct ckc_box_copy *b, const struct ckc_box_place *p)
{
	CUDA_MEMCPY3D c;

	ckc_box_describe(b, &c);
	if (b->dst.context || b->src.context)
		return ck_wire_copy_3d_peer(p->ctx->object.id, &c, b->dst.context, b->src.context,
					    p->id);
	return ck_wire_copy_3d(p->ctx->object.id, &c, p->id);
}
