/*
 * util/address/token.h - the secret that a client sends to its server: CRICKET_TOKEN, or the first
 * line of the file CRICKET_TOKEN_FILE.
 */
#ifndef CK_UTIL_ADDRESS_TOKEN_H
#define CK_UTIL_ADDRESS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#define CK_TOKEN_SIZE 1025 /* bytes with the final 0; the protocol's limit */

/* The first line of file @path, without its end. -ENODATA: it is empty; -EMSGSIZE: it is longer
 * than a token; -errno. */
int ck_token_read(const char *path, char out[CK_TOKEN_SIZE]);

/* Of the value of a variable, which may be a whole file: its first line is the token. */
size_t ck_token_length(const char *token);

/* The token of the variables; empty: none. *@where is the variable that was wrong: -EMSGSIZE for
 * the token, errors of ck_token_read for the file. */
int ck_token_find(char out[CK_TOKEN_SIZE], const char **where);

/* Does a variable name a token? */
bool ck_token_is_set(void);

#endif
