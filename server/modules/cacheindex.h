/*
 * server/modules/cacheindex.h - records which identity has uploaded which image of the module
 * cache.
 *
 * The cache's folder stores an image once. Its subfolder owners/KEY/ is the index of one identity.
 * The index has an entry for each image uploaded, with the image's name and size but no bytes. An
 * index is scanned and evicted like a folder of images (cachedir.h).
 */
#ifndef CK_SERVER_MODULES_CACHEINDEX_H
#define CK_SERVER_MODULES_CACHEINDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "util/hash.h"

/* Open the index of @owner in folder @dir; with @make, create it. Returns a descriptor, or
 * -errno. */
int cks_cacheindex_open(int dir, const struct ck_hash *owner, bool make);

/* Add an image of @size bytes, used now. -errno. */
int cks_cacheindex_add(int index, const struct ck_hash *hash, size_t size);

bool cks_cacheindex_has(int index, const struct ck_hash *hash);

/* Mark the image as used now. */
void cks_cacheindex_touch(int index, const struct ck_hash *hash);

/*
 * Remove the least recently used entries until the rest fits in @limit bytes, and their images if
 * no index names them; returns the bytes left.
 */
size_t cks_cacheindex_evict(int dir, int index, size_t limit);

/* Remove entries of all indices whose image is gone, and indices that have long been empty. */
void cks_cacheindex_sweep(int dir);

#endif
