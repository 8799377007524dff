/*
 * command/login/files.h - what a server says of the client that it has (CK_FILES), checked.
 */
#ifndef CK_COMMAND_LOGIN_FILES_H
#define CK_COMMAND_LOGIN_FILES_H

#include "cricket.h"

#define CKX_FILES_WHY 600

/*
 * Read the reply in @body: 0 with *@res, which the caller frees with xdr_free; its status is
 * CK_FILES_OK, every name leads to a place in or one folder below that of the installation, no name
 * is there twice, and links stay inside. -errno with @why: -EACCES: the server wants another token;
 * others: it has no client, or says nonsense.
 */
int ckx_files_decode(const unsigned char *body, size_t size, ck_files_res *res,
		     char why[CKX_FILES_WHY]);

#endif
