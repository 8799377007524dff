/*
 * util/address/address.h - the address of one server: parsed here, and nowhere else.
 *
 *     HOST[:PORT]  tcp://HOST[:PORT]    over the network; an IPv6 address is in brackets
 *     ssh://[USER@]HOST[:PORT]          through ssh, to a socket of that host
 *
 *     unix:/PATH  shm:/PATH             a socket of this host; the second one continues in shared
 *                                       memory
 *
 *     local                             a server of this host, which is started if none runs
 *
 *     file:/PATH  srv:NAME              the servers that a file, or DNS, names: see
 *                                       server_addresses.h
 *
 *     (empty)                           the usual socket of this host
 *
 * Devices may follow, and further servers: see servers.h. Schemes and hosts may be in upper or
 * lower case.
 */
#ifndef CK_UTIL_ADDRESS_ADDRESS_H
#define CK_UTIL_ADDRESS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define CK_DEFAULT_PORT 9909
#define CK_ADDRESS_MAX 512 /* bytes of an address as text, with the final 0 */
#define CK_ADDRESS_WHY 256

enum ck_address_kind {
	CK_ADDRESS_USUAL,
	CK_ADDRESS_TCP,
	CK_ADDRESS_SSH,
	CK_ADDRESS_UNIX,
	CK_ADDRESS_SHM,
	CK_ADDRESS_LOCAL,
	CK_ADDRESS_FILE,
	CK_ADDRESS_SRV,
	CK_ADDRESS_UNKNOWN /* of a scheme that Cricket does not have, as http:// */
};

/* The properties of a kind. */
enum ck_address_property {
	CK_ADDRESS_HERE = 1 << 0,    /* the server is on this host */
	CK_ADDRESS_NETWORK = 1 << 1, /* TCP: with TLS if that is wanted, and any peer may name it */
	CK_ADDRESS_PATH = 1 << 2,    /* the path of a file follows the scheme */
	CK_ADDRESS_SOCKET = 1 << 3,  /* that file is a socket, which passes descriptors */
	CK_ADDRESS_RINGS = 1 << 4,   /* shared memory is demanded */
	CK_ADDRESS_STARTS = 1 << 5,  /* a program of this process leads to it */
	CK_ADDRESS_SEVERAL = 1 << 6  /* it stands for servers that are looked up at each use */
};

struct ck_address {
	const char *text; /* which was parsed; the caller's */
	enum ck_address_kind kind;
	/* without a scheme: a socket of this host may serve for a HOST that is this one */
	bool bare;
	bool ipv6;		   /* @host is an IPv6 address; it has no brackets here */
	char user[128];		   /* of ssh://; empty: none */
	char host[256];		   /* as written; a name or a numeric address */
	int port;		   /* of TCP, 0 for any; of ssh, -1 for that of its configuration */
	char path[CK_ADDRESS_MAX]; /* of kinds with a path; NAME of srv: */
};

enum ck_address_kind ck_address_kind_of(const char *text);

/* Has the kind of @text this property? */
bool ck_address_has(const char *text, enum ck_address_property property);

/* The path of a socket or file; NULL: @text is of another kind. */
const char *ck_address_path(const char *text);

/*
 * The devices of an entry of @length characters, of which more may follow: where they begin; NULL:
 * none are named. *@address: the length of the address before them.
 */
const char *ck_address_devices(const char *text, size_t length, size_t *address);

/* Parse the address of one server, without devices. -EINVAL: @why says what is wrong with it. */
int ck_address_parse(const char *text, struct ck_address *address, char why[CK_ADDRESS_WHY]);

/* Is @address the loopback of this host, with the default port? Any name of this host but these may
 * belong to another one too. */
bool ck_address_is_default_here(const struct ck_address *address);

/*
 * One text for all spellings of an address: with the scheme and the port, in lower case, without
 * devices; unix: in the place of shm:, which leads to the same server. -EINVAL: not an address.
 * -ENAMETOOLONG.
 */
int ck_address_canonical(const char *text, char *out, size_t size);

/* Do both name the same server? Texts that are no addresses must be equal. */
bool ck_address_same(const char *a, const char *b);

#endif
