/*
 * server/store/chunk_store.h - chunks of uploads by the hash of their content, kept on disk for
 * later sessions of the same identity.
 *
 * An identity has a folder of its own in the folder of the module cache: store/KEY/. It contains
 * only uploads of this identity's sessions, so no identity learns what others have. A file is named
 * by its hash, and hashed when it is read. It is written under another name and renamed, so any
 * number of processes may write, and one that is killed leaves no partial file under a hash. Safe
 * from all threads.
 */
#ifndef CK_SERVER_STORE_CHUNK_STORE_H
#define CK_SERVER_STORE_CHUNK_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "util/hash.h"

struct cks_chunk_store;

/*
 * The store of @owner in the cache folder @cache_dir (cks_cachedir_open), of at most @limit bytes.
 * The folder is made when it is needed. *@store is NULL if @limit is 0 or there is no
 * memory: then nothing is kept.
 */
void cks_chunk_store_create(const char *cache_dir, const struct ck_hash *owner, size_t limit,
			    struct cks_chunk_store **store);
void cks_chunk_store_destroy(struct cks_chunk_store *store);

/*
 * Read the chunk of @hash, which has @size bytes, to @data. -ENOENT: it is not here; -EBADMSG: its
 * bytes were altered, and it was removed; -errno. @data is undefined then. @store may be NULL.
 */
int cks_chunk_store_get(struct cks_chunk_store *store, const struct ck_hash *hash, void *data,
			size_t size);

/* The same for a chunk of any size up to CK_CHUNK, the size of @data: its size into *@size. */
int cks_chunk_store_read(struct cks_chunk_store *store, const struct ck_hash *hash, void *data,
			 size_t *size);

/*
 * Keep @size bytes at @data under @hash, and remove the least recently used chunks if there are too
 * many. A @hash of zeros becomes theirs. Several processes may exceed the limit by a sixteenth
 * each. -EBADMSG: the bytes have another hash; -ENOSPC: larger than the limit, or less than a
 * twentieth of the file system and less than 4 GiB are free, or too few files; -errno. @store may
 * be NULL.
 */
int cks_chunk_store_put(struct cks_chunk_store *store, struct ck_hash *hash, const void *data,
			size_t size);

/* Has it a chunk of @hash? Its bytes are checked when they are read. @store may be NULL. */
bool cks_chunk_store_has(struct cks_chunk_store *store, const struct ck_hash *hash);

/* Its content, and its bound in bytes. All are 0 without a store. */
struct cks_chunk_store_state {
	size_t count, bytes, limit;
};
int cks_chunk_store_state(struct cks_chunk_store *store, struct cks_chunk_store_state *state);

/* The folder @name among the chunks, which is made if it is missing: a descriptor, which the caller
 * closes, or -errno. @store may be NULL. */
int cks_chunk_store_folder(struct cks_chunk_store *store, const char *name);

/* Remove all chunks. -errno. @store may be NULL. */
int cks_chunk_store_empty(struct cks_chunk_store *store);

#endif
