/*
 * client/copy/chunk_lookup.h - which chunk of the server's store has the bytes of an upload, by
 * the user's index.
 */
#ifndef CK_CLIENT_COPY_CHUNK_LOOKUP_H
#define CK_CLIENT_COPY_CHUNK_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/copy/upload_source.h"
#include "util/hash.h"
#include "util/process/private_fds.h"

/* Where to look. */
struct ckc_chunk_lookup {
	const struct ckc_upload_source *source;
	struct ck_private_fd *index; /* ckc_chunk_index_open */
	uint32_t now;		     /* seconds, as of time(2) */
	bool rehash;		     /* hash bytes that the index only supposes */
};

/* A chunk that the server may have, and where in it the bytes begin. */
struct ckc_stored_chunk {
	struct ck_hash hash;
	size_t size, begin;
};

/* Find the chunk that has exactly [@at, @at+@size) of the source, or the chunk of the file in which
 * these bytes are. */
bool ckc_chunk_find(const struct ckc_chunk_lookup *lookup, size_t at, size_t size,
		    struct ckc_stored_chunk *chunk);

/* Has the index an entry for the chunk that begins at @at and ends before @end? */
bool ckc_chunk_is_known(const struct ckc_chunk_lookup *lookup, size_t at, size_t end);

/* The hashes of the file's chunks from the one on that contains @at, without those that the index
 * does not know: their number, at most @most. 0 for other memory. */
size_t ckc_chunks_from(const struct ckc_chunk_lookup *lookup, size_t at, struct ck_hash *hashes,
		       size_t most);

/* The chunk that these bytes are. */
void ckc_chunk_hash(const struct ckc_chunk_lookup *lookup, size_t at, size_t size,
		    struct ckc_stored_chunk *chunk);

#endif
