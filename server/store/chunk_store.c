/*
 * server/store/chunk_store.c - see server/store/chunk_store.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "rpc/compress.h"
#include "server/modules/cachedir.h"
#include "server/session/locks.h"
#include "server/store/chunk_store.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define FOLDER "store"
#define FREE_PART 20 /* one part of so many of the file system remains free, or FREE_MOST */
#define FREE_MOST ((size_t)4 << 30)    /* bytes: enough on a large disk */
#define FREE_FILES ((fsfilcnt_t)65536) /* the same of files */
#define COUNT_PART 16 /* the files are counted again when so large a part of the limit has come */

struct cks_chunk_store {
	struct ck_mutex lock;
	char *cache_dir; /* NULL: the usual places */
	struct ck_hash owner;
	size_t limit;
	atomic_bool failed; /* it cannot be opened: do not retry */
	bool counted;	    /* the next two are valid */
	size_t total;	    /* bytes of files, as far as this process knows */
	size_t written;	    /* of them since the files were counted */
	size_t pending;	    /* bytes that threads are about to write: no file has them yet */
};

void cks_chunk_store_create(const char *cache_dir, const struct ck_hash *owner, size_t limit,
			    struct cks_chunk_store **out)
{
	struct cks_chunk_store *s = limit > 0 ? calloc(1, sizeof(*s)) : NULL;

	*out = s;
	if (!s)
		return;
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_STORE);
	s->owner = *owner;
	s->limit = limit;
	s->cache_dir = cache_dir ? strdup(cache_dir) : NULL;
	atomic_init(&s->failed, cache_dir && !s->cache_dir);
}

void cks_chunk_store_destroy(struct cks_chunk_store *s)
{
	if (!s)
		return;
	free(s->cache_dir);
	ck_mutex_destroy(&s->lock);
	free(s);
}

/* Open the folder @name in @dir, made if it is missing, and close @dir. */
static int enter_folder(int dir, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd, ret;

	if (dir < 0)
		return dir;
	fd = openat(dir, name, flags);
	if (fd < 0 && errno == ENOENT && (mkdirat(dir, name, 0700) == 0 || errno == EEXIST))
		fd = openat(dir, name, flags);
	ret = -errno;
	close(dir);
	return fd < 0 ? ret : fd;
}

/*
 * The folder's descriptor, which the caller closes; -errno. None stays open, because a session may
 * move to another server, whose folder has another place.
 */
static int open_store(struct cks_chunk_store *s)
{
	char name[CK_HASH_TEXT];
	int dir;

	if (!s || s->failed)
		return -ENOENT;
	ck_hash_print(&s->owner, name);
	dir = enter_folder(enter_folder(cks_cachedir_open(s->cache_dir), FOLDER), name);
	if (dir < 0 && !atomic_exchange(&s->failed, true))
		ck_warn("uploads are not kept: %s; check --cache-dir", strerror(-dir));
	return dir;
}

int cks_chunk_store_folder(struct cks_chunk_store *s, const char *name)
{
	return enter_folder(open_store(s), name);
}

static bool has_hash(const void *data, size_t size, const struct ck_hash *hash)
{
	struct ck_hash found;

	ck_hash(data, size, &found);
	return ck_hash_equal(&found, hash);
}

/* Read all of the file, at most *@size bytes, which becomes its size. */
static int read_file(int fd, void *data, size_t *size)
{
	struct stat st;
	int ret;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 0 || (size_t)st.st_size > *size)
		return -EBADMSG;
	*size = (size_t)st.st_size;
	ret = ck_fd_pread_full(fd, data, *size, 0);
	return ret == -ENODATA ? -EBADMSG : ret;
}

/* The same for the file of @hash in the folder @dir; one with another content is removed. */
static int read_chunk(int dir, const struct ck_hash *hash, void *data, size_t *size)
{
	int fd = cks_cachedir_read(dir, hash), ret;

	if (fd < 0)
		return fd;
	ret = read_file(fd, data, size);
	if (ret == 0 && !has_hash(data, *size, hash))
		ret = -EBADMSG;
	if (ret == 0)
		futimens(fd, NULL); /* it is used */
	close(fd);
	if (ret == -EBADMSG || ret == -EIO) {
		ck_warn("kept uploads: a file does not have the content of its name: removed");
		cks_cachedir_remove(dir, hash);
	}
	return ret;
}

int cks_chunk_store_read(struct cks_chunk_store *s, const struct ck_hash *hash, void *data,
			 size_t *size)
{
	int dir = open_store(s), ret;

	if (dir < 0)
		return dir;
	*size = CK_CHUNK;
	ret = read_chunk(dir, hash, data, size);
	close(dir);
	return ret;
}

