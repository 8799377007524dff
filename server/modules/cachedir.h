/*
 * server/modules/cachedir.h - the folder of the module cache: find, list, write, evict.
 */
#ifndef CK_SERVER_MODULES_CACHEDIR_H
#define CK_SERVER_MODULES_CACHEDIR_H

#include <stddef.h>
#include <time.h>

#include "util/hash.h"

#define CK_CACHE_BLOCK 4096u /* a file occupies whole blocks: many small ones fill a disk too */

/* A file of the folder. */
struct cks_cachefile {
	struct ck_hash hash;
	size_t size;	      /* in whole blocks */
	struct timespec used; /* its modification time, which each use updates */
};

/* Open @dir, or make it; NULL: the first usual place that works. Returns a descriptor, or
 * -errno. */
int cks_cachedir_open(const char *dir);

/*
 * List all images of the folder, newest first, in memory from malloc. Removes abandoned
 * temporaries. Returns the number, or -errno.
 */
long cks_cachedir_scan(int dir, struct cks_cachefile **files);

/* Open the file of @hash for reading: a descriptor, or -errno. */
int cks_cachedir_read(int dir, const struct ck_hash *hash);

/* Write the file of @hash atomically. -errno. */
int cks_cachedir_write(int dir, const struct ck_hash *hash, const void *data, size_t size);

void cks_cachedir_remove(int dir, const struct ck_hash *hash);

/* Remove the least recently used files until the rest fits in @limit bytes; returns the bytes
 * left. */
size_t cks_cachedir_evict(int dir, size_t limit);

#endif
