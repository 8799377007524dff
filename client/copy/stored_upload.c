/*
 * client/copy/stored_upload.c - uploads that the server keeps, so that the next start of the
 * program need not send them; see client/copy/split_copy.h.
 *
 * An upload is divided into chunks. The index of this user (chunk_index.h) has the hash of a chunk
 * that was uploaded before. The client offers the hashes that it knows; the server copies the
 * chunks that it has to the device, and names the others. These are sent, and each is hashed while
 * buffers of sockets hold it. The server keeps them.
 *
 * Threads and connections are those of any large copy (client/wire/striping.h): each chunk is of
 * the part in which it begins.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/copy/chunk_index.h"
#include "client/copy/chunk_lookup.h"
#include "client/copy/compressed_upload.h"
#include "client/copy/held_upload.h"
#include "client/copy/split_copy.h"
#include "client/copy/state.h"
#include "client/copy/stored_pays.h"
#include "client/copy/upload_source.h"
#include "client/managed/managed.h"
#include "client/wire/compression.h"
#include "client/wire/progress.h"
#include "client/wire/striping.h"
#include "rpc/compress.h"
#include "util/process/private_fds.h"
#include "util/process/stack.h"
#include "util/until.h"

#define SAMPLE ((size_t)8 << 20) /* bytes that show the network's rate */
/* After so many bytes, see whether it pays: at first, and then. Each time costs a round trip. */
#define STEP_FIRST ((size_t)32 << 20)
#define STEP ((size_t)256 << 20)
/* Bytes of the thread's stack, for names of files and lists of chunks. */
#define STACK ((size_t)48 << 10)
#define BLOCKS (CK_CHUNK / CK_PACK_BLOCK)

/* One upload. Threads share it. */
struct upload {
	struct ckc_staged copy;
	uint64_t stream;
	struct ckc_chunk_lookup lookup;
	size_t start; /* of this part in the source */
	bool packed;
	bool placed;	       /* the bytes are on the device; the server keeps what is there */
	_Atomic size_t stored; /* bytes that were not sent */
};

/* A chunk of the upload, or the part of a file's chunk that the upload begins or ends in. */
struct chunk {
	size_t at, size;
	struct ckc_stored_chunk stored;
	bool known, done;
};

/* One thread's part of it. */
struct batch {
	struct upload *u;
	struct chunk *chunks; /* of the range at hand */
	size_t count;
	bool sends; /* chunks have been sent, and their replies not been read: */
	struct ckc_compressed_upload sending;
	unsigned char *blocks; /* room for a compressed chunk; NULL: they are not compressed */
};

static unsigned int thread_count(struct ckc_client *c)
{
	return ck_min(ckc_striping_width(c, 0), (unsigned int)sysconf(_SC_NPROCESSORS_ONLN));
}

/* Note which of the known chunks that begin with number @i are in place, as the reply says of
 * @count; returns their bytes. */
static size_t note_stored(struct batch *b, size_t i, const char *missing, size_t count)
{
	size_t size = 0;

	for (size_t n = 0; n < count; i++) {
		struct chunk *c = &b->chunks[i];

		if (!c->known)
			continue;
		c->done = !missing[n++];
		size += c->done ? c->size : 0;
	}
	return size;
}

/* Offer up to CK_STORED_MOST known chunks, beginning with number *@i, which moves on. */
static CUresult offer_chunks(struct batch *b, size_t *i)
{
	struct upload *u = b->u;
	struct ck_stored_part offer[CK_STORED_MOST];
	size_t first = *i, count = 0, length = 0, size = 0;
	uint64_t began = ck_now_ns();
	void *missing = NULL;
	CUresult err;

	for (; *i < b->count && count < CK_STORED_MOST; ++*i) {
		const struct chunk *c = &b->chunks[*i];

		if (c->known)
			offer[count++] = (struct ck_stored_part){c->at, c->size, c->stored.hash,
								 c->stored.size, c->stored.begin};
	}
	if (count == 0)
		return CUDA_SUCCESS;
	err = ck_wire_upload_stored(u->copy.ctx->object.id, u->copy.device, u->stream, offer,
				    count * sizeof(offer[0]), &missing, &length);
	if (!err && length != count)
		err = CUDA_ERROR_UNKNOWN;
	if (!err)
		size = note_stored(b, first, missing, count);
	u->stored += size;
	ckc_progress_stored(size, began);
	free(missing);
	return err;
}

