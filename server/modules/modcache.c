/*
 * server/modules/modcache.c - the module cache of one session; see modcache.h.
 *
 * The session holds a descriptor for each image that it knows, of a file or of memory. So images
 * reported to the client stay available even if their files are removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/modules/cachedir.h"
#include "server/session/locks.h"
#include "server/modules/modcache.h"
#include "server/modules/cacheindex.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/map.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

struct cks_modcache {
	struct ck_mutex lock;
	int dir;   /* -1: memory only */
	int index; /* the owner's; -1: not made yet */
	bool owned;
	struct ck_hash owner;
	size_t limit;	    /* limit for the folder, in bytes */
	size_t owner_limit; /* limit for the owner's images in it, or the session's in memory */
	size_t total;	    /* bytes in the folder, as far as known here; 0: not counted */
	size_t owner_total;
	size_t in_memory;
	size_t kept;	     /* bytes of held files that this session sent */
	struct ck_map *held; /* by hash: descriptor + 1, as a pointer */
	size_t held_max;     /* limit of descriptors for files */
	struct ck_hash listed[CK_MODCACHE_LIST];
	size_t listed_count;
};

static int held_fd(struct cks_modcache *c, const struct ck_hash *hash)
{
	return (int)(intptr_t)ck_map_find(c->held, hash, sizeof(*hash)) - 1;
}

/* Keep @fd for @hash and drop an older one; if it cannot be kept, close it. */
static int hold_image(struct cks_modcache *c, const struct ck_hash *hash, int fd)
{
	int old = held_fd(c, hash);
	int ret;

	if (old >= 0) {
		ck_map_remove(c->held, hash, sizeof(*hash));
		close(old);
	}
	ret = ck_map_insert(c->held, hash, sizeof(*hash), (void *)(intptr_t)(fd + 1));
	if (ret < 0)
		close(fd);
	return ret;
}

/* Open the owner's newest images. Drop entries whose image has been evicted. */
static void hold_newest(struct cks_modcache *c)
{
	struct cks_cachefile *files = NULL;
	long count = cks_cachedir_scan(c->index, &files);

	for (long i = 0; i < count; i++) {
		int fd;

		c->owner_total += files[i].size;
		if (c->listed_count >= ck_min((size_t)CK_MODCACHE_LIST, c->held_max / 2))
			continue;
		fd = cks_cachedir_read(c->dir, &files[i].hash);
		if (fd == -ENOENT) {
			cks_cachedir_remove(c->index, &files[i].hash);
			c->owner_total -= files[i].size;
		}
		if (fd >= 0 && hold_image(c, &files[i].hash, fd) == 0)
			c->listed[c->listed_count++] = files[i].hash;
	}
	free(files);
}

static void open_folders(struct cks_modcache *c, const char *dir)
{
	c->dir = cks_cachedir_open(dir);
	if (c->dir < 0) {
		ck_warn("module cache %s: %s; modules are kept for the session only",
			dir ? dir : "in the usual places", strerror(-c->dir));
		return;
	}
	if (c->owned)
		c->index = cks_cacheindex_open(c->dir, &c->owner, false);
	if (c->index >= 0)
		hold_newest(c);
}

int cks_modcache_open(const char *dir, const struct ck_hash *owner, size_t limit,
		      size_t owner_limit, struct cks_modcache **out)
{
	struct cks_modcache *c = calloc(1, sizeof(*c));
	struct rlimit files = {.rlim_cur = 256};

	if (!c)
		return -ENOMEM;
	c->held = ck_map_create();
	if (!c->held) {
		free(c);
		return -ENOMEM;
	}
	c->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CACHE);
	getrlimit(RLIMIT_NOFILE, &files);
	c->held_max = files.rlim_cur / 2;
	c->limit = limit;
	c->owner_limit = ck_min(owner_limit, limit);
	c->index = -1;
	c->owned = owner != NULL;
	if (owner)
		c->owner = *owner;
	open_folders(c, dir);
	*out = c;
	return 0;
}

void cks_modcache_close(struct cks_modcache *c)
{
	struct ck_map_iter it = CK_MAP_ITER_INIT;

	if (!c)
		return;
	while (ck_map_next(c->held, &it))
		close((int)(intptr_t)it.value - 1);
	ck_map_destroy(c->held);
	if (c->index >= 0)
		close(c->index);
	if (c->dir >= 0)
		close(c->dir);
	ck_mutex_destroy(&c->lock);
	free(c);
}

size_t cks_modcache_list(struct cks_modcache *c, struct ck_hash hashes[CK_MODCACHE_LIST])
{
	memcpy(hashes, c->listed, c->listed_count * sizeof(hashes[0]));
	return c->listed_count;
}

