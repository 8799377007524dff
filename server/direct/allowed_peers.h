/*
 * server/direct/allowed_peers.h - the addresses that workers may connect to (--pool-peers).
 *
 *     LIST  = "none" | ENTRY *( "," ENTRY )
 *     ENTRY = ADDRESS [ "/" BITS ] [ ":" PORT | ":*" ]      an IPv6 address is in brackets
 *
 * Without a port, an entry means the usual port, and those at which this server listens.
 */
#ifndef CK_SERVER_DIRECT_ALLOWED_PEERS_H
#define CK_SERVER_DIRECT_ALLOWED_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CK_ALLOWED_MAX 64

/* Private networks. Addresses of the host itself and of its bridge are none, because other services
 * trust them. */
#define CK_ALLOWED_DEFAULT "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,[fc00::]/7"

struct cks_allowed_peers {
	struct cks_allowed_peers_entry {
		unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
		unsigned int bits;
		int port; /* 0: the usual ones; -1: any */
	} entries[CK_ALLOWED_MAX];
	size_t count;
	uint16_t ports[18]; /* the usual ones */
	size_t port_count;
};

/* -EINVAL: @text is no such list. */
int cks_allowed_peers_parse(const char *text, struct cks_allowed_peers *allowed);
/* The server listens at the address @text: its port is a usual one. */
void cks_allowed_peers_listen(struct cks_allowed_peers *allowed, const char *text);
bool cks_allowed_peers_has(const struct cks_allowed_peers *allowed,
			   const struct sockaddr_storage *peer);

/* Read "a.b.c.d:port" or "[v6]:port", with "tcp://" before it or not; no names. The port may be
 * missing. */
bool cks_allowed_peers_address(const char *text, struct sockaddr_storage *out);

#endif
