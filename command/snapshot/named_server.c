/*
 * command/snapshot/named_server.c - see named_server.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command/config/command.h"
#include "command/config/server.h"
#include "command/snapshot/named_server.h"
#include "util/address/address.h"
#include "util/process/replace.h"

/* A HOST alone could lead to a unix socket of this host, and a session in files has none. */
int ckx_named_server_find(const char *option, char address[CKX_TEXT], int *port)
{
	struct ckx_server server;
	struct ck_address parsed;
	char file[CKX_TEXT], why[CK_ADDRESS_WHY] = "";
	int ret = ckx_server_name(option, &server, file);

	if (ret == 0)
		ret = ckx_server_one(&server);
	if (ret < 0)
		return ret;
	if (ck_address_parse(server.address, &parsed, why) < 0 || parsed.kind != CK_ADDRESS_TCP)
		return ckx_error("%s: a snapshot needs a server's TCP address: -s HOST[:PORT]",
				 server.address[0] ? server.address : "no server is named"),
		       -EINVAL;
	if (snprintf(address, CKX_TEXT, "%s%s", parsed.bare ? "tcp://" : "", server.address) >=
	    CKX_TEXT)
		return ckx_error("%s: the address is too long", server.address), -ENAMETOOLONG;
	*port = parsed.port;
	return 0;
}

int ckx_named_server_write(const char *path, const char *address, const char *words)
{
	struct ck_replace r;
	int ret = ck_replace_begin(&r, path, 0600);

	if (ret == 0)
		ret = ck_replace_end(&r, fprintf(r.out, "%s %s\n", address, words) > 0);
	if (ret < 0)
		ckx_error("%s: %s", path, strerror(-ret));
	return ret;
}
