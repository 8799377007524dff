/*
 * server/policy/token.h - admission by token.
 */
#ifndef CK_SERVER_POLICY_TOKEN_H
#define CK_SERVER_POLICY_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "util/address/token_file.h"

#define CK_TOKEN_MAX 1024
#define CK_TOKEN_FILE_MAX 65536 /* several hundred named tokens */

/* A token file's content as last read; it is read again only after a change. Initially all
 * zeros. */
struct cks_token {
	bool known;
	struct stat file;
	size_t size;
	char text[CK_TOKEN_FILE_MAX];
	bool named; /* the file is a list of named tokens (token_file.h), and stays one */
	/* of the client that was admitted last; empty: the token has no name */
	char holder[CK_HOLDER_NAME];
};

/*
 * Is a client with the token @bytes admitted? It must be one that @file names, or equal the content
 * of @file (without a final line end), or of the variable CRICKET_TOKEN if @file is NULL. With
 * neither, all clients are admitted. If the file cannot be read, none is (logged).
 */
bool cks_token_admits(struct cks_token *token, const char *file, const void *bytes, size_t size);

#define CK_TOKEN_WHY 384

/* Read @file into @token, unless it is unchanged. -errno: @why is the reason. */
int cks_token_read(const char *file, struct cks_token *token, char why[CK_TOKEN_WHY]);

/* Is @file usable? NULL: there is none. -errno: @why is the reason. */
int cks_token_check(const char *file, char why[CK_TOKEN_WHY]);

/* Does the server have a token, so that an admitted token identifies a client? */
bool cks_token_wanted(const char *file);

#endif
