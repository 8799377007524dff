/*
 * server/modules/cachedir.h - the folder of the module cache: finding, listing, writing, evicting.
 */
#ifndef CK_SERVER_MODULES_CACHEDIR_H
#define CK_SERVER_MODULES_CACHEDIR_H

#include <stddef.h>
#include <time.h>

#include "util/hash.h"

#define CK_CACHE_BLOCK 4096u /* a file costs whole blocks: many small ones fill a disk, too */

/* A file of the folder. */
struct ck_cachefile {
	struct ck_hash hash;
	size_t size;	      /* in whole blocks */
	struct timespec used; /* its modification time, which every use renews */
};

/* Open (make) @dir, or the first usual place that works when NULL: a descriptor, or -errno. */
int ck_cachedir_open(const char *dir);

/*
 * All images of the folder, newest first, in memory from malloc. Temporaries that nobody writes
 * any more are removed on the way. The count, or -errno.
 */
long ck_cachedir_scan(int dir, struct ck_cachefile **files);

/* Open the file of @hash for reading: a descriptor, or -errno. */
int ck_cachedir_read(int dir, const struct ck_hash *hash);

/* Write the file of @hash, at once and whole. -errno. */
int ck_cachedir_write(int dir, const struct ck_hash *hash, const void *data, size_t size);

void ck_cachedir_remove(int dir, const struct ck_hash *hash);

/* Remove the files longest unused until the rest holds @limit bytes; the bytes of the rest. */
size_t ck_cachedir_evict(int dir, size_t limit);

#endif
