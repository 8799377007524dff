/*
 * util/address/sockaddr.c - see sockaddr.h.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "util/address/sockaddr.h"

_Static_assert(CK_SOCKADDR_TEXT > INET6_ADDRSTRLEN + IF_NAMESIZE, "an address and its interface");

void ck_sockaddr_unmap(struct sockaddr_storage *address)
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	memcpy(&v6, address, sizeof(v6));
	if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
		return;
	v4.sin_port = v6.sin6_port;
	memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
	memset(address, 0, sizeof(*address));
	memcpy(address, &v4, sizeof(v4));
}

int ck_sockaddr_peer(int fd, struct sockaddr_storage *address)
{
	socklen_t size = sizeof(*address);

	*address = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
	if (getpeername(fd, (struct sockaddr *)address, &size) < 0)
		return -errno;
	ck_sockaddr_unmap(address);
	return 0;
}

bool ck_sockaddr_print(const struct sockaddr_storage *address, char text[CK_SOCKADDR_TEXT])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	char link[IF_NAMESIZE];
	size_t n;

	text[0] = '\0';
	if (address->ss_family == AF_INET)
		return inet_ntop(AF_INET, &v4->sin_addr, text, CK_SOCKADDR_TEXT);
	if (address->ss_family != AF_INET6 ||
	    !inet_ntop(AF_INET6, &v6->sin6_addr, text, CK_SOCKADDR_TEXT))
		return false;
	n = strlen(text);
	if (v6->sin6_scope_id && if_indextoname(v6->sin6_scope_id, link))
		snprintf(text + n, CK_SOCKADDR_TEXT - n, "%%%s", link);
	else if (v6->sin6_scope_id)
		snprintf(text + n, CK_SOCKADDR_TEXT - n, "%%%u", (unsigned int)v6->sin6_scope_id);
	return true;
}

/* @link: the name of an interface; NULL: none is given. */
static bool parse_ipv6(const char *text, const char *link, struct sockaddr_in6 *v6)
{
	v6->sin6_family = AF_INET6;
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		return false;
	if (link)
		v6->sin6_scope_id = if_nametoindex(link);
	return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? v6->sin6_scope_id > 0 : !link;
}

bool ck_sockaddr_parse(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	char host[CK_SOCKADDR_TEXT + 2], *plain = host, *link;
	size_t n = strlen(text);

	memset(address, 0, sizeof(*address));
	if (n >= sizeof(host))
		return false;
	memcpy(host, text, n + 1);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		plain++;
	}
	link = strchr(plain, '%');
	if (link)
		*link++ = '\0';
	if (strchr(plain, ':')) {
		if (!parse_ipv6(plain, link, (struct sockaddr_in6 *)address))
			return false;
		ck_sockaddr_unmap(address);
		return true;
	}
	v4->sin_family = AF_INET;
	return plain == host && !link && inet_pton(AF_INET, plain, &v4->sin_addr) == 1;
}
