/*
 * util/process/replace.h - a new content for a small file, which is there as a whole or not at all.
 */
#ifndef CK_UTIL_PROCESS_REPLACE_H
#define CK_UTIL_PROCESS_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct ck_replace {
	FILE *out;
	char path[PATH_MAX];	  /* of the file, without symbolic links */
	char fresh[PATH_MAX + 8]; /* of the one that takes its place; empty: none does */
};

/*
 * Begin to write the content that file @path gets: into r->out. The file keeps its mode and, if
 * this process may give it away, its owner and group; a new one has @mode. A path that is no
 * regular file, such as /dev/stdout, is written to directly. -errno.
 */
int ck_replace_begin(struct ck_replace *r, const char *path, mode_t mode);

/* End it. If @ok, the file has the new content; else, and on error, the old one. -errno: that of
 * writing, or 0. */
int ck_replace_end(struct ck_replace *r, bool ok);

#endif
