/*
 * server/modules/modcache.h - images of modules by the hash of their content, kept on disk for
 * later sessions of the same identity.
 *
 * An image is stored once. A session may use only images that it, or a session of the same
 * identity, has sent: knowing a hash gives no access (cacheindex.h).
 *
 * A file is named by its hash. It is written under another name and renamed, so a reader sees all
 * of it or nothing, and any number of processes may write. A killed writer leaves a temporary,
 * which the next one removes. Contents are hashed before use. Without a writable folder, images
 * live in memory for the session. Safe from all threads.
 */
#ifndef CK_SERVER_MODULES_MODCACHE_H
#define CK_SERVER_MODULES_MODCACHE_H

#include <stddef.h>

#include "util/hash.h"

#define CK_IMAGE_MAX (1u << 30) /* bytes per image */
#define CK_MODCACHE_LIST 512	/* images reported to a session */

struct cks_modcache;

/*
 * Open the cache in @dir for @owner (cks_identity.key; NULL: no images are kept or found). The
 * folder may hold @limit bytes, of which @owner_limit may be images of this owner. @dir NULL: the
 * usual place of this user ($XDG_CACHE_HOME/cricket, ~/.cache/cricket, /var/cache/cricket). The
 * images that cks_modcache_list will report are held from now on: other sessions may evict them
 * meanwhile. -ENOMEM; a folder that does not work is logged and not used.
 */
int cks_modcache_open(const char *dir, const struct ck_hash *owner, size_t limit,
		      size_t owner_limit, struct cks_modcache **cache);
void cks_modcache_close(struct cks_modcache *cache);

/* List the hashes of the owner's images, at most CK_MODCACHE_LIST, newest first; returns the
 * number. */
size_t cks_modcache_list(struct cks_modcache *cache, struct ck_hash hashes[CK_MODCACHE_LIST]);

/* Store @size bytes with hash @hash, which the caller has checked. -ENOSPC, -ENOMEM. */
int cks_modcache_put(struct cks_modcache *cache, const struct ck_hash *hash, const void *data,
		     size_t size);

/*
 * Read the image of @hash into memory from malloc, with a zero byte after its end. -ENOENT: not
 * here; -EBADMSG: the file was altered (it is removed); -ENOMEM.
 */
int cks_modcache_get(struct cks_modcache *cache, const struct ck_hash *hash, void **data,
		     size_t *size);

#endif
