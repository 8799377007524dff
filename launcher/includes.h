/*
 * launcher/includes.h - the files that a source includes, without a compiler.
 *
 * The result is a superset, because conditions are ignored: it has every file that the compiler
 * could include from the source's folder, from its -I and -isystem folders, and from those of
 * CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH. The headers of the toolkit and of the system are
 * covered by the compiler's identity.
 */
#ifndef CK_LAUNCHER_INCLUDES_H
#define CK_LAUNCHER_INCLUDES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "launcher/file.h"
#include "util/hash.h"

/* A file that a module depends on, as it was. */
struct ck_dependency {
	char *path;
	struct ck_file_state state;
};

struct ck_includes {
	struct ck_dependency *items;
	size_t count;
	struct ck_hash digest; /* of all their names and contents */
	bool unknown;	       /* there may be more */
};

/*
 * Find them for @text, which lies at @path (NULL: nowhere), with the compiler's @options. -ENOTSUP:
 * they cannot be determined (#include MACRO, -include), and the source is not cached. Free in any
 * case.
 */
int ck_includes_find(const char *text, const char *path, const json_t *options,
		     struct ck_includes *out);
void ck_includes_free(struct ck_includes *includes);

#endif
