/*
 * server/processes/token.h - secrets: who may come in, and comparing without telling how far it matched.
 */
#ifndef CK_SERVER_PROCESSES_TOKEN_H
#define CK_SERVER_PROCESSES_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define CK_TOKEN_MAX 1024

/* Whether two byte strings are equal, in a time that does not depend on where they differ. */
bool ck_secret_equal(const void *a, const void *b, size_t size);

/* The content of a token's file as last read, so that it is read again only when it has changed. All
 * zeros at first. */
struct ck_token {
	bool known;
	struct stat file;
	size_t size;
	char text[CK_TOKEN_MAX];
};

/*
 * Whether a client that shows @bytes comes in: they must equal the content of @file (line ends at
 * its end left out), or of the variable CRICKET_TOKEN when @file is NULL. With neither, all do.
 * A file that cannot be read admits nobody (logged).
 */
bool ck_token_admits(struct ck_token *token, const char *file, const void *bytes, size_t size);

/* Whether the server has a token, so that one which it admits tells clients apart. */
bool ck_token_wanted(const char *file);

#endif
