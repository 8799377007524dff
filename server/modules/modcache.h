/*
 * server/modules/modcache.h - images of modules by the hash of their content, kept on disk for later
 * sessions of the same identity.
 *
 * An image is stored once. A session uses those only that it has sent, or that a session of its
 * identity has sent before: knowing a hash gives access to nothing (cacheindex.h).
 *
 * A file is named by its hash, written under another name and renamed: a reader sees all of it or
 * nothing, any number of processes may write, and one that is killed leaves a temporary that the
 * next one removes. What is read is hashed before it is used. Without a folder that can be
 * written, images live in memory for the session. Safe from all threads.
 */
#ifndef CK_SERVER_MODULES_MODCACHE_H
#define CK_SERVER_MODULES_MODCACHE_H

#include <stddef.h>

#include "util/hash.h"

#define CK_IMAGE_MAX (1u << 30) /* bytes of one image */
#define CK_MODCACHE_LIST 512	/* images that a session is told of */

struct ck_modcache;

/*
 * Open the cache in @dir for @owner (ck_identity.key; NULL: nothing is kept or found). The folder
 * may hold @limit bytes, of which @owner_limit may be images of this owner. @dir NULL: the usual
 * place of this user ($XDG_CACHE_HOME/cricket, ~/.cache/cricket, /var/cache/cricket). The images
 * that ck_modcache_list will name are held from now on: other sessions may evict them meanwhile.
 * -ENOMEM; a folder that does not work is logged and done without.
 */
int ck_modcache_open(const char *dir, const struct ck_hash *owner, size_t limit,
		     size_t owner_limit, struct ck_modcache **cache);
void ck_modcache_close(struct ck_modcache *cache);

/* Hashes of the owner's images, at most CK_MODCACHE_LIST, newest first; their number. */
size_t ck_modcache_list(struct ck_modcache *cache, struct ck_hash hashes[CK_MODCACHE_LIST]);

/* Keep a copy of @size bytes whose hash is @hash (the caller has checked). -ENOSPC, -ENOMEM. */
int ck_modcache_put(struct ck_modcache *cache, const struct ck_hash *hash, const void *data,
		    size_t size);

/*
 * The image of @hash in memory from malloc, the caller's, with a zero byte after its end.
 * -ENOENT: not here; -EBADMSG: the file had been altered (it is removed); -ENOMEM.
 */
int ck_modcache_get(struct ck_modcache *cache, const struct ck_hash *hash, void **data,
		    size_t *size);

#endif
