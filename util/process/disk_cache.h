/*
 * util/process/disk_cache.h - common functions of the caches in folders: making the folder, the
 * names of entries that are being written, and the order in which entries are removed.
 */
#ifndef CK_UTIL_PROCESS_DISK_CACHE_H
#define CK_UTIL_PROCESS_DISK_CACHE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#define CK_DISK_CACHE_TEMPORARY 64

/* Like mkdir -p: the last folder is for this user only. -errno. */
int ck_disk_cache_make(const char *path);

/* A name for an entry until it is complete. Only a dead process may have used it too. */
void ck_disk_cache_temporary(char name[CK_DISK_CACHE_TEMPORARY]);

/* Is this such a name? Has the writer of the file with such a @name died or given up? */
bool ck_disk_cache_is_temporary(const char *name);
bool ck_disk_cache_is_abandoned(const char *name, const struct stat *st);

/* For qsort, the newest first: negative, 0 or positive. */
int ck_disk_cache_order(const struct timespec *a, const struct timespec *b);

#endif
