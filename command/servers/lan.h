/*
 * command/servers/lan.h - servers that announce themselves on the local network by mDNS, as
 * avahi-browse of Avahi lists them.
 *
 * Any host of the network can announce anything. The names have bounds and can be printed on a
 * terminal; they are hints only, and nothing connects to an address because of them.
 */
#ifndef CK_COMMAND_SERVERS_LAN_H
#define CK_COMMAND_SERVERS_LAN_H

#include <stdbool.h>
#include <stddef.h>

#include "rpc/tls.h"

#define CKX_LAN_SERVERS 64

struct ckx_lan {
	struct ckx_lan_server {
		char name[64], interface[16];
		char address[96];     /* as `cricket login` takes it */
		char pin[CK_TLS_PIN]; /* of the key that it claims to have; empty: none */
	} servers[CKX_LAN_SERVERS];
	size_t count;
};

/* Take the servers from the output of avahi-browse, which is changed. Lines that are not right, and
 * servers that are too many, are left out. */
void ckx_lan_parse(char *text, struct ckx_lan *lan);

/* Ask avahi-browse. -errno, printed. */
int ckx_lan_find(struct ckx_lan *lan);

/* On stdout: a table and how to go on, or JSON. */
void ckx_lan_print(const struct ckx_lan *lan);
void ckx_lan_print_json(const struct ckx_lan *lan);

#endif
