/*
 * server/options/option_table.h - all options of the server, in one table, for the command line,
 * the configuration file, --help, --new-config and --show-config.
 */
#ifndef CK_SERVER_OPTIONS_OPTION_TABLE_H
#define CK_SERVER_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/options/option_values.h"

enum cks_section {
	CKS_CONNECT,
	CKS_ADMIT,
	CKS_ENCRYPT,
	CKS_GPUS,
	CKS_WORKERS,
	CKS_KEPT,
	CKS_FILES,
	CKS_BOUNDS,
	CKS_COMMANDS, /* of the command line alone: they do something else than run a server */
	CKS_SECTIONS,
};

struct cks_option {
	const char *name;
	const char *argument; /* the name of its value in --help; NULL: it has none */
	enum cks_section section;
	/* The value, into the member of struct cks_options at @out, or into all of it; as in
	 * option_values.h. 1: done. NULL: it is @limit. */
	int (*take)(const char *value, void *out, char why[CK_OPTION_WHY]);
	size_t out;
	enum cks_limit limit;
	const char *help;
	/* the behaviour without it, or the default in words; NULL: a flag, off */
	const char *usual;
};

/* How many there are; and the one at @index. */
size_t cks_option_count(void);
struct cks_option cks_option_at(size_t index);
/* Its index; the count: there is none of this name. */
size_t cks_option_find(const char *name);

/* A heading. */
const char *cks_section_title(enum cks_section section);

#endif
