/*
 * server/modules/cachedir.c - files of the module cache; see cachedir.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/modules/cachedir.h"
#include "util/process/disk_cache.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

static int open_one(const char *path)
{
	int ret = ck_disk_cache_make(path), fd;

	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return ret < 0 ? ret : -errno;
}

int cks_cachedir_open(const char *dir)
{
	static const struct {
		const char *variable, *rest;
	} places[] = {{"XDG_CACHE_HOME", "/cricket"}, {"HOME", "/.cache/cricket"}};
	char path[PATH_MAX];
	int fd;

	if (dir && *dir)
		return open_one(dir);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *base = getenv(places[i].variable);

		if (!base || *base != '/' ||
		    snprintf(path, sizeof(path), "%s%s", base, places[i].rest) >= (int)sizeof(path))
			continue;
		fd = open_one(path);
		if (fd >= 0)
			return fd;
	}
	return open_one("/var/cache/cricket");
}

static int newest_first(const void *a, const void *b)
{
	const struct cks_cachefile *x = a, *y = b;
	int order = ck_disk_cache_order(&x->used, &y->used);

	return order ? order : ck_hash_compare(&x->hash, &y->hash);
}

/* Check one name in the folder: true if it is an image. */
static bool scan_name(int dir, const char *name, struct cks_cachefile *file)
{
	bool temporary = ck_disk_cache_is_temporary(name);
	struct stat st;

	if (!temporary && ck_hash_parse(name, &file->hash) < 0)
		return false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (temporary) {
		if (ck_disk_cache_is_abandoned(name, &st))
			unlinkat(dir, name, 0);
		return false;
	}
	file->size = CK_ALIGN_UP((size_t)st.st_size, CK_CACHE_BLOCK);
	file->used = st.st_mtim;
	return true;
}

long cks_cachedir_scan(int dir, struct cks_cachefile **out)
{
	struct cks_cachefile *files = NULL, *bigger;
	size_t count = 0, room = 0;
	struct dirent *entry;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d) {
		int ret = -errno;

		if (fd >= 0)
			close(fd);
		return ret;
	}
	while ((entry = readdir(d))) {
		if (count == room) {
			room = room ? 2 * room : 64;
			bigger = realloc(files, room * sizeof(*files));
			if (!bigger)
				goto no_memory;
			files = bigger;
		}
		if (scan_name(dir, entry->d_name, &files[count]))
			count++;
	}
	closedir(d);
	if (count > 0)
		qsort(files, count, sizeof(*files), newest_first);
	*out = files;
	return (long)count;
no_memory:
	free(files);
	closedir(d);
	return -ENOMEM;
}

int cks_cachedir_read(int dir, const struct ck_hash *hash)
{
	char name[CK_HASH_TEXT];
	struct stat st;
	int fd;

	ck_hash_print(hash, name);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EBADF;
	}
	return fd;
}

int cks_cachedir_write(int dir, const struct ck_hash *hash, const void *data, size_t size)
{
	char name[CK_HASH_TEXT], temporary[CK_DISK_CACHE_TEMPORARY];
	int fd, ret;

	ck_hash_print(hash, name);
	ck_disk_cache_temporary(temporary);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, data, size);
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	/* No fsync: a file truncated by a crash of the machine is detected by its hash. */
	if (ret == 0 && renameat(dir, temporary, dir, name) < 0)
		ret = -errno;
	if (ret < 0)
		unlinkat(dir, temporary, 0);
	return ret;
}

void cks_cachedir_remove(int dir, const struct ck_hash *hash)
{
	char name[CK_HASH_TEXT];

	ck_hash_print(hash, name);
	unlinkat(dir, name, 0);
}

size_t cks_cachedir_evict(int dir, size_t limit)
{
	struct cks_cachefile *files = NULL;
	long count = cks_cachedir_scan(dir, &files);
	size_t total = 0;

	for (long i = 0; i < count; i++) {
		if (files[i].size > limit || total > limit - files[i].size) {
			ck_debug("module cache: %zu bytes go", files[i].size);
			cks_cachedir_remove(dir, &files[i].hash);
		} else {
			total += files[i].size;
		}
	}
	free(files);
	return total;
}