/* Compress a chunk to @b->blocks; returns its size there, and the lengths of its blocks. */
static size_t pack_chunk(struct batch *b, const char *bytes, size_t size, uint32_t *lengths)
{
	size_t total = 0;

	for (size_t at = 0; at < size; at += CK_PACK_BLOCK, lengths++) {
		size_t plain = ck_min(size - at, (size_t)CK_PACK_BLOCK);
		const void *packed;
		size_t n = ckc_pack_next(&b->sending.run, bytes + at, plain, &packed);

		*lengths = (uint32_t)(n ? n : plain);
		memcpy(b->blocks + total, n ? packed : bytes + at, *lengths);
		total += *lengths;
	}
	return total;
}

/* Is it known, and no part of a larger chunk? */
static bool has_hash(const struct chunk *c)
{
	return c->known && c->stored.size == c->size;
}

/* The server finds a hash that is not known yet. */
static CUresult send_kept(struct batch *b, const struct chunk *c)
{
	struct upload *u = b->u;
	const char *bytes = (const char *)u->copy.host + c->at;
	uint32_t lengths[BLOCKS];
	size_t size = c->size;
	ck_upload_kept_args args = {
		.dst = u->copy.device + c->at, .stream = u->stream, .size = c->size};

	if (has_hash(c))
		memcpy(args.hash, c->stored.hash.bytes, sizeof(args.hash));
	if (u->placed)
		return ckc_pipelined_call(&b->sending.ahead, CK_PROC_upload_kept, &args, NULL, 0);
	if (b->blocks) {
		size = pack_chunk(b, bytes, c->size, lengths);
		bytes = (const char *)b->blocks;
		args.blocks.blocks_val = (char *)lengths;
		args.blocks.blocks_len =
			(u_int)((c->size + CK_PACK_BLOCK - 1) / CK_PACK_BLOCK * sizeof(lengths[0]));
	}
	args.data_length = (u_int)size;
	return ckc_pipelined_call(&b->sending.ahead, CK_PROC_upload_kept, &args, bytes, size);
}

/* Note the hash of a chunk for the next start, if it is still the file's. */
static void note_chunk(const struct upload *u, struct chunk *c)
{
	const struct ckc_chunk_key key =
		ckc_upload_source_key(u->lookup.source, u->start + c->at, c->size);
	struct ckc_chunk_entry entry = {.sure = u->lookup.source->sure};

	if (!has_hash(c))
		ckc_chunk_hash(&u->lookup, u->start + c->at, c->size, &c->stored);
	entry.hash = c->stored.hash;
	if (ckc_upload_source_is_intact(u->lookup.source, u->start + c->at, c->size))
		ckc_chunk_index_put(ck_private_fd_number(u->lookup.index), &key, u->lookup.now,
				    &entry);
}

/* Send a chunk for the server to keep, or only send it if it is not the file's any more. */
static CUresult send_chunk(struct batch *b, struct chunk *c)
{
	struct upload *u = b->u;
	CUresult err;

	if (!ckc_upload_source_is_intact(u->lookup.source, u->start + c->at, c->size))
		return u->placed ? CUDA_SUCCESS
				 : ckc_compressed_upload_bytes(&b->sending, u->copy.device + c->at,
							       (const char *)u->copy.host + c->at,
							       c->size);
	err = send_kept(b, c);
	if (!err)
		note_chunk(u, c);
	return err;
}

