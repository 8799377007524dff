/*
 * util/holders.h - a token file of named tokens: one line for each, with the token's hash.
 *
 *     # comment
 *     alice:HASH
 *     alice:HASH:2027-01-31
 *
 * HASH is BLAKE2b-256 of the token, in 64 hex digits. A token with a date is valid until the end of that
 * day, UTC. A name may have several tokens; all are one identity.
 */
#ifndef CK_UTIL_HOLDERS_H
#define CK_UTIL_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define CK_HOLDER_NAME 49 /* with the NUL */

/*
 * Does @text consist of named tokens? 0: yes; -ENOENT: its first line is neither one nor a comment, so that
 * the text is a single secret; -EINVAL: line *@line is wrong.
 */
int ck_holders_check(const char *text, unsigned int *line);

/* Whose token has @size @bytes, at @now? @text has been checked. False: it is in no line, or has expired. */
bool ck_holders_find(const char *text, const void *bytes, size_t size, time_t now,
		     char name[CK_HOLDER_NAME]);

/* May @size bytes of @text be a name? */
bool ck_holders_is_name(const char *text, size_t size);

#endif
