/*
 * client/copy/kept_message.c - see client/copy/kept_message.h.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/chunks/chunk_index.h"
#include "client/chunks/chunk_lookup.h"
#include "client/copy/kept_message.h"
#include "client/copy/state.h"
#include "client/copy/stored_pays.h"
#include "client/link/client.h"
#include "client/wire/compression.h"
#include "client/wire/striping.h"
#include "gen/wire.h"
#include "util/util.h"

#define PACK_TIMES 8 /* the caller waits for the packer, but not for the network */
/* Bytes on their way that one connection may have, whatever the kernels' settings are. */
#define WINDOW (2 << 20)

size_t ckc_kept_pack(struct ckc_pack_run *run, const char *bytes, size_t size, uint32_t *lengths,
		     unsigned char *to)
{
	size_t total = 0;

	for (size_t at = 0; at < size; at += CK_PACK_BLOCK, lengths++) {
		size_t plain = ck_min(size - at, (size_t)CK_PACK_BLOCK);
		const void *packed;
		size_t n = ckc_pack_next(run, bytes + at, plain, &packed);

		*lengths = (uint32_t)(n ? n : plain);
		memcpy(to + total, n ? packed : bytes + at, *lengths);
		total += *lengths;
	}
	return total;
}

/* Is one connection as fast as several? */
static bool one_connection_suffices(struct ckc_client *c)
{
	return !ckc_striping_is_long(c) ||
	       (double)ckc_compression_link(c) * (double)c->lanes.round_trip_ns <= WINDOW * 1e9;
}

/* The network's rate decides, which a few MiB do not show. */
static void recall_link(struct ckc_client *c)
{
	int index;

	if (ckc_compression_link(c) > 0 || atomic_exchange(&c->copying->kept.recalled, true))
		return;
	index = ckc_chunk_index_open();
	if (index < 0)
		return;
	ckc_stored_recall_link(c, index);
	close(index);
}

/* The server reads and writes on the thread of its commands when many chunks wait, so the network
 * has to be slower than that. */
bool ckc_kept_message_pays(struct ckc_client *c)
{
	if (!ckc_session_offers(c, CK_PROC_upload_keep))
		return false;
	recall_link(c);
	return ckc_stored_pays(c) &&
	       (ckc_stored_always() ||
		(ckc_compression_link(c) > 0 && ckc_stored_pays_hashing(c))) &&
	       one_connection_suffices(c);
}

/* One upload, in chunks. */
struct message {
	const struct ckc_staged *copy;
	const struct ckc_chunk_lookup *lookup;
	struct ckc_pack_run run;
	unsigned char *blocks; /* room for a compressed chunk; NULL: they are not compressed */
};

static uint64_t stream_id(const struct ckc_staged *c)
{
	return c->stream ? c->stream->object.id : 0;
}

/* The server finds the hash. */
static CUresult send_kept(struct message *m, size_t at, size_t size)
{
	const struct ckc_staged *c = m->copy;
	const char *bytes = (const char *)c->host + at;
	uint32_t lengths[CKC_KEPT_BLOCKS];
	size_t length = size;
	ck_upload_keep_args args = {.head.ctx = c->ctx->object.id,
				    .dst = c->device + at,
				    .stream = stream_id(c),
				    .size = size};

	if (m->blocks) {
		length = ckc_kept_pack(&m->run, bytes, size, lengths, m->blocks);
		bytes = (const char *)m->blocks;
		args.blocks.blocks_val = (char *)lengths;
		args.blocks.blocks_len =
			(u_int)((size + CK_PACK_BLOCK - 1) / CK_PACK_BLOCK * sizeof(lengths[0]));
	}
	return ck_wire_upload_keep(&args, bytes, length);
}

/* Send a chunk, and hash it while buffers of sockets hold it. */
static CUresult send_chunk(struct message *m, size_t at, size_t size)
{
	const struct ckc_staged *c = m->copy;
	struct ckc_stored_chunk chunk;
	CUresult err;

	if (!ckc_upload_source_is_intact(m->lookup->source, at, size))
		return ck_wire_upload(c->ctx->object.id, c->device + at, stream_id(c), 0,
				      (const char *)c->host + at, size);
	err = send_kept(m, at, size);
	if (!err) {
		ckc_chunk_hash(m->lookup, at, size, &chunk);
		ckc_chunk_note(m->lookup, at, size, &chunk.hash);
	}
	return err;
}

CUresult ckc_kept_message(const struct ckc_staged *copy, const struct ckc_chunk_lookup *lookup)
{
	struct ckc_client *client = copy->ctx->client;
	struct message m = {.copy = copy, .lookup = lookup};
	bool packed = ckc_compression_pays(client, CK_PROC_upload_keep, 1, PACK_TIMES) &&
		      ckc_pack_begin(&m.run, client);
	CUresult err = CUDA_SUCCESS;

	m.blocks = packed ? malloc(CK_CHUNK) : NULL;
	for (size_t at = 0, end; at < copy->size && !err; at = end) {
		end = ck_min(copy->size, ckc_upload_source_chunk_end(lookup->source, at));
		err = send_chunk(&m, at, end - at);
	}
	if (packed)
		ckc_pack_end(&m.run);
	free(m.blocks);
	return err;
}
