/*
 * server/store/stored_upload.c - uploads whose bytes are kept for the next start of the program,
 * and copies of such bytes to the device.
 *
 * A chunk is in host memory as a whole before the device gets it, because its hash is checked
 * first. A chunk that is not there, or was altered, is reported as missing, and the client sends
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "server/copy/staging.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server/store/chunk_store.h"
#include "server/store/chunk_writer.h"
#include "server/store/held_chunks.h"
#include "server/store/start_list.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* Where the bytes go. */
struct target {
	struct cks_request *q;
	uint64_t dst, serial;
	CUstream stream;
};

static CUresult find_target(struct cks_request *q, uint64_t dst, uint64_t stream, struct target *t)
{
	*t = (struct target){.q = q, .dst = dst};
	if (!ck_driver.cuMemcpyHtoDAsync_v2 || !ck_driver.cuMemcpyDtoHAsync_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	return cks_stream_serial(q, stream, &t->stream, &t->serial) ? CUDA_SUCCESS
								    : CUDA_ERROR_INVALID_HANDLE;
}

/* Pass @size bytes to the device, at @offset from the destination. */
static CUresult copy_chunk(const struct target *t, uint64_t offset, const unsigned char *bytes,
			   size_t size)
{
	struct cks_ring *ring = cks_staging_call(t->q->session->staging, t->q->chan);
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0, piece; at < size && !err; at += piece) {
		struct cks_slot *slot;
		unsigned char *host;

		piece = ck_min(size - at, (size_t)CK_PIECE_MAX);
		err = cks_ring_take(ring, t->q->ctx, t->serial, piece, &slot);
		if (err)
			break;
		host = slot->host + slot->used;
		memcpy(host, bytes + at, piece);
		err = ck_driver.cuMemcpyHtoDAsync_v2(t->dst + offset + at, host, piece, t->stream);
		if (!err)
			err = cks_slot_mark(slot, t->stream, piece);
	}
	cks_ring_release(ring);
	return err;
}

/* Fetch @size bytes from the destination. */
static CUresult fetch_chunk(const struct target *t, unsigned char *bytes, size_t size)
{
	struct cks_ring *ring = cks_staging_call(t->q->session->staging, t->q->chan);
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0, piece; at < size && !err; at += piece) {
		struct cks_slot *slot;

		piece = ck_min(size - at, (size_t)CK_PIECE_MAX);
		err = cks_ring_next(ring, t->q->ctx, t->serial, &slot);
		if (err)
			break;
		err = ck_driver.cuMemcpyDtoHAsync_v2(slot->host, t->dst + at, piece, t->stream);
		if (!err)
			err = cks_slot_mark(slot, t->stream, piece);
		if (!err)
			err = cks_slot_wait(slot);
		if (!err)
			memcpy(bytes + at, slot->host, piece);
	}
	cks_ring_release(ring);
	return err;
}

/* Is the part inside its chunk, and all of it in memory of the session? */
static bool part_is_valid(const struct target *t, const struct ck_stored_part *p)
{
	uint64_t at;

	return p->chunk_size <= CK_CHUNK && p->begin < p->chunk_size && p->size > 0 &&
	       p->size <= p->chunk_size - p->begin && !ck_add_overflow(t->dst, p->offset, &at) &&
	       cks_memory_covers(t->q->session->memory, at, p->size);
}

/* Copy a part of a chunk, of which @bytes is room for. -ENOENT: the store does not have it;
 * -errno. */
static int copy_part(const struct target *t, const struct ck_stored_part *p, unsigned char *bytes,
		     CUresult *err)
{
	struct cks_session *s = t->q->session;
	const unsigned char *held = cks_held_take(s->held, &p->hash, p->chunk_size);
	int ret = held ? 0 : cks_chunk_store_get(s->store, &p->hash, bytes, p->chunk_size);

	if (ret < 0)
		return ret;
	*err = copy_chunk(t, p->offset, (held ? held : bytes) + p->begin, p->size);
	if (held)
		cks_held_done(s->held, &p->hash, p->size);
	cks_start_list_note(s->start, &p->hash);
	return 0;
}

