/*
 * launcher/compile/evict.c - list the entries of the kernel cache, and remove some.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/compile/cache.h"
#include "util/process/disk_cache.h"

static DIR *open_folder(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !d)
		close(fd);
	return d;
}

void ckl_cache_remove(struct ckl_cache *cache, const char *name)
{
	char aside[CK_DISK_CACHE_TEMPORARY];
	struct dirent *entry;
	DIR *d;

	/* Rename it first, so that no process sees half of it. */
	ck_disk_cache_temporary(aside);
	if (renameat(cache->root, name, cache->root, aside) < 0)
		return;
	d = open_folder(cache->root, aside);
	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	unlinkat(cache->root, aside, AT_REMOVEDIR);
}

static uint64_t folder_size(int root, const char *name, struct timespec *used)
{
	DIR *d = open_folder(root, name);
	struct dirent *entry;
	uint64_t size = 0;
	struct stat st;

	while (d && (entry = readdir(d))) {
		if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		size += (uint64_t)st.st_size;
		if (strcmp(entry->d_name, "meta.json") == 0)
			*used = st.st_mtim;
	}
	if (d)
		closedir(d);
	return size;
}

/* One name of the root: true when it is an entry. */
static bool list_name(struct ckl_cache *cache, const char *name, struct ckl_listed *listed)
{
	struct ck_hash key;
	struct stat st;

	if (fstatat(cache->root, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return false;
	if (ck_disk_cache_is_temporary(name) && ck_disk_cache_is_abandoned(name, &st))
		ckl_cache_remove(cache, name);
	if (strncmp(name, "kernel_", 7) != 0 || ck_hash_parse(name + 7, &key) < 0)
		return false;
	memcpy(listed->name, name, 7 + CK_HASH_TEXT); /* its length is known by now */
	listed->used = st.st_mtim;
	listed->size = folder_size(cache->root, name, &listed->used);
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct ckl_listed *x = a, *y = b;
	int order = ck_disk_cache_order(&x->used, &y->used);

	return order ? order : strcmp(x->name, y->name);
}

long ckl_cache_list(struct ckl_cache *cache, struct ckl_listed **out)
{
	struct ckl_listed *list = NULL, *bigger;
	size_t count = 0, room = 0;
	struct dirent *entry;
	DIR *d = open_folder(cache->root, ".");

	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		if (count == room) {
			room = room ? 2 * room : 64;
			bigger = realloc(list, room * sizeof(*list));
			if (!bigger)
				break;
			list = bigger;
		}
		if (list_name(cache, entry->d_name, &list[count]))
			count++;
	}
	closedir(d);
	if (count > 0)
		qsort(list, count, sizeof(*list), newest_first);
	*out = list;
	return (long)count;
}

long ckl_cache_evict(struct ckl_cache *cache, uint64_t limit)
{
	struct ckl_listed *list = NULL;
	long count = ckl_cache_list(cache, &list), gone = 0;
	uint64_t total = 0;

	for (long i = 0; i < count; i++) {
		if (list[i].size > limit || total > limit - list[i].size) {
			ckl_cache_remove(cache, list[i].name);
			gone++;
		} else {
			total += list[i].size;
		}
	}
	free(list);
	return gone;
}
