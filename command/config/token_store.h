/*
 * command/config/token_store.h - tokens that `cricket login` keeps: ~/.config/cricket/tokens, a
 * line a server, with its address and its token. The file is for its owner only.
 */
#ifndef CK_COMMAND_CONFIG_TOKEN_STORE_H
#define CK_COMMAND_CONFIG_TOKEN_STORE_H

#include "command/config/config.h"
#include "util/address/token.h"

#define CKX_TOKEN CK_TOKEN_SIZE

/* The token for @address; empty: none. -EPERM: others can read the file. Errors are printed. */
int ckx_token_find(const char *address, char out[CKX_TOKEN]);

/* The first line of file @path. Errors are printed. */
int ckx_token_read(const char *path, char out[CKX_TOKEN]);

/* Keep @token for @address in the place of an earlier one; NULL: forget it. -ENOENT: there was
 * none. Errors are printed. */
int ckx_token_keep(const char *address, const char *token);

#endif