/* @missing: marks for parts whose chunk is not here; NULL: all are here. */
static CUresult copy_stored(const struct target *t, const char *parts, size_t count, char *missing)
{
	unsigned char *bytes = malloc(CK_CHUNK);
	CUresult err = bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; i < count && !err; i++) {
		struct ck_stored_part p;

		memcpy(&p, parts + i * sizeof(p), sizeof(p));
		if (!part_is_valid(t, &p))
			err = CUDA_ERROR_INVALID_VALUE;
		else if (copy_part(t, &p, bytes, &err) == 0)
			continue;
		else if (missing)
			missing[i] = 1;
		else
			err = CUDA_ERROR_OPERATING_SYSTEM;
	}
	free(bytes);
	return err;
}

/* The number of parts; 0: they are not valid. */
static size_t count_parts(size_t size)
{
	size_t count = size / sizeof(struct ck_stored_part);

	return count <= CK_STORED_MOST && size % sizeof(struct ck_stored_part) == 0 ? count : 0;
}

CUresult ck_serve_upload_stored(struct cks_request *q, ck_upload_stored_args *a,
				ck_upload_stored_res *res)
{
	size_t count = count_parts(a->parts.parts_len);
	struct target t;
	CUresult err;

	if (count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = find_target(q, a->dst, a->stream, &t);
	if (err)
		return err;
	cks_chunk_writer_wait(q->session->writer); /* it may have them */
	res->missing.missing_val = calloc(count, 1);
	if (!res->missing.missing_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->missing.missing_len = (u_int)count;
	return copy_stored(&t, a->parts.parts_val, count, res->missing.missing_val);
}

CUresult ck_serve_store_hold(struct cks_request *q, ck_store_hold_args *a, ck_store_hold_res *res)
{
	size_t size = a->hashes.hashes_len, count = size / sizeof(struct ck_hash), held;
	const struct ck_hash *hashes = (void *)a->hashes.hashes_val; /* of bytes */
	struct ck_held_chunk *chunks;

	if (count == 0 || count > CK_HELD_MOST || size % sizeof(hashes[0]) != 0 ||
	    a->needed > count)
		return CUDA_ERROR_INVALID_VALUE;
	chunks = calloc(CK_HELD_MOST, sizeof(chunks[0]));
	if (!chunks)
		return CUDA_ERROR_OUT_OF_MEMORY;
	cks_chunk_writer_wait(q->session->writer); /* it may have them */
	cks_start_list_write(q->session->start);
	held = cks_held_promise(q->session->held, hashes, a->needed, count, chunks, CK_HELD_MOST);
	res->held.held_val = (char *)chunks;
	res->held.held_len = (u_int)(held * sizeof(chunks[0]));
	return CUDA_SUCCESS;
}

/* The client has a promise for each chunk. Without the chunk, the program's next call has to fail:
 * nothing else can bring the bytes. */
CUresult ck_serve_upload_held(struct cks_request *q, ck_upload_held_args *a, void *unused)
{
	size_t count = count_parts(a->parts.parts_len);
	struct target t;
	CUresult err;

	(void)unused;
	if (count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = find_target(q, a->dst, a->stream, &t);
	if (!err)
		err = copy_stored(&t, a->parts.parts_val, count, NULL);
	if (err == CUDA_ERROR_OPERATING_SYSTEM)
		ck_err("kept uploads: a chunk that was in memory cannot be read any more");
	return err;
}

/* Do the lengths of the blocks, of which there are @count, add up to the payload? */
static bool blocks_fit(const struct cks_request *q, const char *lengths, size_t count, size_t size)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t length;

		memcpy(&length, lengths + i * sizeof(length), sizeof(length));
		if (length == 0 || length > ck_min(size - i * CK_PACK_BLOCK, (size_t)CK_PACK_BLOCK))
			return false;
		total += length;
	}
	return total == q->bulk_size;
}

/* Receive one block of @length bytes and expand it to @size bytes; equal lengths: it is not
 * compressed. */
static CUresult receive_block(struct cks_request *q, struct ck_unpacker *unpacker, uint32_t length,
			      unsigned char *to, size_t size)
{
	q->broken =
		ck_reader_bulk(q->reader, length == size ? to : ck_unpack_room(unpacker), length);
	if (q->broken)
		return CUDA_ERROR_UNKNOWN;
	if (length == size)
		return CUDA_SUCCESS;
	return ck_unpack(unpacker, length, to, size) < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult receive_blocks(struct cks_request *q, const char *lengths, unsigned char *to,
			       size_t size)
{
	struct ck_unpacker *unpacker = NULL;
	CUresult err = ck_unpacker_create(&unpacker) < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	uint32_t length;

	for (size_t at = 0; at < size && !err; at += CK_PACK_BLOCK, lengths += sizeof(length)) {
		memcpy(&length, lengths, sizeof(length));
		err = receive_block(q, unpacker, length, to + at,
				    ck_min(size - at, (size_t)CK_PACK_BLOCK));
	}
	ck_unpacker_destroy(unpacker);
	return err;
}

/* The payload: the bytes as they are, or in blocks. */
static CUresult receive_payload(struct cks_request *q, const ck_upload_kept_args *a,
				unsigned char *bytes)
{
	q->broken = ck_reader_bulk_begin(q->reader, q->bulk_offset);
	if (q->broken)
		return CUDA_ERROR_UNKNOWN;
	if (a->blocks.blocks_len > 0)
		return receive_blocks(q, a->blocks.blocks_val, bytes, a->size);
	q->broken = ck_reader_bulk(q->reader, bytes, a->size);
	return q->broken ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Without a payload, the bytes have been uploaded before, for a measurement of the network. */
static CUresult receive_chunk(const struct target *t, const ck_upload_kept_args *a,
			      unsigned char *bytes)
{
	CUresult err;

	if (t->q->bulk_size == 0)
		return fetch_chunk(t, bytes, a->size);
	err = receive_payload(t->q, a, bytes);
	return err ? err : copy_chunk(t, 0, bytes, a->size);
}

static bool kept_is_valid(const struct cks_request *q, const ck_upload_kept_args *a)
{
	size_t count = a->blocks.blocks_len / sizeof(uint32_t);

	if (a->size == 0 || a->size > CK_CHUNK)
		return false;
	if (a->blocks.blocks_len == 0)
		return q->bulk_size == a->size || q->bulk_size == 0;
	return a->blocks.blocks_len % sizeof(uint32_t) == 0 &&
	       count == (a->size + CK_PACK_BLOCK - 1) / CK_PACK_BLOCK &&
	       blocks_fit(q, a->blocks.blocks_val, count, a->size);
}

CUresult ck_serve_upload_kept(struct cks_request *q, ck_upload_kept_args *a,
			      ck_upload_kept_res *res)
{
	struct cks_new_chunk *chunk;
	struct target t;
	CUresult err;

	(void)res;
	if (!kept_is_valid(q, a) || !cks_memory_covers(q->session->memory, a->dst, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	err = find_target(q, a->dst, a->stream, &t);
	if (err)
		return err;
	chunk = malloc(sizeof(*chunk) + a->size);
	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	_Static_assert(sizeof(chunk->hash.bytes) == sizeof(a->hash), "one kind of hash");
	memcpy(chunk->hash.bytes, a->hash, sizeof(a->hash));
	chunk->size = a->size;
	err = receive_chunk(&t, a, chunk->bytes);
	if (err)
		free(chunk);
	else
		cks_chunk_writer_add(q->session->writer, chunk);
	return err;
}