static CUresult end_sending(struct batch *b)
{
	if (!b->sends)
		return CUDA_SUCCESS;
	b->sends = false;
	free(b->blocks);
	return ckc_compressed_upload_end(&b->sending);
}

static CUresult send_missing(struct batch *b)
{
	struct upload *u = b->u;
	CUresult err = CUDA_SUCCESS;

	for (size_t i = 0; i < b->count && !err; i++) {
		if (b->chunks[i].done)
			continue;
		if (!b->sends) {
			ckc_compressed_upload_begin(&b->sending, u->copy.ctx, u->stream, u->packed);
			b->blocks = b->sending.packed ? malloc(CK_CHUNK) : NULL;
			b->sends = true;
		}
		err = send_chunk(b, &b->chunks[i]);
	}
	return err;
}

static size_t chunk_end(const struct upload *u, size_t at)
{
	return ckc_upload_source_chunk_end(u->lookup.source, u->start + at) - u->start;
}

/* Where the first chunk at or after @at begins. */
static size_t chunk_begin(const struct upload *u, size_t at)
{
	return at == 0 ? 0 : chunk_end(u, at - 1);
}

/* Look up the chunks that begin in [@at, @hi). True: some are to be offered. */
static bool find_chunks(struct batch *b, size_t at, size_t hi)
{
	struct upload *u = b->u;
	bool known = false;

	for (b->count = 0; at < hi; b->count++) {
		struct chunk *c = &b->chunks[b->count];

		c->at = at;
		at = chunk_end(u, at);
		c->size = ck_min(at, u->copy.size) - c->at;
		c->known = ckc_chunk_find(&u->lookup, u->start + c->at, c->size, &c->stored);
		known = known || c->known;
	}
	return known;
}

/* Upload the chunks that begin in [@lo, @hi) of the copy. */
static CUresult upload_range(struct batch *b, size_t lo, size_t hi)
{
	CUresult err = CUDA_SUCCESS;

	b->chunks = calloc((hi - lo) / CK_CHUNK + 2, sizeof(b->chunks[0]));
	if (!b->chunks)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (find_chunks(b, chunk_begin(b->u, lo),
			hi)) /* the connection is free for calls only after all replies */
		err = end_sending(b);
	for (size_t i = 0; i < b->count && !err;)
		err = offer_chunks(b, &i);
	if (!err)
		err = send_missing(b);
	free(b->chunks);
	return err;
}

static CUresult upload_share(const void *upload, struct ckc_share *share)
{
	struct batch b = {.u = (struct upload *)(uintptr_t)upload};
	CUresult err = CUDA_SUCCESS, ended;
	size_t at, size;

	while (!err && ckc_share_next(share, &at, &size))
		err = upload_range(&b, at, at + size);
	ended = end_sending(&b);
	return err ? err : ended;
}

static CUresult end_part(struct upload *u, size_t size, uint64_t began, CUresult err)
{
	const struct ckc_stored_measure measure = {size, u->stored, u->packed, ck_now_ns() - began};

	if (err)
		ckc_context_outcome(u->copy.ctx->object.id, err);
	else if (!u->placed)
		ckc_stored_measured(u->copy.ctx->client, &measure);
	return err;
}

/* Upload the first @size bytes of @copy, which are at @start of the source. @placed: they are on
 * the device; have the server keep them. */
static CUresult upload_part(const struct ckc_staged *copy, size_t size, size_t start,
			    const struct ckc_chunk_lookup *lookup, bool placed)
{
	bool known = !placed && ckc_chunk_is_known(lookup, start, start + size);
	struct ckc_client *c = copy->ctx->client;
	struct upload u = {
		.copy = *copy,
		.stream = copy->stream ? copy->stream->object.id : 0,
		.lookup = *lookup,
		.start = start,
		.packed = ckc_compression_pays(c, CK_PROC_upload_kept, thread_count(c), 1),
		.placed = placed,
	};
	uint64_t began = ck_now_ns();
	CUresult err;

	u.lookup.rehash = ckc_stored_pays_hashing(c);
	if (known && ckc_held_upload(copy, size, start, &u.lookup, &err)) {
		u.stored = size;
		ckc_progress_stored(size, began);
		return end_part(&u, size, began, err);
	}
	u.copy.size = size;
	/* few offers, as each takes a round trip; all connections end at the same time */
	err = ckc_striping(c, upload_share, &u, size, known ? CK_STRIPING_EVEN : 0);
	return end_part(&u, size, began, err);
}

