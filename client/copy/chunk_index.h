/*
 * client/copy/chunk_index.h - the hashes of chunks that this user has uploaded, in a file of a
 * bounded size in the user's cache folder: $XDG_CACHE_HOME/cricket/chunks, else
 * ~/.cache/cricket/chunks.
 *
 * Any number of processes may read and write it. A record has a checksum; one that is damaged, or
 * half written, is not found, and a missing or shortened file has no records.
 */
#ifndef CK_CLIENT_COPY_CHUNK_INDEX_H
#define CK_CLIENT_COPY_CHUNK_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash.h"

/* Names a chunk: a part of a file in one of its states, or of other memory. No padding. */
struct ckc_chunk_key {
	uint64_t device, inode, size; /* of the file; of other memory, device is 0 */
	int64_t mtime_ns, ctime_ns;
	uint64_t offset, length; /* of the chunk */
};

/* A chunk as the index knows it. */
struct ckc_chunk_entry {
	struct ck_hash hash;
	bool sure; /* the file's chunk has this hash; else it had, and must be hashed again */
};

/* Open the file, or make it. A descriptor, which the caller closes, or -errno. */
int ckc_chunk_index_open(void);

/* @now is in seconds, as of time(2): the least recently used of a few records make room. */
bool ckc_chunk_index_find(int index, const struct ckc_chunk_key *key, uint32_t now,
			  struct ckc_chunk_entry *entry);
/* A record that cannot be written is left out. */
void ckc_chunk_index_put(int index, const struct ckc_chunk_key *key, uint32_t now,
			 const struct ckc_chunk_entry *entry);

#endif
