/*
 * server/processes/token.h - secrets: who may come in, and comparing without telling how far it matched.
 */
#ifndef CK_SERVER_PROCESSES_TOKEN_H
#define CK_SERVER_PROCESSES_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

/* Whether two byte strings are equal, in a time that does not depend on where they differ. */
bool ck_secret_equal(const void *a, const void *b, size_t size);

/*
 * Whether a client that shows @token comes in: it must equal the content of @file (line ends at
 * its end left out), or of the variable CRICKET_TOKEN when @file is NULL. With neither, all do.
 * A file that cannot be read admits nobody (logged).
 */
bool ck_token_admits(const char *file, const void *token, size_t size);

/* Whether the server has a token, so that one which it admits tells clients apart. */
bool ck_token_wanted(const char *file);

#endif
