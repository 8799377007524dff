/*
 * server/checkpoint/store.c - see store.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/store.h"

#define CK_STORE_DEPTH 16 /* descriptors that the removal of a tree takes */

static int sync_parent(const char *path)
{
	char parent[CK_STORE_PATH];
	char *slash;
	int fd, ret;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = '\0';
	fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* Without slashes at the end, which would name a place inside the folder. */
static int set_path(struct cks_store *store, const char *path, struct cks_why *why)
{
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	if (size == 0 || size >= sizeof(store->path))
		return cks_why_set(why, ENAMETOOLONG, "%.100s: %m", path);
	snprintf(store->path, sizeof(store->path), "%.*s", (int)size, path);
	snprintf(store->part, sizeof(store->part), "%s.part-XXXXXX", store->path);
	return 0;
}

int cks_store_begin(const char *path, bool replace, struct cks_store *store, struct cks_why *why)
{
	struct stat st;
	int ret = set_path(store, path, why);

	store->dir = -1;
	if (ret < 0)
		return ret;
	if (lstat(store->path, &st) == 0 && (!replace || !S_ISDIR(st.st_mode)))
		return cks_why_set(why, EEXIST, "%s: %m", store->path);
	if (!mkdtemp(store->part)) /* with mode 0700 */
		return cks_why_set(why, errno, "%s: %m", store->part);
	store->dir = open(store->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (store->dir >= 0)
		return 0;
	ret = cks_why_set(why, errno, "%s: %m", store->part);
	rmdir(store->part);
	return ret;
}

int cks_store_commit(struct cks_store *store, struct cks_why *why)
{
	bool replaced = false;
	int ret = fsync(store->dir) < 0 ? -errno : 0;

	if (ret == 0 &&
	    renameat2(AT_FDCWD, store->part, AT_FDCWD, store->path, RENAME_NOREPLACE) < 0) {
		replaced = errno == EEXIST && renameat2(AT_FDCWD, store->part, AT_FDCWD,
							store->path, RENAME_EXCHANGE) == 0;
		ret = replaced ? 0 : -errno;
	}
	if (ret == 0) {
		ret = sync_parent(store->path);
		if (ret < 0) /* its caller goes on as if it had no name */
			renameat2(AT_FDCWD, store->path, AT_FDCWD, store->part,
				  replaced ? RENAME_EXCHANGE : RENAME_NOREPLACE);
	}
	if (ret < 0)
		return cks_why_set(why, -ret, "%s: %m", store->path);
	if (replaced)
		cks_store_remove(store->part);
	close(store->dir);
	store->dir = -1;
	return 0;
}

void cks_store_abandon(struct cks_store *store)
{
	if (store->dir < 0)
		return;
	close(store->dir);
	store->dir = -1;
	cks_store_remove(store->part);
}

int cks_store_open(const char *path, struct cks_why *why)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), ret = 0;
	struct stat st;

	if (dir < 0 || fstat(dir, &st) < 0)
		ret = cks_why_set(why, errno, "%s: %m", path);
	else if (st.st_uid != geteuid())
		ret = cks_why_set(why, EPERM, "%s belongs to another user than the server", path);
	else if (st.st_mode & 077)
		ret = cks_why_set(why, EPERM,
				  "%s: other users can access it (its mode must be 0700)", path);
	if (ret == 0)
		return dir;
	if (dir >= 0)
		close(dir);
	return ret;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

void cks_store_remove(const char *path)
{
	nftw(path, remove_one, CK_STORE_DEPTH, FTW_DEPTH | FTW_PHYS);
}
