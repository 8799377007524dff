/*
 * client/copy/held_upload.c - see client/copy/held_upload.h.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/copy/chunk_lookup.h"
#include "client/copy/held_upload.h"
#include "client/copy/staging.h"
#include "client/copy/state.h"
#include "client/link/client.h"
#include "client/link/hooks.h"
#include "client/wire/striping.h"
#include "gen/wire.h"
#include "rpc/compress.h"
#include "util/map.h"
#include "util/until.h"
#include "util/util.h"

/* The server keeps promised chunks for twice as long (server/store/held_reads.c). */
#define PROMISE_NS 5000000000u
/* After an answer that was of no use, the next question comes with one of so many uploads. */
#define PAUSE 16

/* A chunk that the server holds. */
struct promise {
	struct ck_hash hash;
	uint64_t size, left; /* of the chunk; of the bytes that may still be copied */
};

/* Parts of an upload: each is in one chunk. */
struct parts {
	struct ck_stored_part *list;
	size_t count;
};

static struct promise *find_promise(const struct ckc_promises *p, const struct ck_hash *hash)
{
	return p->chunks ? ck_map_find(p->chunks, hash, sizeof(*hash)) : NULL;
}

static void forget_promises(struct ckc_promises *p)
{
	ck_map_destroy(p->chunks);
	free(p->list);
	p->chunks = NULL;
	p->list = NULL;
}

/* The session was the parent's, of which a thread may have been at work here. */
static void reset_promises_in_child(struct ckc_client *c)
{
	struct ckc_promises *p = &c->copying->promises;

	ck_mutex_renew(&p->lock);
	p->chunks = NULL;
	p->list = NULL;
}
CK_ON_FORK(reset_promises_in_child);

/* A chunk that is there several times is promised as often. */
static void add_promise(struct ckc_promises *p, size_t i, const struct ck_held_chunk *held)
{
	struct promise *found = find_promise(p, &held->hash);

	if (found) {
		found->left += held->size;
		return;
	}
	p->list[i] = (struct promise){held->hash, held->size, held->size};
	ck_map_insert(p->chunks, &held->hash, sizeof(held->hash), &p->list[i]);
}

/* In place of all earlier promises; they were asked for at @now. */
static void note_promises(struct ckc_promises *p, const char *held, size_t count, uint64_t now)
{
	struct ck_held_chunk chunk;

	forget_promises(p);
	p->list = calloc(count, sizeof(p->list[0]));
	p->chunks = ck_map_create();
	p->asked_ns = now;
	for (size_t i = 0; p->list && p->chunks && i < count; i++) {
		memcpy(&chunk, held + i * sizeof(chunk), sizeof(chunk));
		add_promise(p, i, &chunk);
	}
}

/* Use promises for the parts: all of them, or none. */
static bool use_promises(struct ckc_promises *p, const struct parts *parts)
{
	size_t i;

	if (ck_now_ns() - p->asked_ns >= PROMISE_NS)
		return false;
	for (i = 0; i < parts->count; i++) {
		const struct ck_stored_part *part = &parts->list[i];
		struct promise *found = find_promise(p, &part->hash);

		if (!found || found->size != part->chunk_size || found->left < part->size)
			break;
		found->left -= part->size;
	}
	if (i == parts->count)
		return true;
	while (i-- > 0)
		find_promise(p, &parts->list[i].hash)->left += parts->list[i].size;
	return false;
}

/* The hashes of the parts, and of the next ones in the file. Returns their number. */
static size_t list_hashes(const struct parts *parts, const struct ckc_chunk_lookup *lookup,
			  size_t end, struct ck_hash *hashes)
{
	for (size_t i = 0; i < parts->count; i++)
		hashes[i] = parts->list[i].hash;
	return parts->count +
	       ckc_chunks_from(lookup, end, hashes + parts->count, CK_HELD_MOST - parts->count);
}

/* Ask the server to hold the chunks of @parts, which end at @end of the source. All promises that
 * it has made before end then. */
