/*
 * util/address/address.c - see address.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/address/address.h"
#include "util/util.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define NAME LETTERS DIGITS "._-"
#define NAME_SSH NAME "%+" /* of a Host of ssh_config(5), or a user */

#define FORMS "HOST, HOST:PORT, tcp://HOST:PORT, ssh://HOST, unix:/PATH, shm:/PATH, local"

struct form {
	const char *scheme; /* as it is written; NULL: no text has this kind by its scheme */
	unsigned int properties;
};

static const struct form forms[] = {
	[CK_ADDRESS_USUAL] = {NULL, CK_ADDRESS_HERE},
	[CK_ADDRESS_TCP] = {"tcp://", CK_ADDRESS_NETWORK},
	[CK_ADDRESS_SSH] = {"ssh://", CK_ADDRESS_STARTS},
	[CK_ADDRESS_UNIX] = {"unix:", CK_ADDRESS_HERE | CK_ADDRESS_PATH | CK_ADDRESS_SOCKET},
	[CK_ADDRESS_SHM] = {"shm:", CK_ADDRESS_HERE | CK_ADDRESS_PATH | CK_ADDRESS_SOCKET |
					    CK_ADDRESS_RINGS},
	[CK_ADDRESS_LOCAL] = {NULL, CK_ADDRESS_HERE | CK_ADDRESS_STARTS},
	[CK_ADDRESS_FILE] = {"file:", CK_ADDRESS_PATH | CK_ADDRESS_SEVERAL},
	[CK_ADDRESS_SRV] = {"srv:", CK_ADDRESS_SEVERAL},
	[CK_ADDRESS_UNKNOWN] = {NULL, 0},
};

/* --- kinds */

static size_t scheme_length(enum ck_address_kind kind)
{
	return forms[kind].scheme ? strlen(forms[kind].scheme) : 0;
}

static bool is_local(const char *text)
{
	return strncasecmp(text, "local", 5) == 0 && (!text[5] || strchr("/,", text[5]));
}

/* The kind of @text, and the text behind its scheme. */
static enum ck_address_kind address_split(const char *text, const char **rest)
{
	size_t word = strspn(text, LETTERS DIGITS "+.-");

	for (size_t i = 0; i < CK_ARRAY_SIZE(forms); i++) {
		size_t length = scheme_length((enum ck_address_kind)i);

		if (length > 0 && strncasecmp(text, forms[i].scheme, length) == 0) {
			*rest = text + length;
			return (enum ck_address_kind)i;
		}
	}
	*rest = text;
	if (!*text)
		return CK_ADDRESS_USUAL;
	if (is_local(text))
		return CK_ADDRESS_LOCAL;
	return word > 0 && strncmp(text + word, "://", 3) == 0 ? CK_ADDRESS_UNKNOWN
							       : CK_ADDRESS_TCP;
}

enum ck_address_kind ck_address_kind_of(const char *text)
{
	const char *rest;

	return address_split(text, &rest);
}

bool ck_address_has(const char *text, enum ck_address_property property)
{
	return forms[ck_address_kind_of(text)].properties & property;
}

const char *ck_address_path(const char *text)
{
	const char *rest;

	return forms[address_split(text, &rest)].properties & CK_ADDRESS_PATH ? rest : NULL;
}

const char *ck_address_devices(const char *text, size_t length, size_t *address)
{
	const char *from, *end = text + length;
	enum ck_address_kind kind = address_split(text, &from);

	*address = length;
	if (kind == CK_ADDRESS_UNKNOWN || from > end)
		return NULL;
	if (!(forms[kind].properties & CK_ADDRESS_PATH)) {
		from = memchr(from, '/', (size_t)(end - from));
		*address = from ? (size_t)(from - text) : length;
		return from ? from + 1 : NULL;
	}
	for (from += strspn(from, "/"); from + 1 < end; from++) {
		if (from[0] == '/' && from[1] == '/') {
			*address = (size_t)(from - text);
			return from + 2;
		}
	}
	return NULL;
}

/* --- parsing */