/* Record in the owner's index that it sent the image. */
static int index_image(struct cks_modcache *c, const struct ck_hash *hash, size_t size)
{
	if (!c->owned)
		return -ENOENT;
	if (c->index < 0)
		c->index = cks_cacheindex_open(c->dir, &c->owner, true);
	return c->index < 0 ? c->index : cks_cacheindex_add(c->index, hash, size);
}

static void evict_images(struct cks_modcache *c, size_t added)
{
	bool counted = c->total > 0;

	c->owner_total += added;
	c->total += added;
	if (c->owner_total > c->owner_limit) {
		c->owner_total =
			cks_cacheindex_evict(c->dir, c->index, c->owner_limit - c->owner_limit / 8);
		counted = false;
	}
	if (counted && c->total <= c->limit)
		return;
	c->total = cks_cachedir_evict(c->dir, counted ? c->limit - c->limit / 8 : c->limit);
	if (counted)
		cks_cacheindex_sweep(c->dir);
}

/*
 * Store in the folder. 0 also means that the file is held or can be opened when needed. Held files
 * are limited too: an evicted file takes disk space until it is closed.
 */
static int put_file(struct cks_modcache *c, const struct ck_hash *hash, const void *data,
		    size_t size)
{
	int ret, fd = -1;

	if (c->dir < 0 || size > c->owner_limit)
		return -ENOSPC;
	ret = index_image(c, hash, size);
	if (ret == 0)
		ret = cks_cachedir_write(c->dir, hash, data, size);
	if (ret < 0) {
		ck_debug("module cache: cannot write: %s", strerror(-ret));
		return ret;
	}
	if (ck_map_count(c->held) < c->held_max && c->kept <= c->owner_limit - size)
		fd = cks_cachedir_read(c->dir, hash);
	if (fd >= 0 && hold_image(c, hash, fd) == 0)
		c->kept += size;
	evict_images(c, CK_ALIGN_UP(size, CK_CACHE_BLOCK));
	return 0;
}

static int put_memory(struct cks_modcache *c, const struct ck_hash *hash, const void *data,
		      size_t size)
{
	int fd, ret;

	if (held_fd(c, hash) >= 0)
		return 0;
	if (size > c->owner_limit || c->in_memory > c->owner_limit - size) {
		ck_err("modules of this session take more than %zu bytes "
		       "(--cache-per-identity, --cache-size)",
		       c->owner_limit);
		return -ENOSPC;
	}
	fd = memfd_create("cricket-module", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, data, size);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	ret = hold_image(c, hash, fd);
	if (ret == 0)
		c->in_memory += size;
	return ret;
}

int cks_modcache_put(struct cks_modcache *c, const struct ck_hash *hash, const void *data,
		     size_t size)
{
	int ret;

	ck_lock(&c->lock);
	ret = put_file(c, hash, data, size);
	if (ret < 0)
		ret = put_memory(c, hash, data, size);
	ck_unlock(&c->lock);
	return ret;
}

/* Read all of @fd into memory, and check that its hash is @hash. */
static int read_image(int fd, const struct ck_hash *hash, void **data, size_t *size)
{
	struct ck_hash found;
	struct stat st;
	char *image;
	bool whole;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)CK_IMAGE_MAX)
		return -EBADMSG;
	image = malloc((size_t)st.st_size + 1);
	if (!image)
		return -ENOMEM;
	whole = ck_fd_pread_full(fd, image, (size_t)st.st_size, 0) == 0;
	if (whole)
		ck_hash(image, (size_t)st.st_size, &found);
	if (!whole || !ck_hash_equal(&found, hash)) {
		free(image);
		return -EBADMSG;
	}
	image[st.st_size] = '\0';
	*data = image;
	*size = (size_t)st.st_size;
	return 0;
}

static int get_image(struct cks_modcache *c, const struct ck_hash *hash, void **data, size_t *size)
{
	int fd = held_fd(c, hash), ret;
	bool kept = fd >= 0;

	if (!kept && c->index >= 0 && cks_cacheindex_has(c->index, hash))
		fd = cks_cachedir_read(c->dir, hash);
	if (fd < 0)
		return -ENOENT;
	ret = read_image(fd, hash, data, size);
	if (ret == 0) { /* update its time, unless the folder is read-only */
		futimens(fd, NULL);
		if (c->index >= 0)
			cks_cacheindex_touch(c->index, hash);
	}
	if (ret == -EBADMSG) {
		ck_warn("module cache: the content of a file does not match its name: removed");
		if (c->dir >= 0)
			cks_cachedir_remove(c->dir, hash);
		if (kept)
			ck_map_remove(c->held, hash, sizeof(*hash));
	}
	if (!kept || ret == -EBADMSG)
		close(fd);
	return ret;
}

int cks_modcache_get(struct cks_modcache *c, const struct ck_hash *hash, void **data, size_t *size)
{
	int ret;

	ck_lock(&c->lock);
	ret = get_image(c, hash, data, size);
	ck_unlock(&c->lock);
	return ret;
}
