/*
 * command/servers/route.c - see connection.h.
 */
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "command/servers/connection.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

static bool addresses_are_equal(const union address *a, const struct sockaddr *b)
{
	const union address *other = (const union address *)(const void *)b;

	if (!b || a->any.sa_family != b->sa_family)
		return false;
	if (b->sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr;
	return b->sa_family == AF_INET6 &&
	       memcmp(&a->v6.sin6_addr, &other->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

/* The name of the interface with @address; false: no interface of this host has it. */
static bool interface_of(const union address *address, char name[64])
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list) < 0)
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		found = addresses_are_equal(address, i->ifa_addr);
		if (found)
			snprintf(name, 64, "%s", i->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

static const char *text_of(const union address *a, socklen_t size, char out[64])
{
	if (getnameinfo(&a->any, size, out, 64, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(out, 64, "?");
	return out;
}

bool ckx_route(int fd, char *out, size_t size)
{
	union address own = {.any.sa_family = AF_UNSPEC}, peer = own;
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer), mtu_size = sizeof(int);
	char from[64], to[64], by[64] = "?", other[64];
	int mtu = 0;
	bool v6;

	getsockname(fd, &own.any, &own_size);
	getpeername(fd, &peer.any, &peer_size);
	if (own.any.sa_family != AF_INET && own.any.sa_family != AF_INET6) {
		snprintf(out, size, "a unix socket of this host");
		return true;
	}
	v6 = own.any.sa_family == AF_INET6;
	getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &mtu_size);
	interface_of(&own, by);
	snprintf(out, size, "%s to %s by %s, MTU %d", text_of(&own, own_size, from),
		 text_of(&peer, peer_size, to), by, mtu);
	return interface_of(&peer, other);
}