/* Move the start of @copy by @size bytes. */
static void skip_bytes(struct ckc_staged *copy, size_t size)
{
	copy->device += size;
	copy->host = (char *)copy->host + size;
	copy->size -= size;
}

/* Measure the network by the first bytes of @rest, which are at @start of the source, and remove
 * them from it; does it pay then? They travel as without the store: to hash them takes time. */
static bool sample_pays(struct ckc_staged *rest, size_t start,
			const struct ckc_chunk_lookup *lookup, CUresult *err)
{
	struct ckc_client *c = rest->ctx->client;
	size_t end = ckc_upload_source_chunk_end(lookup->source, start + SAMPLE - 1);
	struct ckc_staged sample = *rest;
	bool pays;

	sample.size = ck_min(rest->size, end - start);
	c->copying->kept.sampled = true;
	*err = ckc_split_copy_upload(&sample);
	pays = !*err && ckc_stored_pays_known(c);
	if (pays)
		*err = upload_part(&sample, sample.size, start, lookup, true);
	skip_bytes(rest, sample.size);
	return pays;
}

/* Once it does not pay, the rest takes the usual way. */
static CUresult upload_parts(const struct ckc_staged *copy, const struct ckc_chunk_lookup *lookup)
{
	struct ckc_client *c = copy->ctx->client;
	struct ckc_staged rest = *copy;
	CUresult err = CUDA_SUCCESS;

	while (rest.size > 0 && !err && ckc_stored_pays(c)) {
		size_t step = c->copying->kept.proven ? STEP : STEP_FIRST;
		size_t start = copy->size - rest.size;
		size_t end = ckc_upload_source_chunk_end(lookup->source, start + step - CK_CHUNK);
		size_t size = ck_min(rest.size, end - start);

		if (ckc_stored_needs_sample(c, ckc_chunk_is_known(lookup, start, copy->size))) {
			if (!sample_pays(&rest, start, lookup, &err))
				break;
			continue;
		}
		err = upload_part(&rest, size, start, lookup, false);
		skip_bytes(&rest, size);
	}
	if (!err && rest.size > 0)
		return ckc_split_copy_upload(&rest);
	ckc_command_called();
	return err;
}

bool ckc_stored_upload(const struct ckc_staged *copy, CUresult *err)
{
	struct ckc_client *c = copy->ctx->client;
	struct ckc_upload_source source;
	struct ck_private_fd index; /* an upload takes long */
	const struct ckc_chunk_lookup lookup = {
		.source = &source, .index = &index, .now = (uint32_t)time(NULL)};
	struct ckc_staged reached = *copy;
	bool takes = false;

	if (!ckc_stored_pays(c) || !ck_stack_has(STACK))
		return false;
	reached.host = ckc_managed_host(copy->host, copy->size, false);
	if (!reached.host)
		return false;
	if (ckc_stored_pays_open(c, reached.host, copy->size, &source)) {
		ck_private_fd_take(&index, ckc_chunk_index_open(), false);
		takes = ck_private_fd_number(&index) >= 0 &&
			(ckc_chunk_is_known(&lookup, 0, copy->size) ||
			 ckc_stored_pays_new(c, &source, copy->device, copy->size));
		if (takes) {
			ckc_stored_recall_link(c, ck_private_fd_number(&index));
			*err = upload_parts(&reached, &lookup);
			ckc_stored_note_link(c, ck_private_fd_number(&index));
		}
		ck_private_fd_close(&index);
		ckc_upload_source_close(&source);
	}
	return takes;
}
