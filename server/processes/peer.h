/*
 * server/processes/peer.h - where a connection comes from, as far as bounds are concerned.
 *
 * A user of this host is one peer whatever it does, an IPv4 address is one, and so is a network of 64 bits
 * of IPv6, since hosts give themselves as many addresses as they like out of it.
 */
#ifndef CK_SERVER_PROCESSES_PEER_H
#define CK_SERVER_PROCESSES_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_PEER_NAME 64

struct ck_peer {
	enum { CK_PEER_UNKNOWN, CK_PEER_USER, CK_PEER_IPV4, CK_PEER_IPV6, CK_PEER_NETWORK } kind;
	uint8_t bytes[16]; /* those that count; the others are 0 */
};

/* The peer of socket @fd. One that has gone is unknown; all of them are one. */
void ck_peer_of(int fd, struct ck_peer *peer);

bool ck_peer_equal(const struct ck_peer *a, const struct ck_peer *b);

/* For people: "user 1000", "address 10.0.0.7", "network 2001:db8::/64". Returns @out. */
const char *ck_peer_name(const struct ck_peer *peer, char out[CK_PEER_NAME]);

#endif
