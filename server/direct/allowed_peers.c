/*
 * server/direct/allowed_peers.c - see allowed_peers.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/chan.h"
#include "server/direct/allowed_peers.h"
#include "util/util.h"

#define ENTRY_MAX 96

static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_v4(const unsigned char address[16])
{
	return memcmp(address, mapped, sizeof(mapped)) == 0;
}

/* Read an address, IPv6 in brackets; *@rest: the text behind it. False: it is none. */
static bool read_address(const char *text, unsigned char out[16], bool *v4, const char **rest)
{
	char host[ENTRY_MAX];
	size_t length;

	*v4 = *text != '[';
	if (*v4)
		length = strspn(text, "0123456789.");
	else
		length = strcspn(++text, "]");
	if (length == 0 || length >= sizeof(host) || (!*v4 && !text[length]))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	*rest = text + length + !*v4;
	memcpy(out, mapped, sizeof(mapped));
	return *v4 ? inet_pton(AF_INET, host, out + 12) == 1 : inet_pton(AF_INET6, host, out) == 1;
}

/* Digits alone, from @least to @most. */
static bool read_number(const char *text, const char **rest, long least, long most, long *out)
{
	size_t length = strspn(text, "0123456789");

	if (length == 0 || length > 5)
		return false;
	*out = strtol(text, NULL, 10);
	*rest = text + length;
	return *out >= least && *out <= most;
}

static bool read_entry(const char *text, struct cks_allowed_peers_entry *e)
{
	long bits, port = 0;
	bool v4;

	if (!read_address(text, e->address, &v4, &text))
		return false;
	bits = v4 ? 32 : 128;
	if (*text == '/' && !read_number(text + 1, &text, 0, bits, &bits))
		return false;
	e->bits = (unsigned int)bits + (v4 ? 96 : 0);
	if (strcmp(text, ":*") == 0) {
		port = -1;
		text += 2;
	} else if (*text == ':' && !read_number(text + 1, &text, 1, 65535, &port)) {
		return false;
	}
	e->port = (int)port;
	return *text == '\0';
}

int cks_allowed_peers_parse(const char *text, struct cks_allowed_peers *a)
{
	char entry[ENTRY_MAX];

	a->count = 0;
	a->ports[0] = CK_DEFAULT_PORT;
	a->port_count = 1;
	if (strcmp(text, "none") == 0)
		return 0;
	for (;;) {
		size_t length = strcspn(text, ",");

		if (length >= sizeof(entry) || a->count == CK_ALLOWED_MAX)
			return -EINVAL;
		memcpy(entry, text, length);
		entry[length] = '\0';
		if (!read_entry(entry, &a->entries[a->count++]))
			return -EINVAL;
		if (!text[length])
			return 0;
		text += length + 1;
	}
}

void cks_allowed_peers_listen(struct cks_allowed_peers *a, const char *text)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address address;

	if (a->port_count < CK_ARRAY_SIZE(a->ports) && ck_address_parse(text, &address, why) == 0 &&
	    address.kind == CK_ADDRESS_TCP && address.port > 0 &&
	    address.port != CK_DEFAULT_PORT) /* which is usual anyway */
		a->ports[a->port_count++] = (uint16_t)address.port;
}

static bool entry_covers(const struct cks_allowed_peers_entry *e, const unsigned char address[16])
{
	unsigned int whole = e->bits / 8, more = e->bits % 8;
	unsigned char mask = (unsigned char)(0xff00 >> more);

	/* an IPv6 network does not contain IPv4 */
	if (is_v4(e->address) != is_v4(address) || memcmp(e->address, address, whole) != 0)
		return false;
	return more == 0 || ((e->address[whole] ^ address[whole]) & mask) == 0;
}

static bool is_usual(const struct cks_allowed_peers *a, unsigned int port)
{
	for (size_t i = 0; i < a->port_count; i++) {
		if (a->ports[i] == port)
			return true;
	}
	return false;
}

bool cks_allowed_peers_has(const struct cks_allowed_peers *a, const struct sockaddr_storage *peer)
{
	unsigned char address[16];
	unsigned int port;

	if (peer->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;

		memcpy(address, mapped, sizeof(mapped));
		memcpy(address + 12, &v4->sin_addr, 4);
		port = ntohs(v4->sin_port);
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;

		memcpy(address, &v6->sin6_addr, 16);
		port = ntohs(v6->sin6_port);
	}
	for (size_t i = 0; i < a->count; i++) {
		const struct cks_allowed_peers_entry *e = &a->entries[i];

		if (entry_covers(e, address) &&
		    (e->port == -1 ||
		     (e->port ? (unsigned int)e->port == port : is_usual(a, port))))
			return true;
	}
	return false;
}

/* The bytes of a numeric address; false: it is a name. */
static bool number_of(const struct ck_address *a, unsigned char out[16])
{
	memcpy(out, mapped, sizeof(mapped));
	return a->ipv6 ? inet_pton(AF_INET6, a->host, out) == 1
		       : inet_pton(AF_INET, a->host, out + 12) == 1;
}

bool cks_allowed_peers_address(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	unsigned char address[16];
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	if (ck_address_parse(text, &a, why) < 0 || a.kind != CK_ADDRESS_TCP || a.port == 0 ||
	    !number_of(&a, address))
		return false;
	memset(out, 0, sizeof(*out));
	if (is_v4(address)) { /* also if it was written as IPv6 */
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)a.port);
		memcpy(&v4->sin_addr, address + 12, 4);
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)a.port);
		memcpy(&v6->sin6_addr, address, 16);
	}
	return true;
}
