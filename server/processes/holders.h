/*
 * server/processes/holders.h - a token file of named tokens: one line for each, with the token's hash.
 *
 *     # comment
 *     alice:HASH
 *     alice:HASH:2027-01-31
 *
 * HASH is BLAKE2b-256 of the token, in 64 hex digits. A token with a date is valid until the end of that
 * day, UTC. A name may have several tokens; all are one identity.
 */
#ifndef CK_SERVER_PROCESSES_HOLDERS_H
#define CK_SERVER_PROCESSES_HOLDERS_H

#include <stdbool.h>
#include <time.h>

#define CK_HOLDER_NAME 49 /* with the NUL */

/*
 * Does @text consist of named tokens? 0: yes; -ENOENT: its first line is neither one nor a comment, so that
 * the text is a single secret; -EINVAL: line *@line is wrong.
 */
int cks_holders_check(const char *text, unsigned int *line);

/* Whose token has @size @bytes, at @now? @text has been checked. False: it is in no line, or has expired. */
bool cks_holders_find(const char *text, const void *bytes, size_t size, time_t now,
		      char name[CK_HOLDER_NAME]);

/* `--new-token NAME`: print a random token, and its line. -EINVAL: not a name; -EIO: no random bytes;
 * printed on stderr. */
int cks_holders_new(const char *name);

#endif
