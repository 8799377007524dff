/*
 * command/servers/exchange.h - a question to a server that needs no session, and its answer: the
 * only messages of a connection.
 */
#ifndef CK_COMMAND_SERVERS_EXCHANGE_H
#define CK_COMMAND_SERVERS_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include <rpc/rpc.h>

#include "command/config/server.h"
#include "command/servers/connection.h"

struct ckx_exchange {
	uint32_t proc;
	const char *purpose; /* "its release is too old ..." */
	xdrproc_t code_args, code_res;
	void *args;
	void *res; /* zeros before; freed by the caller, also after an error */
};

/* Waits for 10 s at most. -errno, and @reach has how far it came, and why no further; -EOPNOTSUPP:
 * the server does not know the question. */
int ckx_exchange(const struct ckx_server *server, const struct ckx_exchange *exchange,
		 struct ckx_connection *reach);

/* Read the answer in @body into @res. 0 or -errno. */
int ckx_exchange_decode(const unsigned char *body, size_t size, xdrproc_t code_res, void *res);

#endif
