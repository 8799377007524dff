/*
 * launcher/compile/cache.c - the kernel cache: where it is, reading and writing entries; see
 * cache.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/compile/cache.h"
#include "launcher/text/file.h"
#include "util/process/disk_cache.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("launcher");

#define FORMAT 1
#define META "meta.json"

/* The folder of the first versions, if it exists and no other user can write to it. */
static bool is_own_folder(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool usual_place(char *path, size_t size)
{
	static const struct {
		const char *variable, *rest;
	} places[] = {{"CRICKET_CACHE_DIR", "/gpu_kernels"},
		      {NULL, ".cache/gpu_kernels"},
		      {"XDG_CACHE_HOME", "/gpu_kernels"},
		      {"HOME", "/.cache/gpu_kernels"}};

	for (size_t i = 0; i < CK_ARRAY_SIZE(places); i++) {
		const char *base = places[i].variable ? getenv(places[i].variable) : "";

		if (!places[i].variable && !is_own_folder(places[i].rest))
			continue;
		if (base && (*base == '/' || !places[i].variable))
			return snprintf(path, size, "%s%s", base, places[i].rest) < (int)size;
	}
	return false;
}

struct ckl_cache *ckl_cache_open(const char *dir, uint64_t limit)
{
	struct ckl_cache *cache = calloc(1, sizeof(*cache));
	char path[PATH_MAX];
	int ret;

	if (!cache)
		return NULL;
	if (!dir && usual_place(path, sizeof(path)))
		dir = path;
	ret = dir ? ck_disk_cache_make(dir) : -ENOENT;
	cache->root = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cache->path = cache->root >= 0 ? realpath(dir, NULL) : NULL;
	if (!cache->path || mkdirat(cache->root, "locks", 0700) < 0) {
		if (!cache->path || errno != EEXIST) {
			ck_warn("no kernel cache: %s: %s", dir ? dir : "no home",
				strerror(ret ? -ret : errno));
			ckl_cache_close(cache);
			return NULL;
		}
	}
	cache->limit = limit;
	return cache;
}

void ckl_cache_close(struct ckl_cache *cache)
{
	if (!cache)
		return;
	if (cache->root >= 0)
		close(cache->root);
	free(cache->path);
	free(cache);
}

/* One of 256 locks: few files for any number of entries. */
int ckl_cache_lock(struct ckl_cache *cache, const struct ck_hash *key)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "locks/%02x", key->bytes[0]);
	fd = openat(cache->root, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0) {
		if (errno == EINTR)
			continue;
		close(fd);
		return -errno;
	}
	return fd;
}

static void entry_name(const struct ck_hash *key, char name[CK_HASH_TEXT + 8])
{
	memcpy(name, "kernel_", 7);
	ck_hash_print(key, name + 7);
}

/* --- reading */

/* The content of meta.json, if this version wrote it. */
static json_t *meta_read(int dir)
{
	json_t *meta = NULL;
	char *text;
	size_t size;

	if (ckl_file_read(dir, META, &text, &size, NULL) < 0)
		return NULL;
	meta = json_loadb(text, size, 0, NULL);
	free(text);
	if (json_integer_value(json_object_get(meta, "format")) == FORMAT)
		return meta;
	json_decref(meta);
	return NULL;
}

/* The content that @meta names, if its hash is the one in it. */
static int content_read(int dir, const json_t *meta, struct ckl_entry *entry)
{
	const char *file = json_string_value(json_object_get(meta, "file"));
	const char *said = json_string_value(json_object_get(meta, "hash"));
	const char *log = json_string_value(json_object_get(meta, "log"));
	struct ck_hash hash, expected;
	int ret;

	if (!file && log) {
		entry->log = strdup(log);
		return entry->log ? 0 : -ENOMEM;
	}
	if (!file || strchr(file, '/') || !said || ck_hash_parse(said, &expected) < 0)
		return -EBADMSG;
	ret = ckl_file_read(dir, file, &entry->data, &entry->size, NULL);
	if (ret < 0)
		return ret;
	ck_hash(entry->data, entry->size, &hash);
	if (ck_hash_equal(&hash, &expected))
		return 0;
	free(entry->data);
	entry->data = NULL;
	return -EBADMSG;
}

