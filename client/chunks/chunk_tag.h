/*
 * client/chunks/chunk_tag.h - names of bytes for the user's index, which are found eight times as
 * fast as their hash.
 *
 * A tag is the GMAC (AES-128-GCM without a text) under a key that only this user's index has. Other
 * bytes of a chunk's size have the same tag with a probability of 2^-110, also those that someone
 * chooses who does not know the key. A tag never leaves the index.
 */
#ifndef CK_CLIENT_CHUNKS_CHUNK_TAG_H
#define CK_CLIENT_CHUNKS_CHUNK_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hash.h"

struct ckc_chunk_tags;

struct ckc_chunk_tag {
	uint64_t word[2];
};

/* Tags under the first bytes of @key. NULL: no memory, or this processor takes longer for a tag
 * than for a hash. */
struct ckc_chunk_tags *ckc_chunk_tags_create(const void *key);
void ckc_chunk_tags_destroy(struct ckc_chunk_tags *tags); /* accepts NULL */

/* False: it cannot be found. Any number of threads may ask. */
bool ckc_chunk_tag(const struct ckc_chunk_tags *tags, const void *bytes, size_t size,
		   struct ckc_chunk_tag *tag);

/* The tag and the hash of the same bytes, also if the program writes them meanwhile. */
bool ckc_chunk_tag_hash(const struct ckc_chunk_tags *tags, const void *bytes, size_t size,
			struct ckc_chunk_tag *tag, struct ck_hash *hash);

#endif
