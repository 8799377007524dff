/*
 * command/login/fetch.h - the connection on which a server sends the client's files.
 */
#ifndef CK_COMMAND_LOGIN_FETCH_H
#define CK_COMMAND_LOGIN_FETCH_H

#include "cricket.h"
#include "command/config/server.h"
#include "rpc/record.h"

struct ckx_fetch {
	struct ck_chan *chan;
	struct ck_reader *reader;
	ck_files_res res; /* checked by ckx_files_decode */
};

/* Ask for them. -EACCES: the server wants another token, not printed; other errors are. */
int ckx_fetch_open(const struct ckx_server *server, struct ckx_fetch *fetch);

/* The bytes of all programs and libraries, in the order of the list: each into @take, which returns
 * 0 or -errno. Those with another hash are refused. Errors of the connection are printed. */
int ckx_fetch_bytes(struct ckx_fetch *fetch,
		    int (*take)(void *data, const ck_file *file, const void *bytes), void *data);

void ckx_fetch_close(struct ckx_fetch *fetch);

/* --- a server's list of its client's files (CK_FILES) (files.c) */

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