int ckl_cache_check(struct ckl_cache *cache, const char *name, struct ckl_entry *entry,
		    json_t **meta)
{
	int dir = openat(cache->root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), ret;
	json_t *said;

	*entry = (struct ckl_entry){0};
	if (dir < 0)
		return -errno;
	said = meta_read(dir);
	ret = said ? content_read(dir, said, entry) : -EBADMSG;
	close(dir);
	if (ret == 0 && meta)
		*meta = said;
	else
		json_decref(said);
	return ret;
}

int ckl_cache_get(struct ckl_cache *cache, const struct ck_hash *key, struct ckl_entry *entry)
{
	char name[CK_HASH_TEXT + 8], meta[CK_HASH_TEXT + 8 + sizeof("/" META)];
	int ret;

	entry_name(key, name);
	ret = ckl_cache_check(cache, name, entry, NULL);
	if (ret == 0) {
		snprintf(meta, sizeof(meta), "%s/" META, name);
		utimensat(cache->root, meta, NULL, 0);
	}
	if (ret == -EBADMSG) {
		ck_warn("kernel cache: %s is damaged, and is removed", name);
		ckl_cache_remove(cache, name);
	}
	return ret < 0 ? -ENOENT : 0;
}

/* --- writing */

void ckl_cache_safe_name(const char *name, size_t size, char out[CK_CACHE_NAME])
{
	size_t n = 0;

	for (; n < size && n < CK_CACHE_NAME - 1; n++)
		out[n] = name[n] && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					   "0123456789_-+",
					   name[n])
				 ? name[n]
				 : '_';
	out[n] = '\0';
	if (n == 0)
		strcpy(out, "kernel");
}

static int write_file(int dir, const char *name, const void *data, size_t size)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), ret;

	if (fd < 0)
		return -errno;
	ret = ck_fd_write_full(fd, data, size);
	if (ret == 0 && fsync(fd) < 0)
		ret = -errno;
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	return ret;
}

static char *meta_text(const struct ckl_making *making, const char *file)
{
	json_t *meta = json_pack("{si}", "format", FORMAT);
	char hash_text[CK_HASH_TEXT], *text;
	struct ck_hash hash;

	if (meta && making->about)
		json_object_update_missing(meta, making->about);
	if (making->data) {
		ck_hash(making->data, making->size, &hash);
		ck_hash_print(&hash, hash_text);
		json_object_set_new(meta, "file", json_string(file));
		json_object_set_new(meta, "hash", json_string(hash_text));
	} else {
		json_object_set_new(meta, "log", json_string(making->log ? making->log : ""));
	}
	text = json_dumps(meta, JSON_INDENT(1));
	json_decref(meta);
	return text;
}

/* The files of an entry into an empty folder. */
static int write_files(int dir, const struct ckl_making *making)
{
	char name[CK_CACHE_NAME], file[CK_CACHE_NAME + 16], *meta;
	int ret = 0;

	ckl_cache_safe_name(making->name, strlen(making->name), name);
	if (making->source) {
		snprintf(file, sizeof(file), "%s.cu", name);
		ret = write_file(dir, file, making->source, strlen(making->source));
	}
	snprintf(file, sizeof(file), "%s%s", name, making->suffix);
	if (ret == 0 && making->data)
		ret = write_file(dir, file, making->data, making->size);
	meta = meta_text(making, file);
	if (ret == 0)
		ret = meta ? write_file(dir, META, meta, strlen(meta)) : -ENOMEM;
	if (ret == 0 && fsync(dir) < 0)
		ret = -errno;
	free(meta);
	return ret;
}

int ckl_cache_put(struct ckl_cache *cache, const struct ck_hash *key,
		  const struct ckl_making *making)
{
	char name[CK_HASH_TEXT + 8], temporary[CK_DISK_CACHE_TEMPORARY];
	int dir, ret;

	entry_name(key, name);
	do /* over the file of a dead process that had the same pid */
		ck_disk_cache_temporary(temporary);
	while ((ret = mkdirat(cache->root, temporary, 0700)) < 0 && errno == EEXIST);
	if (ret < 0)
		return -errno;
	dir = openat(cache->root, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret = dir < 0 ? -errno : write_files(dir, making);
	if (dir >= 0)
		close(dir);
	if (ret == 0 && renameat(cache->root, temporary, cache->root, name) < 0) {
		ckl_cache_remove(cache, name);
		if (renameat(cache->root, temporary, cache->root, name) < 0)
			ret = -errno;
	}
	if (ret < 0)
		ckl_cache_remove(cache, temporary);
	else
		fsync(cache->root);
	ckl_cache_evict(cache, cache->limit);
	return ret;
}
