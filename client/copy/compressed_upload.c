/*
 * client/copy/compressed_upload.c - see client/copy/compressed_upload.h.
 *
 * The calls of one thread do not wait for one another's replies, so the network always has
 * something to carry, and parts may be small. A compressed block is a message of its own, because
 * its length is known only once it is compressed. A block that does not become shorter travels as
 * it is.
 */
#include <string.h>

#include "client/copy/compressed_upload.h"
#include "client/copy/split_copy.h"
#include "client/wire/compression.h"
#include "client/link/hooks.h"
#include "client/wire/pipelined_calls.h"

#define MESSAGE_MIN ((size_t)64 << 10) /* a smaller message is not worth it */
#define MESSAGE_TIMES 8 /* one-way: the caller waits for the packer, but not for the network */

static CUresult send_plain(struct ckc_compressed_upload *s, CUdeviceptr device, const char *bytes,
			   size_t size)
{
	ck_upload_part_args args = {.dst = device, .stream = s->stream, .data_length = (u_int)size};

	return ckc_pipelined_call(&s->ahead, CK_PROC_upload_part, &args, bytes, size);
}

static CUresult send_packed(struct ckc_compressed_upload *s, CUdeviceptr device, const char *bytes,
			    size_t size)
{
	const void *packed;
	size_t n = ckc_pack_next(&s->run, bytes, size, &packed);
	ck_upload_packed_part_args args = {
		.dst = device, .stream = s->stream, .size = size, .data_length = (u_int)n};

	return n ? ckc_pipelined_call(&s->ahead, CK_PROC_upload_packed_part, &args, packed, n)
		 : send_plain(s, device, bytes, size);
}

void ckc_compressed_upload_begin(struct ckc_compressed_upload *s, struct ckc_context *ctx,
				 uint64_t stream, bool packed)
{
	s->stream = stream;
	s->packed = packed && ckc_pack_begin(&s->run, ctx->client);
	ckc_pipelined_begin(&s->ahead, ctx->client, ctx->object.id);
}

CUresult ckc_compressed_upload_bytes(struct ckc_compressed_upload *s, CUdeviceptr device,
				     const char *bytes, size_t size)
{
	const size_t most = s->packed ? CK_PACK_BLOCK : CK_PART_MOST;
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0; at < size && !err; at += most)
		err = (s->packed ? send_packed : send_plain)(s, device + at, bytes + at,
							     ck_min(size - at, most));
	return err;
}

CUresult ckc_compressed_upload_end(struct ckc_compressed_upload *s)
{
	if (s->packed)
		ckc_pack_end(&s->run);
	return ckc_pipelined_end(&s->ahead);
}

static uint64_t stream_id(const struct ckc_staged *c)
{
	return c->stream ? c->stream->object.id : 0;
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
	    !ckc_compression_pays(client, CK_PROC_upload_packed, 1, MESSAGE_TIMES))
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
