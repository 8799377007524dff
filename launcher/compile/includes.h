/*
 * launcher/compile/includes.h - the files that a source includes, without a compiler.
 *
 * The result is a superset, because conditions are not evaluated: every file counts that the
 * compiler could include from beside the source, from its -I and -isystem folders, or from those of
 * CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH. The headers of the toolkit and of the system do not
 * count: the compiler's identity stands for them.
 */
#ifndef CK_LAUNCHER_COMPILE_INCLUDES_H
#define CK_LAUNCHER_COMPILE_INCLUDES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "launcher/text/file.h"
#include "util/hash.h"

/* A file that a module depends on, as it was. */
struct ckl_dependency {
	char *path;
	struct ckl_file_state state;
};

struct ckl_includes {
	struct ckl_dependency *items;
	size_t count;
	struct ck_hash digest; /* of all their names and contents */
	bool unknown;	       /* there may be more */
};

/*
 * Find them for @text, which lies at @path (NULL: nowhere), with the compiler's @options. -ENOTSUP:
 * it cannot be told (#include MACRO, -include): such a source is not cached. Free in any case.
 */
int ckl_includes_find(const char *text, const char *path, const json_t *options,
		      struct ckl_includes *out);
void ckl_includes_free(struct ckl_includes *includes);

#endif