static int address_refuse(char why[CK_ADDRESS_WHY], const char *reason)
{
	snprintf(why, CK_ADDRESS_WHY, "%s", reason);
	return -EINVAL;
}

/* Read digits alone, up to 65535. */
static int address_port(const char *text, int *port)
{
	size_t length = strlen(text);

	if (length == 0 || length > 5 || text[strspn(text, DIGITS)])
		return -EINVAL;
	*port = atoi(text);
	return *port <= 65535 ? 0 : -EINVAL;
}

static int address_user(const char **rest, struct ck_address *a)
{
	const char *at = strrchr(*rest, '@');
	size_t length = at ? (size_t)(at - *rest) : 0;

	if (!at)
		return 0;
	if (length == 0 || length >= sizeof(a->user) || **rest == '-' ||
	    strspn(*rest, NAME_SSH "@") < length)
		return -EINVAL;
	memcpy(a->user, *rest, length);
	a->user[length] = '\0';
	*rest = at + 1;
	return 0;
}

/* Read a name, or an address in brackets. An IPv6 address without them is refused, because its last
 * group could be a port. */
static int address_host(const char **rest, struct ck_address *a)
{
	const char *host = *rest;
	size_t length;

	a->ipv6 = *host == '[';
	if (a->ipv6)
		length = strcspn(++host, "]");
	else
		length = strspn(host, a->kind == CK_ADDRESS_SSH ? NAME_SSH : NAME);
	if (length == 0 || length >= sizeof(a->host) || *host == '-')
		return -EINVAL;
	if (a->ipv6 &&
	    (!host[length] || !memchr(host, ':', length) || strspn(host, NAME "%:") < length))
		return -EINVAL;
	memcpy(a->host, host, length);
	a->host[length] = '\0';
	*rest = host + length + a->ipv6;
	return **rest && **rest != ':' ? -EINVAL : 0;
}

/* Digits, colons and dots up to a zone or the end, as an IPv6 address with or without a port. */
static bool is_ipv6(const char *text)
{
	size_t length = strspn(text, DIGITS "abcdefABCDEF:.");

	return !text[length] || text[length] == '%';
}

static int parse_host(const char *rest, struct ck_address *a, char why[CK_ADDRESS_WHY])
{
	const char *colon = strchr(rest, ':');

	a->port = a->kind == CK_ADDRESS_SSH ? -1 : CK_DEFAULT_PORT;
	if (a->kind == CK_ADDRESS_SSH && address_user(&rest, a) < 0)
		return address_refuse(why, "not a user's name before @");
	if (strchr(rest, '#'))
		return address_refuse(why, "a pin, which follows a #, is for `cricket login` only");
	if (*rest != '[' && colon && strchr(colon + 1, ':') && is_ipv6(rest))
		return address_refuse(why, "an IPv6 address needs brackets, as in [::1]:9909");
	if (address_host(&rest, a) < 0)
		return address_refuse(why, "not an address (" FORMS ")");
	if (*rest == ':' && address_port(rest + 1, &a->port) < 0)
		return address_refuse(why, "a port is a number from 1 to 65535");
	return 0;
}

static int parse_name(const char *rest, struct ck_address *a, char why[CK_ADDRESS_WHY])
{
	bool path = forms[a->kind].properties & CK_ADDRESS_PATH;

	if (path ? *rest != '/' : !*rest)
		return address_refuse(why, path ? "not an address: a path begins with /"
						: "this is not a DNS name");
	if (strlen(rest) >= sizeof(a->path))
		return address_refuse(why, "the address is too long");
	strcpy(a->path, rest);
	return 0;
}

