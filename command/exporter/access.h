/*
 * command/exporter/access.h - identity of a client: the administrator, who knows the password, or a
 * user of the server, who has a token of its list.
 */
#ifndef CK_COMMAND_EXPORTER_ACCESS_H
#define CK_COMMAND_EXPORTER_ACCESS_H

#include <jansson.h>
#include <stdbool.h>

struct ckx_access {
	const char *password; /* NULL: none is wanted of an administrator, */
	/* the server's (--token-file); NULL: users have no access of their own, */
	const char *token_file;
	/* and with neither everyone is an administrator */
};

#define CKX_IDENTITY 64

/* One who asks. */
struct ckx_asker {
	bool all;		     /* sees everything */
	char identity[CKX_IDENTITY]; /* else: only rows of this identity */
};

/* Is @file usable? -errno, printed. */
int ckx_access_check(const char *file);

/* Who has @secret, a password or a token, or none (NULL)? False: one who may see nothing. */
bool ckx_access_find(const struct ckx_access *access, const char *secret, struct ckx_asker *asker);

/* The part of the server's status @report that @asker may see, as a new reference; accepts NULL.
 * NULL: out of memory. */
json_t *ckx_access_filter(json_t *report, const struct ckx_asker *asker);

#endif
