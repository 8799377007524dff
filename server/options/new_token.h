/*
 * server/options/new_token.h - `--new-token NAME`.
 */
#ifndef CK_SERVER_OPTIONS_NEW_TOKEN_H
#define CK_SERVER_OPTIONS_NEW_TOKEN_H

/* Print a random token for @name, and its line of a token file (util/holders.h). -EINVAL: not a
 * name; -EIO: no random bytes; printed on stderr. */
int cks_new_token(const char *name);

#endif
