/*
 * launcher/compile/cache.h - the kernel cache: compiled code on disk, named by a hash of its input.
 *
 * A folder kernel_HASH for each entry, with the source, the compiled code, and meta.json. Entries
 * appear whole (written aside, synced, renamed), are checked against the hash in meta.json when
 * they are read, and the least recently used ones are removed when the cache is too large. The text
 * of a compile error is an entry too.
 */
#ifndef CK_LAUNCHER_COMPILE_CACHE_H
#define CK_LAUNCHER_COMPILE_CACHE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "launcher/options/options.h"
#include "util/hash.h"

struct ckl_cache {
	int root; /* its folder */
	char *path;
	uint64_t limit; /* bytes */
};

/*
 * Open the cache at @dir, or NULL for the usual place: $CRICKET_CACHE_DIR/gpu_kernels, else
 * .cache/gpu_kernels here if it is there and ours, else $XDG_CACHE_HOME or ~/.cache. NULL, and a
 * line in the log, where none can be used: everything is then compiled anew.
 */
struct ckl_cache *ckl_cache_open(const char *dir, uint64_t limit);
void ckl_cache_close(struct ckl_cache *cache);

/* An entry as read: its content, or the log of the error that it keeps. Free both with free. */
struct ckl_entry {
	char *data; /* a NUL behind it */
	size_t size;
	char *log; /* not NULL: a compile error */
};

/* 0; -ENOENT: none, or a damaged one, which is removed. Counts as a use. */
int ckl_cache_get(struct ckl_cache *cache, const struct ck_hash *key, struct ckl_entry *entry);

/* The parts of an entry. */
struct ckl_making {
	const char *name;   /* of its files, without suffix; made safe */
	const char *suffix; /* of data: ".ptx", ".cubin" */
	const char *source; /* text to keep beside it as name.cu, or NULL */
	const void *data;   /* NULL: an error, with its log */
	size_t size;
	const char *log;
	json_t *about; /* more for meta.json, or NULL */
};

/*
 * Write an entry, in the place of one that is there, and remove old ones if the cache is too large.
 * -errno.
 */
int ckl_cache_put(struct ckl_cache *cache, const struct ck_hash *key,
		  const struct ckl_making *making);

/* A name that comes from a user, as the name of a file: letters, digits and a few signs. */
#define CK_CACHE_NAME 64
void ckl_cache_safe_name(const char *name, size_t size, char out[CK_CACHE_NAME]);

/* Keep other processes from making this entry until the descriptor is closed. -errno. */
int ckl_cache_lock(struct ckl_cache *cache, const struct ck_hash *key);

/* An entry in a list. */
struct ckl_listed {
	char name[CK_HASH_TEXT + 8]; /* of its folder */
	uint64_t size;
	struct timespec used;
};

/*
 * All entries, newest use first; malloc'ed. The count, or -errno. Removes leftovers of dead
 * writers.
 */
long ckl_cache_list(struct ckl_cache *cache, struct ckl_listed **list);

/* Remove an entry at once. */
void ckl_cache_remove(struct ckl_cache *cache, const char *name);

/* Remove the least recently used until the rest holds @limit bytes; returns how many. */
long ckl_cache_evict(struct ckl_cache *cache, uint64_t limit);

/*
 * Read an entry by the name of its folder and check it; meta.json to *meta (new reference) or NULL.
 * This does not count as a use.
 */
int ckl_cache_check(struct ckl_cache *cache, const char *name, struct ckl_entry *entry,
		    json_t **meta);

/* --- the kernel cache by hand: --cache, --compile (store.c) */

/* Carry out options->cache_command; prints to stdout. Returns the exit code. */
int ckl_store_command(const struct ckl_options *options);

/*
 * Compile options->compile_path into the cache, and print one JSON object on stdout: the entry's
 * hash and the paths of source and PTX, or the error object. Returns the exit code.
 */
int ckl_store_compile(const struct ckl_options *options);

#endif
