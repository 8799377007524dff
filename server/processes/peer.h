/*
 * server/processes/peer.h - the origin of a connection, for limits.
 *
 * A user of this host counts as one peer, and so does an IPv4 address. A 64-bit network of IPv6 is
 * one peer too, because hosts can use any number of addresses in it.
 */
#ifndef CK_SERVER_PROCESSES_PEER_H
#define CK_SERVER_PROCESSES_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/process/machine.h"

#define CK_PEER_NAME 64

struct cks_peer {
	enum { CK_PEER_UNKNOWN, CK_PEER_USER, CK_PEER_IPV4, CK_PEER_IPV6, CK_PEER_NETWORK } kind;
	uint8_t bytes[16]; /* the significant ones; the others are 0 */
};

/* The peer of socket @fd. All peers that have disconnected count as one, the unknown peer. */
void cks_peer_of(int fd, struct cks_peer *peer);

/* Does unix socket @fd lead into a tunnel? The client is process @pid of @machine on @host, as it
 * says (util/process/machine.h; zeros: unknown). Then another process than that has connected, or
 * another kernel runs it. */
bool cks_peer_is_tunnel(int fd, unsigned int pid, const unsigned char machine[CK_MACHINE_ID],
			const unsigned char host[CK_MACHINE_ID]);

bool cks_peer_equal(const struct cks_peer *a, const struct cks_peer *b);

/* For display: "user 1000", "address 10.0.0.7", "network 2001:db8::/64". Returns @out. */
const char *cks_peer_name(const struct cks_peer *peer, char out[CK_PEER_NAME]);
/* For a field of addresses: "user 1000", "10.0.0.7", "2001:db8::/64". Returns @out. */
const char *cks_peer_source(const struct cks_peer *peer, char out[CK_PEER_NAME]);

#endif
