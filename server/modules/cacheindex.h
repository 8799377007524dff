/*
 * server/modules/cacheindex.h - which identity has uploaded which image of the module cache.
 *
 * An image is stored once, in the cache's folder. In it, owners/KEY/ is the index of one identity:
 * an entry for each image that it has uploaded, which has the image's name and size but no bytes.
 * An index is scanned and evicted like a folder of images (cachedir.h).
 */
#ifndef CK_SERVER_MODULES_CACHEINDEX_H
#define CK_SERVER_MODULES_CACHEINDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "util/hash.h"

/* Open the index of @owner in folder @dir; @make it if there is none. A descriptor, or -errno. */
int ck_cacheindex_open(int dir, const struct ck_hash *owner, bool make);

/* Enter an image of @size bytes, as used now. -errno. */
int ck_cacheindex_add(int index, const struct ck_hash *hash, size_t size);

bool ck_cacheindex_has(int index, const struct ck_hash *hash);

/* The image was used now. */
void ck_cacheindex_touch(int index, const struct ck_hash *hash);

/*
 * Remove the entries longest unused until the rest holds @limit bytes, and those of their images
 * that no index names any more; the bytes of the rest.
 */
size_t ck_cacheindex_evict(int dir, int index, size_t limit);

/* Remove entries of all indices whose image is gone, and indices that have been empty for long. */
void ck_cacheindex_sweep(int dir);

#endif