int ck_address_parse(const char *text, struct ck_address *a, char why[CK_ADDRESS_WHY])
{
	const char *rest;

	memset(a, 0, sizeof(*a));
	a->text = text;
	a->kind = address_split(text, &rest);
	a->bare = rest == text;
	switch (a->kind) {
	case CK_ADDRESS_UNKNOWN:
		snprintf(why, CK_ADDRESS_WHY, "%.*s:// is not an address of Cricket (" FORMS ")",
			 (int)ck_min(strcspn(text, ":"), (size_t)80), text);
		return -EINVAL;
	case CK_ADDRESS_TCP:
	case CK_ADDRESS_SSH:
		return parse_host(rest, a, why);
	case CK_ADDRESS_USUAL:
		return 0;
	case CK_ADDRESS_LOCAL:
		return text[5] ? address_refuse(why, "nothing may follow local") : 0;
	default:
		return parse_name(rest, a, why);
	}
}

/* --- comparing */

bool ck_address_is_default_here(const struct ck_address *a)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "::1"};

	if (a->kind == CK_ADDRESS_USUAL || a->kind == CK_ADDRESS_LOCAL)
		return true;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		if (a->kind == CK_ADDRESS_TCP && a->port == CK_DEFAULT_PORT &&
		    strcasecmp(a->host, names[i]) == 0)
			return true;
	}
	return false;
}

/* Letters of ASCII alone, so that no locale matters. */
static void lower_text(char *text)
{
	for (; *text; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + ('a' - 'A'));
	}
}

/* One spelling of a host: a name without a dot at its end, a numeric IPv6 address in its short
 * form, or as the IPv4 address that it contains. */
static void plain_host(struct ck_address *a)
{
	size_t length = strlen(a->host);
	struct in6_addr number;

	lower_text(a->host);
	if (a->ipv6 && inet_pton(AF_INET6, a->host, &number) == 1) {
		a->ipv6 = !IN6_IS_ADDR_V4MAPPED(&number);
		if (a->ipv6)
			inet_ntop(AF_INET6, &number, a->host, sizeof(a->host));
		else
			inet_ntop(AF_INET, &number.s6_addr[12], a->host, sizeof(a->host));
	}
	while (!a->ipv6 && length > 1 && a->host[length - 1] == '.')
		a->host[--length] = '\0';
}

static int print_canonical(const struct ck_address *a, char *out, size_t size)
{
	const char *scheme = forms[a->kind == CK_ADDRESS_SHM ? CK_ADDRESS_UNIX : a->kind].scheme;
	char port[16] = "";

	if (a->port >= 0)
		snprintf(port, sizeof(port), ":%d", a->port);
	if (!scheme)
		return snprintf(out, size, "%s", a->kind == CK_ADDRESS_LOCAL ? "local" : "");
	if (a->path[0])
		return snprintf(out, size, "%s%s", scheme, a->path);
	return snprintf(out, size, "%s%s%s%s%s%s%s", scheme, a->user, a->user[0] ? "@" : "",
			a->ipv6 ? "[" : "", a->host, a->ipv6 ? "]" : "", port);
}

int ck_address_canonical(const char *text, char *out, size_t size)
{
	char one[CK_ADDRESS_MAX], why[CK_ADDRESS_WHY];
	struct ck_address a;
	size_t length;

	ck_address_devices(text, strlen(text), &length);
	if (length >= sizeof(one))
		return -ENAMETOOLONG;
	memcpy(one, text, length);
	one[length] = '\0';
	if (ck_address_parse(one, &a, why) < 0)
		return -EINVAL;
	plain_host(&a);
	if (a.kind == CK_ADDRESS_SRV)
		lower_text(a.path);
	else if (a.path[0])
		memmove(a.path, a.path + strspn(a.path, "/") - 1,
			strlen(a.path + strspn(a.path, "/") - 1) + 1);
	/* it is an address itself, and may be longer than @text */
	return print_canonical(&a, out, size) < (int)ck_min(size, (size_t)CK_ADDRESS_MAX)
		       ? 0
		       : -ENAMETOOLONG;
}

bool ck_address_same(const char *a, const char *b)
{
	char one[2 * CK_ADDRESS_MAX], other[2 * CK_ADDRESS_MAX];

	if (ck_address_canonical(a, one, sizeof(one)) < 0 ||
	    ck_address_canonical(b, other, sizeof(other)) < 0)
		return strcmp(a, b) == 0;
	return strcmp(one, other) == 0;
}
