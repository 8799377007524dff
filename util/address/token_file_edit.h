/*
 * util/address/token_file_edit.h - changes the lines of a token file of named tokens
 * (token_file.h). Readers see the old list or the new one; two changes at the same time wait for
 * each other.
 *
 * All return 0 or -errno. -EINVAL: the file is wrong in line *@line, which is 0 where it is a
 * single secret, or where a name or a date is wrong; -EFBIG: the list would be too long for a
 * server.
 */
#ifndef CK_UTIL_ADDRESS_TOKEN_FILE_EDIT_H
#define CK_UTIL_ADDRESS_TOKEN_FILE_EDIT_H

#include <stddef.h>
#include <sys/types.h>

#include "util/hash.h"
#include "util/address/token_file.h"

#define CK_TOKEN_FILE_SIZE 65536     /* bytes of a file, with a final 0 */
#define CK_HOLDER_TOKEN CK_HASH_TEXT /* of a new token, with the final 0 */
#define CK_HOLDER_LINE (CK_HOLDER_NAME + CK_HASH_TEXT + 16)

/* Make a random token for @name, and its @line, which is valid until the end of day @date, NULL:
 * without an end. -EINVAL: @name or @date is not one. */
int ck_token_file_new(const char *name, const char *date, char token[CK_HOLDER_TOKEN],
		      char line[CK_HOLDER_LINE]);

/* Add a new token of @name to the file @path, which is made with @mode if it is missing. */
int ck_token_file_add(const char *path, mode_t mode, const char *name, const char *date,
		      char token[CK_HOLDER_TOKEN], unsigned int *line);

/* Remove all tokens of @name; *@count: how many there were. */
int ck_token_file_revoke(const char *path, const char *name, size_t *count, unsigned int *line);

/* Read the list into @text. A file that is missing is an empty list. */
int ck_token_file_read(const char *path, char text[CK_TOKEN_FILE_SIZE], unsigned int *line);

#endif
