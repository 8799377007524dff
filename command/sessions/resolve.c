/*
 * command/sessions/resolve.c - see local.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "command/sessions/local.h"

/* An address can be bound if it is one of this host. */
static bool is_here(const struct addrinfo *ai)
{
	struct sockaddr_storage address = {0};
	int fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool here;

	if (fd < 0)
		return false;
	memcpy(&address, ai->ai_addr, ai->ai_addrlen);
	/* the port is at the same place in both structures; 0: any that is free */
	((struct sockaddr_in *)&address)->sin_port = 0;
	here = bind(fd, (struct sockaddr *)&address, ai->ai_addrlen) == 0;
	close(fd);
	return here;
}

int ckx_resolve(const struct ck_address *address, struct ckx_resolved *r)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list;
	int error = getaddrinfo(address->host, NULL, &hints, &list);

	*r = (struct ckx_resolved){.port = (unsigned int)address->port};
	if (error)
		return error == EAI_NONAME ? -ENXIO : -EAGAIN;
	for (struct addrinfo *ai = list; ai && r->count < CKX_RESOLVED; ai = ai->ai_next) {
		if (ai->ai_addrlen <= sizeof(r->list[0]) && is_here(ai))
			memcpy(&r->list[r->count++], ai->ai_addr, ai->ai_addrlen);
	}
	freeaddrinfo(list);
	return 0;
}

static bool accepts_v4(const char *host, const struct sockaddr_in *wanted)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return v4.s_addr == htonl(INADDR_ANY) || v4.s_addr == wanted->sin_addr.s_addr;
	/* the server's [::] takes IPv4 too */
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

static bool accepts_v6(const char *host, const struct sockaddr_in6 *wanted)
{
	struct sockaddr_in contained = {.sin_family = AF_INET};
	struct in6_addr v6;

	if (IN6_IS_ADDR_V4MAPPED(&wanted->sin6_addr)) {
		memcpy(&contained.sin_addr, &wanted->sin6_addr.s6_addr[12],
		       sizeof(contained.sin_addr));
		return accepts_v4(host, &contained);
	}

	return inet_pton(AF_INET6, host, &v6) == 1 &&
	       (IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_ARE_ADDR_EQUAL(&v6, &wanted->sin6_addr));
}

bool ckx_resolved_has(const struct ckx_resolved *r, const char *text)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	if (!text || ck_address_parse(text, &a, why) < 0 || a.kind != CK_ADDRESS_TCP ||
	    (unsigned int)a.port != r->port)
		return false;
	for (size_t i = 0; i < r->count; i++) {
		const struct sockaddr_storage *wanted = &r->list[i];

		if (wanted->ss_family == AF_INET
			    ? accepts_v4(a.host, (const struct sockaddr_in *)wanted)
			    : accepts_v6(a.host, (const struct sockaddr_in6 *)wanted))
			return true;
	}
	return false;
}
