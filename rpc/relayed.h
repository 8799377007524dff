/*
 * rpc/relayed.h - a connection that arrives decrypted: a process of the server relays its bytes
 * over a socketpair.
 *
 * The process gives its end of the pair a name in the abstract namespace, which identifies the peer
 * at the far end. Any holder of the other end can ask for that name, at any time. No other process
 * can pretend to be such a connection: a socket that a listener has accepted has the listener's
 * name, and an end of a socketpair has none.
 *
 * A byte with a descriptor means that the connection behind the relay broke, and did not end: reads
 * fail with -ECONNRESET.
 */
#ifndef CK_RPC_RELAYED_H
#define CK_RPC_RELAYED_H

#include <stdbool.h>
#include <sys/socket.h>

#define CK_RELAYED_NAME 64 /* with the final 0 */

struct ck_relayed {
	struct sockaddr_storage peer; /* of the far end: its family is AF_INET or AF_INET6 */
	char name[CK_RELAYED_NAME];   /* the owner of its certificate; empty: it has shown none */
};

/* Name @fd, the relay's end. -errno. */
int ck_relayed_set(int fd, const struct ck_relayed *who);

/* Find the peer at the far end of @fd. False: it is no relayed connection. @who may be NULL. */
bool ck_relayed_get(int fd, struct ck_relayed *who);

/* The address of the client behind @fd, relayed or not, as ck_sockaddr_peer() reports it.
 * AF_UNSPEC: it has disconnected. */
void ck_relayed_peer(int fd, struct sockaddr_storage *peer);

/* From the relay's end: the connection broke. It waits for room for at most @ms. */
void ck_relayed_break(int fd, int ms);

#endif
