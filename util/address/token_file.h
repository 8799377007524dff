/*
 * util/address/token_file.h - a token file of named tokens: one line for each, with the token's
 * hash.
 *
 *     # comment
 *     alice:HASH
 *     alice:HASH:2027-01-31
 *
 * HASH is BLAKE2b-256 of the token, in 64 hex digits. A token with a date is valid until the end of
 * that day, UTC. A name may have several tokens; all are one identity.
 */
#ifndef CK_UTIL_ADDRESS_TOKEN_FILE_H
#define CK_UTIL_ADDRESS_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define CK_HOLDER_NAME 49 /* with the NUL */
/* The fault of a line, for messages: "FILE:LINE: " comes before it. */
#define CK_TOKEN_FILE_WRONG                                                                        \
	"not NAME:HASH or NAME:HASH:YYYY-MM-DD; a file with a single secret has one line"

/*
 * Does @text of @size bytes, with a final NUL behind them, consist of named tokens? 0: yes.
 * CK_TOKEN_FILE_SECRET: it is a single secret, one line, which is neither a comment nor resembles a
 * line of a list. -ENODATA: all lines are empty. -EINVAL: line *@line is wrong; also a NUL byte,
 * and a byte order mark at the beginning.
 */
#define CK_TOKEN_FILE_SECRET 1
int ck_token_file_check(const char *text, size_t size, unsigned int *line);

/* Whose token has @size @bytes, at @now? @text has been checked. False: it is in no line, or has
 * expired. */
bool ck_token_file_find(const char *text, const void *bytes, size_t size, time_t now,
			char name[CK_HOLDER_NAME]);

/* The number of tokens in @text, which has been checked; @expired: of those that have expired at
 * @now. */
size_t ck_token_file_count(const char *text, time_t now, size_t *expired);

/* Has any line of @text, which has been checked, a token of @name? */
bool ck_token_file_has(const char *text, const char *name);

/* May @size bytes of @text be a name? */
bool ck_token_file_is_name(const char *text, size_t size);

#endif
