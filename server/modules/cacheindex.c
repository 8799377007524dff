/*
 * server/modules/cacheindex.c - see cacheindex.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/modules/cachedir.h"
#include "server/modules/cacheindex.h"

#define CK_OWNERS "owners"
#define CK_EMPTY_AGE 3600 /* seconds; the session that made it may be about to use it */

static int open_folder(int dir, const char *name, bool make)
{
	int fd;

	if (make && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cks_cacheindex_open(int dir, const struct ck_hash *owner, bool make)
{
	int owners = open_folder(dir, CK_OWNERS, make), fd;
	char name[CK_HASH_TEXT];

	if (owners < 0)
		return owners;
	ck_hash_print(owner, name);
	fd = open_folder(owners, name, make);
	close(owners);
	return fd;
}

int cks_cacheindex_add(int index, const struct ck_hash *hash, size_t size)
{
	char name[CK_HASH_TEXT];
	int fd, ret;

	ck_hash_print(hash, name);
	fd = openat(index, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = ftruncate(fd, (off_t)size) < 0 || futimens(fd, NULL) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

bool cks_cacheindex_has(int index, const struct ck_hash *hash)
{
	char name[CK_HASH_TEXT];

	ck_hash_print(hash, name);
	return faccessat(index, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void cks_cacheindex_touch(int index, const struct ck_hash *hash)
{
	char name[CK_HASH_TEXT];

	ck_hash_print(hash, name);
	utimensat(index, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* Call @visit for each index of @dir until one call returns true; returns whether one did. */
static bool each_index(int dir,
		       bool (*visit)(int dir, int owners, const char *name,
				     const struct ck_hash *hash),
		       const struct ck_hash *hash)
{
	int owners = open_folder(dir, CK_OWNERS, false);
	struct dirent *entry;
	struct ck_hash owner;
	bool done = false;
	DIR *d = owners >= 0 ? fdopendir(owners) : NULL;

	while (d && !done && (entry = readdir(d))) {
		if (ck_hash_parse(entry->d_name, &owner) == 0)
			done = visit(dir, owners, entry->d_name, hash);
	}
	if (d)
		closedir(d);
	else if (owners >= 0)
		close(owners);
	return done;
}

static bool index_has_hash(int dir, int owners, const char *name, const struct ck_hash *hash)
{
	int index = open_folder(owners, name, false);
	bool has = index >= 0 && cks_cacheindex_has(index, hash);

	(void)dir;
	if (index >= 0)
		close(index);
	return has;
}

size_t cks_cacheindex_evict(int dir, int index, size_t limit)
{
	struct cks_cachefile *entries = NULL;
	long count = cks_cachedir_scan(index, &entries);
	size_t total = 0;

	for (long i = 0; i < count; i++) {
		const struct ck_hash *hash = &entries[i].hash;

		if (entries[i].size <= limit && total <= limit - entries[i].size) {
			total += entries[i].size;
			continue;
		}
		cks_cachedir_remove(index, hash);
		if (!each_index(dir, index_has_hash, hash))
			cks_cachedir_remove(dir, hash);
	}
	free(entries);
	return total;
}

/* Remove entries of one index whose image is not in @dir. Returns the number left. */
static long sweep_one(int dir, int index)
{
	struct cks_cachefile *entries = NULL;
	long count = cks_cachedir_scan(index, &entries), left = count;

	for (long i = 0; i < count; i++) {
		if (cks_cacheindex_has(dir, &entries[i].hash))
			continue;
		cks_cachedir_remove(index, &entries[i].hash);
		left--;
	}
	free(entries);
	return left;
}

/* Also remove an index that has long been empty. Check that first: the sweep updates its time. */
static bool sweep_index(int dir, int owners, const char *name, const struct ck_hash *unused)
{
	int index = open_folder(owners, name, false);
	struct stat st;

	(void)unused;
	if (index < 0)
		return false;
	if (fstat(index, &st) == 0 && sweep_one(dir, index) == 0 &&
	    time(NULL) - st.st_mtime > CK_EMPTY_AGE)
		unlinkat(owners, name, AT_REMOVEDIR);
	close(index);
	return false;
}

void cks_cacheindex_sweep(int dir)
{
	each_index(dir, sweep_index, NULL);
}
