/*
 * client/copy/packed.c - see client/copy/packed.h.
 *
 * Each block is a message of its own, whose length is known once it is compressed. A block that does not become shorter
 * travels as in any other upload. The calls of a part do not wait for one another's replies, so the network has always
 * something to carry.
 */
#include <string.h>

#include "client/copy/packed.h"
#include "client/wire/ahead.h"
#include "client/wire/hooks.h"
#include "client/wire/packing.h"

#define MESSAGE_MIN ((size_t)64 << 10) /* a smaller message is not worth it */
#define MESSAGE_TIMES 8 /* one-way: the caller waits for the packer, but not for the network */

static uint64_t stream_id(const struct ckc_staged *c)
{
	return c->stream ? c->stream->object.id : 0;
}

static CUresult call_block(struct ckc_ahead *a, const struct ckc_staged *c, size_t at, size_t size,
			   struct ckc_pack_run *run)
{
	const char *bytes = (const char *)c->host + at;
	const void *packed;
	size_t n = ckc_pack_next(run, bytes, size, &packed);
	ck_upload_packed_part_args block = {.dst = c->device + at,
					    .stream = stream_id(c),
					    .size = size,
					    .data_length = (u_int)n};
	ck_upload_part_args plain = {
		.dst = c->device + at, .stream = stream_id(c), .data_length = (u_int)size};

	return n ? ckc_ahead_call(a, CK_PROC_upload_packed_part, &block, packed, n)
		 : ckc_ahead_call(a, CK_PROC_upload_part, &plain, bytes, size);
}

bool ckc_packed_part(const struct ckc_staged *c, CUresult *err)
{
	struct ckc_pack_run run;
	struct ckc_ahead ahead;
	CUresult sent = CUDA_SUCCESS;

	if (!ckc_pack_begin(&run, c->ctx->client))
		return false;
	ckc_ahead_begin(&ahead, c->ctx->client, c->ctx->object.id);
	for (size_t at = 0; at < c->size && !sent; at += CK_PACK_BLOCK)
		sent = call_block(&ahead, c, at, ck_min(c->size - at, (size_t)CK_PACK_BLOCK), &run);
	*err = ckc_ahead_end(&ahead);
	ckc_pack_end(&run);
	return true;
}

static CUresult send_block(const struct ckc_staged *c, const char *bytes, size_t at, size_t size,
			   struct ckc_pack_run *run)
{
	uint64_t ctx = c->ctx->object.id;
	const void *packed;
	size_t n = ckc_pack_next(run, bytes + at, size, &packed);

	return n ? ck_wire_upload_packed(ctx, c->device + at, stream_id(c), size, packed, n)
		 : ck_wire_upload(ctx, c->device + at, stream_id(c), 0, bytes + at, size);
}

bool ckc_packed_message(const struct ckc_staged *c, CUresult *err)
{
	struct ckc_client *client = c->ctx->client;
	struct ckc_pack_run run;
	const char *bytes;

	if (c->size < MESSAGE_MIN ||
	    !ckc_packing_pays(client, CK_PROC_upload_packed, 1, MESSAGE_TIMES))
		return false;
	bytes = ckc_payload_reach(c->host, c->size, false);
	if (!bytes || !ckc_pack_begin(&run, client))
		return false;
	*err = CUDA_SUCCESS;
	for (size_t at = 0; at < c->size && !*err; at += CK_PACK_BLOCK)
		*err = send_block(c, bytes, at, ck_min(c->size - at, (size_t)CK_PACK_BLOCK), &run);
	ckc_pack_end(&run);
	return true;
}
