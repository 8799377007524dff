/*
 * rpc/transport/tls_hello.c - which session a ClientHello names; see rpc/tls.h.
 *
 * RFC 8446, sections 4.1.2 and 4.2.11. The peer has written these bytes, and has proved nothing:
 * OpenSSL parses them again, with all checks, in the process that makes the handshake.
 */
#include <string.h>

#include "rpc/tls.h"
#include "rpc/transport/tls.h"

#define RECORD_HEAD 5
#define MESSAGE_HEAD 4
#define VERSION_AND_RANDOM 34
#define CLIENT_HELLO 1
#define PRE_SHARED_KEY 41

/* Bytes that are left; @bad: there were too few. */
struct rest {
	const unsigned char *at;
	size_t size;
	bool bad;
};

static struct rest take_bytes(struct rest *from, size_t size)
{
	struct rest part = {from->at, size, from->bad || size > from->size};

	if (part.bad) {
		from->bad = true;
		return (struct rest){.bad = true};
	}
	from->at += size;
	from->size -= size;
	return part;
}

static size_t take_number(struct rest *from, size_t bytes)
{
	struct rest part = take_bytes(from, bytes);
	size_t number = 0;

	for (size_t i = 0; !part.bad && i < bytes; i++)
		number = number << 8 | part.at[i];
	return number;
}

/* The field behind a length of @bytes bytes, as long as that says. */
static struct rest take_vector(struct rest *from, size_t bytes)
{
	size_t size = take_number(from, bytes);

	return take_bytes(from, size);
}

/* The extensions of a ClientHello that is whole in the first record. */
static struct rest find_extensions(const unsigned char *record, size_t size)
{
	struct rest all = {record, size, false}, hello, none = {.bad = true};

	take_bytes(&all, RECORD_HEAD - 2);
	hello = take_vector(&all, 2);
	if (take_number(&hello, 1) != CLIENT_HELLO)
		return none;
	hello = take_vector(&hello, MESSAGE_HEAD - 1);
	take_bytes(&hello, VERSION_AND_RANDOM);
	take_vector(&hello, 1); /* the legacy session id */
	take_vector(&hello, 2); /* cipher suites */
	take_vector(&hello, 1); /* compression methods */
	return take_vector(&hello, 2);
}

bool ck_tls_hello_session(const unsigned char *record, size_t size,
			  unsigned char session[CK_TLS_SESSION])
{
	struct rest extensions = find_extensions(record, size), identities, first;

	while (!extensions.bad && extensions.size > 0) {
		size_t kind = take_number(&extensions, 2);
		struct rest body = take_vector(&extensions, 2);

		if (kind != PRE_SHARED_KEY)
			continue;
		identities = take_vector(&body, 2);
		first = take_vector(&identities, 2);
		return !first.bad && ck_tls_identity_parse(first.at, first.size, session, NULL);
	}
	return false;
}