int cks_chunk_store_get(struct cks_chunk_store *s, const struct ck_hash *hash, void *data,
			size_t size)
{
	int dir = open_store(s), ret;
	size_t found = size;

	if (dir < 0)
		return dir;
	ret = read_chunk(dir, hash, data, &found);
	close(dir);
	return ret == 0 && found != size ? -EBADMSG : ret;
}

/* Are there too few files left? Chunks may be small. Some file systems have no number of files. */
static bool files_are_few(const struct statvfs *fs)
{
	return fs->f_files > 0 && fs->f_favail < ck_min(fs->f_files / FREE_PART, FREE_FILES);
}

/* Would a file of @size bytes more leave too little? */
static bool disk_is_full(int dir, size_t size)
{
	struct statvfs fs;

	return fstatvfs(dir, &fs) == 0 &&
	       (files_are_few(&fs) ||
		fs.f_bavail < (ck_min(fs.f_blocks / FREE_PART * fs.f_frsize, FREE_MOST) + size) /
				      fs.f_frsize);
}

/* Count the files, and remove old ones so that @size bytes more fit. */
static void count_files(struct cks_chunk_store *s, int dir, size_t size)
{
	size_t most = s->limit;

	if (s->counted && s->total + size > s->limit)
		most -= s->limit / 8; /* it is full: do not count for each chunk */
	s->total = cks_cachedir_evict(dir, most - ck_min(most, size + s->pending)) + s->pending;
	s->written = 0;
	s->counted = true;
}

/* Count @size bytes that are written next, and remove old files if there are too many then. */
static void begin_chunk(struct cks_chunk_store *s, int dir, size_t size)
{
	ck_lock(&s->lock);
	if (!s->counted || s->written > s->limit / COUNT_PART || s->total + size > s->limit)
		count_files(s, dir, size);
	s->total += size;
	s->written += size;
	s->pending += size;
	ck_unlock(&s->lock);
}

static void end_chunk(struct cks_chunk_store *s, size_t size)
{
	ck_lock(&s->lock);
	s->pending -= size;
	ck_unlock(&s->lock);
}

static int put_chunk(struct cks_chunk_store *s, int dir, const struct ck_hash *hash,
		     const void *data, size_t size)
{
	size_t blocks = CK_ALIGN_UP(size, CK_CACHE_BLOCK);
	int ret;

	if (blocks > s->limit / 2 || disk_is_full(dir, blocks))
		return -ENOSPC;
	begin_chunk(s, dir, blocks);
	ret = cks_cachedir_write(dir, hash, data, size);
	end_chunk(s, blocks);
	return ret;
}

/* Is @hash that of the bytes? Zeros become it. */
static bool find_hash(const void *data, size_t size, struct ck_hash *hash)
{
	static const struct ck_hash zeros;

	if (!ck_hash_equal(hash, &zeros))
		return has_hash(data, size, hash);
	ck_hash(data, size, hash);
	return true;
}

int cks_chunk_store_put(struct cks_chunk_store *s, struct ck_hash *hash, const void *data,
			size_t size)
{
	int dir = open_store(s), ret;

	if (dir < 0)
		return dir;
	ret = find_hash(data, size, hash) ? put_chunk(s, dir, hash, data, size) : -EBADMSG;
	close(dir);
	return ret;
}

bool cks_chunk_store_has(struct cks_chunk_store *s, const struct ck_hash *hash)
{
	int dir = open_store(s), fd;

	if (dir < 0)
		return false;
	fd = cks_cachedir_read(dir, hash);
	close(dir);
	if (fd < 0)
		return false;
	futimens(fd, NULL); /* it is about to be used: others go first */
	close(fd);
	return true;
}

int cks_chunk_store_state(struct cks_chunk_store *s, struct cks_chunk_store_state *state)
{
	struct cks_cachefile *files = NULL;
	int dir = open_store(s);
	long count;

	*state = (struct cks_chunk_store_state){.limit = s ? s->limit : 0};
	if (dir < 0)
		return s ? dir : 0;
	count = cks_cachedir_scan(dir, &files);
	close(dir);
	for (long i = 0; i < count; i++)
		state->bytes += files[i].size;
	state->count = count > 0 ? (size_t)count : 0;
	free(files);
	return count < 0 ? (int)count : 0;
}

int cks_chunk_store_empty(struct cks_chunk_store *s)
{
	int dir = open_store(s);
	size_t left;

	if (dir < 0)
		return s ? dir : 0;
	ck_lock(&s->lock);
	left = cks_cachedir_evict(dir, 0);
	s->counted = false;
	ck_unlock(&s->lock);
	close(dir);
	return left > 0 ? -EIO : 0;
}
