/*
 * client/copy/chunk_lookup.c - see client/copy/chunk_lookup.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/chunk_index.h"
#include "client/copy/chunk_lookup.h"
#include "util/util.h"

void ckc_chunk_hash(const struct ckc_chunk_lookup *l, size_t at, size_t size,
		    struct ckc_stored_chunk *chunk)
{
	*chunk = (struct ckc_stored_chunk){.size = size};
	ck_hash(l->source->bytes + at, size, &chunk->hash);
}

/* Hash a chunk of the file that has the @size bytes at @at of the upload at @begin. */
static bool hash_whole(const struct ckc_chunk_lookup *l, const struct ckc_chunk_key *key,
		       size_t begin, size_t at, size_t size, struct ck_hash *hash)
{
	char *bytes = malloc(key->length);
	bool has = bytes && ckc_upload_source_read(l->source, key, bytes) == 0 &&
		   memcmp(bytes + begin, l->source->bytes + at, size) == 0;

	if (has)
		ck_hash(bytes, key->length, hash);
	free(bytes);
	return has;
}

/* Does the index know that the chunk still has this hash? */
static bool is_sure(const struct ckc_chunk_lookup *l, const struct ckc_chunk_entry *entry)
{
	return entry->sure && l->source->sure;
}

/* `cricket put` or an upload of more has stored it. */
static bool find_whole(const struct ckc_chunk_lookup *l, size_t at, size_t size,
		       struct ckc_stored_chunk *chunk)
{
	struct ckc_chunk_entry entry;
	size_t begin;
	const struct ckc_chunk_key key = ckc_upload_source_whole(l->source, at, &begin);

	if (key.length == size ||
	    !ckc_chunk_index_find(ck_private_fd_number(l->index), &key, l->now, &entry) ||
	    !(is_sure(l, &entry) ||
	      (l->rehash && hash_whole(l, &key, begin, at, size, &entry.hash))) ||
	    !ckc_upload_source_is_intact(l->source, at, size))
		return false;
	*chunk = (struct ckc_stored_chunk){entry.hash, key.length, begin};
	return true;
}

/* Hash a chunk of which the index only supposes the hash, and have it know that if the file's state
 * tells by now. */
static void hash_again(const struct ckc_chunk_lookup *l, const struct ckc_chunk_key *key, size_t at,
		       size_t size, struct ckc_stored_chunk *chunk)
{
	ckc_chunk_hash(l, at, size, chunk);
	if (l->source->sure && ckc_upload_source_is_intact(l->source, at, size))
		ckc_chunk_index_put(ck_private_fd_number(l->index), key, l->now,
				    &(struct ckc_chunk_entry){chunk->hash, true});
}

bool ckc_chunk_find(const struct ckc_chunk_lookup *l, size_t at, size_t size,
		    struct ckc_stored_chunk *chunk)
{
	const struct ckc_chunk_key key = ckc_upload_source_key(l->source, at, size);
	struct ckc_chunk_entry entry;

	if (!ckc_chunk_index_find(ck_private_fd_number(l->index), &key, l->now, &entry))
		return find_whole(l, at, size, chunk);
	if (is_sure(l, &entry) && ckc_upload_source_is_intact(l->source, at, size))
		*chunk = (struct ckc_stored_chunk){entry.hash, size, 0};
	else if (l->rehash)
		hash_again(l, &key, at, size, chunk);
	else
		return false;
	return true;
}

size_t ckc_chunks_from(const struct ckc_chunk_lookup *l, size_t at, struct ck_hash *hashes,
		       size_t most)
{
	const struct ckc_upload_source *s = l->source;
	struct ckc_chunk_entry entry;
	struct ckc_chunk_key key;
	size_t count = 0, begin;

	for (; s->file && s->key.offset + at < s->key.size && count < most;
	     at = ckc_upload_source_chunk_end(s, at)) {
		key = ckc_upload_source_whole(s, at, &begin);
		if (ckc_chunk_index_find(ck_private_fd_number(l->index), &key, l->now, &entry))
			hashes[count++] = entry.hash;
	}
	return count;
}

bool ckc_chunk_is_known(const struct ckc_chunk_lookup *l, size_t at, size_t end)
{
	size_t begin, size = ck_min(end, ckc_upload_source_chunk_end(l->source, at)) - at;
	const struct ckc_chunk_key own = ckc_upload_source_key(l->source, at, size);
	const struct ckc_chunk_key whole = ckc_upload_source_whole(l->source, at, &begin);
	struct ckc_chunk_entry entry;

	return ckc_chunk_index_find(ck_private_fd_number(l->index), &own, l->now, &entry) ||
	       ckc_chunk_index_find(ck_private_fd_number(l->index), &whole, l->now, &entry);
}