static CUresult ask_server(struct ckc_promises *p, const struct parts *parts,
			   const struct ckc_chunk_lookup *lookup, size_t end)
{
	struct ck_hash *hashes = malloc(CK_HELD_MOST * sizeof(hashes[0]));
	uint64_t now = ck_now_ns();
	size_t count, length = 0;
	void *held = NULL;
	CUresult err;

	if (!hashes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	count = list_hashes(parts, lookup, end, hashes);
	err = ck_wire_store_hold(0, (unsigned int)parts->count, hashes, count * sizeof(hashes[0]),
				 &held, &length);
	forget_promises(p);
	if (!err && length > 0)
		note_promises(p, held, length / sizeof(struct ck_held_chunk), now);
	free(held);
	free(hashes);
	return err;
}

/* Was the last answer of no use, a short time ago? */
static bool pauses(struct ckc_promises *p)
{
	bool is;

	ck_lock(&p->lock);
	is = p->pause > 0;
	p->pause -= is;
	ck_unlock(&p->lock);
	return is;
}

/* Have promises for the parts, if need be after asking for them. Call with the lock held. */
static bool have_promises(struct ckc_promises *p, const struct parts *parts,
			  const struct ckc_chunk_lookup *lookup, size_t end)
{
	if (use_promises(p, parts) ||
	    (ask_server(p, parts, lookup, end) == CUDA_SUCCESS && use_promises(p, parts)))
		return true;
	p->pause = PAUSE;
	return false;
}

static CUresult send_parts(const struct ckc_staged *copy, const struct parts *parts)
{
	uint64_t stream = copy->stream ? copy->stream->object.id : 0;
	CUresult err = CUDA_SUCCESS;

	for (size_t i = 0, n; i < parts->count && !err; i += n) {
		n = ck_min(parts->count - i, (size_t)CK_STORED_MOST);
		err = ck_wire_upload_held(copy->ctx->object.id, copy->device, stream,
					  parts->list + i, n * sizeof(parts->list[0]));
	}
	return err;
}

/* The chunks of one upload. Threads that hash share it. */
struct search {
	const struct ckc_chunk_lookup *lookup;
	size_t size, start;
	struct parts *parts;
	_Atomic bool lacks; /* a chunk was not found */
};

/* Where the chunk that contains @at ends. */
static size_t part_end(const struct search *s, size_t at)
{
	return ckc_upload_source_chunk_end(s->lookup->source, s->start + at) - s->start;
}

/* The number of the chunk that begins at @at. */
static size_t number_of(const struct search *s, size_t at)
{
	return at == 0 ? 0 : (at - part_end(s, 0)) / CK_CHUNK + 1;
}

/* Enter the chunk that begins at @at. */
static bool find_part(const struct search *s, const struct ckc_chunk_lookup *lookup, size_t at)
{
	size_t n = ck_min(s->size, part_end(s, at)) - at;
	struct ckc_stored_chunk chunk;

	if (!ckc_chunk_find(lookup, s->start + at, n, &chunk))
		return false;
	s->parts->list[number_of(s, at)] =
		(struct ck_stored_part){at, n, chunk.hash, chunk.size, chunk.begin};
	return true;
}

/* Find and hash the chunks that begin in the parts of @share. */
static CUresult hash_share(const void *search, struct ckc_share *share)
{
	struct search *s = (struct search *)(uintptr_t)search;
	size_t at, size;

	while (ckc_share_next(share, &at, &size)) {
		size_t end = at + size;

		for (at = at == 0 ? 0 : part_end(s, at - 1); at < end && !s->lacks;
		     at = part_end(s, at)) {
			if (!find_part(s, s->lookup, at))
				s->lacks = true;
		}
	}
	return CUDA_SUCCESS;
}

/* Find all chunks in the index. If it only supposes some hashes, and the network is slow enough,
 * hash the bytes. */
static bool find_parts(struct ckc_client *c, struct search *s)
{
	struct ckc_chunk_lookup sure = *s->lookup;
	bool all = true;

	sure.rehash = false;
	for (size_t at = 0; at < s->size; at = part_end(s, at), s->parts->count++) {
		all = all && find_part(s, &sure, at);
		if (!all && !(s->lookup->rehash &&
			      ckc_chunk_is_known(s->lookup, s->start + at, s->start + s->size)))
			return false;
	}
	if (s->parts->count > CK_HELD_MOST / 2)
		return false;
	return all || (!ckc_striping(c, hash_share, s, s->size, 0) && !s->lacks);
}

bool ckc_held_upload(const struct ckc_staged *copy, size_t size, size_t start,
		     const struct ckc_chunk_lookup *lookup, CUresult *err)
{
	struct ckc_client *c = copy->ctx->client;
	struct ckc_promises *p = &c->copying->promises;
	struct parts parts = {.count = 0};
	struct search search = {lookup, size, start, &parts, false};
	bool held = false;

	if (!ckc_session_offers(c, CK_PROC_store_hold) ||
	    !ckc_session_offers(c, CK_PROC_upload_held) || pauses(p))
		return false;
	parts.list = calloc(size / CK_CHUNK + 2, sizeof(parts.list[0]));
	if (parts.list && find_parts(c, &search)) {
		/* held until the commands are sent: a question ends the promises that they use */
		ck_lock(&p->lock);
		held = have_promises(p, &parts, lookup, start + size);
		if (held)
			*err = send_parts(copy, &parts);
		ck_unlock(&p->lock);
	}
	free(parts.list);
	return held;
}
