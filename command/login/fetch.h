/*
 * command/login/fetch.h - the connection on which a server sends the client's files.
 */
#ifndef CK_COMMAND_LOGIN_FETCH_H
#define CK_COMMAND_LOGIN_FETCH_H

#include "command/config/server.h"
#include "command/login/files.h"
#include "rpc/record.h"

struct ckx_fetch {
	struct ck_chan *chan;
	struct ck_reader *reader;
	ck_files_res res; /* checked: command/login/files.h */
};

/* Ask for them. -EACCES: the server wants another token, not printed; other errors are. */
int ckx_fetch_open(const struct ckx_server *server, struct ckx_fetch *fetch);

/* The bytes of all programs and libraries, in the order of the list: each into @take, which returns
 * 0 or -errno. Those with another hash are refused. Errors of the connection are printed. */
int ckx_fetch_bytes(struct ckx_fetch *fetch,
		    int (*take)(void *data, const ck_file *file, const void *bytes), void *data);

void ckx_fetch_close(struct ckx_fetch *fetch);

#endif
