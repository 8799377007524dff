/*
 * server/processes/peer.c - see peer.h.
 */
#define _GNU_SOURCE /* struct ucred */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "rpc/relayed.h"
#include "server/processes/peer.h"

#define CK_NETWORK 8 /* bytes of an IPv6 address that identify its network */

static void of_user(int fd, struct cks_peer *peer)
{
	struct ucred user;
	socklen_t size = sizeof(user);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) < 0)
		return;
	peer->kind = CK_PEER_USER;
	memcpy(peer->bytes, &user.uid, sizeof(user.uid));
}

/* Use link-local addresses in full: many hosts share a link. */
static void of_ipv6(const struct in6_addr *address, struct cks_peer *peer)
{
	if (IN6_IS_ADDR_LINKLOCAL(address) || IN6_IS_ADDR_LOOPBACK(address)) {
		peer->kind = CK_PEER_IPV6;
		memcpy(peer->bytes, address, sizeof(*address));
	} else {
		peer->kind = CK_PEER_NETWORK;
		memcpy(peer->bytes, address, CK_NETWORK);
	}
}

void cks_peer_of(int fd, struct cks_peer *peer)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} address;

	memset(peer, 0, sizeof(*peer));
	ck_relayed_peer(fd, &address.room);
	if (address.any.sa_family == AF_UNIX) {
		of_user(fd, peer);
	} else if (address.any.sa_family == AF_INET) {
		peer->kind = CK_PEER_IPV4;
		memcpy(peer->bytes, &address.v4.sin_addr, sizeof(address.v4.sin_addr));
	} else if (address.any.sa_family == AF_INET6) {
		of_ipv6(&address.v6.sin6_addr, peer);
	}
}

bool cks_peer_is_tunnel(int fd, unsigned int pid, const unsigned char machine[CK_MACHINE_ID],
			const unsigned char host[CK_MACHINE_ID])
{
	static const unsigned char unknown[CK_MACHINE_ID];
	unsigned char own[CK_MACHINE_ID];
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (memcmp(host, unknown, CK_MACHINE_ID) == 0 || !ck_machine_host(own))
		return false;
	if (memcmp(host, own, CK_MACHINE_ID) != 0)
		return true;
	/* process ids of other namespaces say nothing here */
	return ck_machine_id(own) && memcmp(machine, own, CK_MACHINE_ID) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
	       (unsigned int)peer.pid != pid;
}

bool cks_peer_equal(const struct cks_peer *a, const struct cks_peer *b)
{
	return a->kind == b->kind && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

const char *cks_peer_source(const struct cks_peer *peer, char out[CK_PEER_NAME])
{
	char text[INET6_ADDRSTRLEN] = "?";
	uint32_t user;

	switch (peer->kind) {
	case CK_PEER_USER:
		memcpy(&user, peer->bytes, sizeof(user));
		snprintf(out, CK_PEER_NAME, "user %lu", (unsigned long)user);
		return out;
	case CK_PEER_IPV4:
		inet_ntop(AF_INET, peer->bytes, text, sizeof(text));
		break;
	case CK_PEER_IPV6:
	case CK_PEER_NETWORK:
		inet_ntop(AF_INET6, peer->bytes, text, sizeof(text));
		break;
	case CK_PEER_UNKNOWN:
		snprintf(out, CK_PEER_NAME, "an unknown peer");
		return out;
	}
	snprintf(out, CK_PEER_NAME, "%s%s", text, peer->kind == CK_PEER_NETWORK ? "/64" : "");
	return out;
}

const char *cks_peer_name(const struct cks_peer *peer, char out[CK_PEER_NAME])
{
	static const char *const kinds[] = {[CK_PEER_UNKNOWN] = "",
					    [CK_PEER_USER] = "",
					    [CK_PEER_IPV4] = "address ",
					    [CK_PEER_IPV6] = "address ",
					    [CK_PEER_NETWORK] = "network "};
	char source[CK_PEER_NAME];

	snprintf(out, CK_PEER_NAME, "%s%.*s", kinds[peer->kind],
		 (int)(CK_PEER_NAME - sizeof("address ")), cks_peer_source(peer, source));
	return out;
}
