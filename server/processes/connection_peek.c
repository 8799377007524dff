/*
 * server/processes/connection_peek.c - see connection_peek.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "cricket.h"
#include "rpc/fragments.h"
#include "rpc/record.h"
#include "rpc/tls.h"
#include "server/processes/connection_peek.h"

#define CK_TLS_HEAD 5
#define CK_TLS_RECORD_MOST 16384
#define CK_TLS_CLIENT_HELLO 1
#define CK_CALL_START 12 /* bytes of the xid, the message's type and the version of RPC */

static uint32_t word_at(const unsigned char *data)
{
	uint32_t word;

	memcpy(&word, data, sizeof(word));
	return ntohl(word);
}

/* Detect an invalid start before the rest arrives. */
static bool looks_wrong(const unsigned char *data, const struct ck_joined *joined)
{
	if (joined->complete && joined->body < CK_CALL_START)
		return true;
	return joined->body >= 8 && word_at(data + CK_MARK + 4) != CALL;
}

/*
 * The first record of a handshake, RFC 8446 section 5.1: kind, version 3.x, length; a ClientHello.
 * One that is longer than a peek counts as whole when that much is there.
 */
static enum cks_connection_peek classify_handshake(const unsigned char *data, size_t size,
						   struct cks_peeked *out)
{
	size_t length = size >= CK_TLS_HEAD ? (size_t)data[3] << 8 | data[4] : 0;

	if ((size >= 2 && data[1] != 3) ||
	    (size >= CK_TLS_HEAD && (length == 0 || length > CK_TLS_RECORD_MOST)) ||
	    (size > CK_TLS_HEAD && data[CK_TLS_HEAD] != CK_TLS_CLIENT_HELLO))
		return CK_PEEK_GARBAGE;
	if (size < CK_TLS_HEAD || (size < CK_TLS_HEAD + length && size < CK_PEEK_MAX))
		return CK_PEEK_MORE;
	if (size >= CK_TLS_HEAD + length &&
	    ck_tls_hello_session(data, CK_TLS_HEAD + length, out->session))
		return CK_PEEK_SECRET;
	return CK_PEEK_HANDSHAKE;
}

static enum cks_connection_peek classify_call(const struct ck_call_header *header)
{
	if (header->program != CK_PROGRAM)
		return CK_PEEK_NO_PROGRAM;
	if (header->version != CK_VERSION)
		return CK_PEEK_NO_VERSION;
	switch (header->proc) {
	case NULLPROC:
		return header->flavor == CK_AUTH_TLS ? CK_PEEK_PROBE : CK_PEEK_NULL;
	case CK_HELLO:
		return CK_PEEK_HELLO;
	case CK_JOIN:
		return CK_PEEK_JOIN;
	case CK_LINK:
		return CK_PEEK_LINK;
	case CK_DIRECT:
		return CK_PEEK_DIRECT;
	case CK_FILES:
		return CK_PEEK_FILES;
	case CK_OFFER:
		return CK_PEEK_OFFER;
	case CK_ENDED:
		return CK_PEEK_ENDED;
	default:
		return CK_PEEK_NO_PROCEDURE;
	}
}

enum cks_connection_peek cks_connection_peek(unsigned char *data, size_t size,
					     struct cks_peeked *out)
{
	struct ck_call_header header;
	struct ck_joined joined;
	enum cks_connection_peek kind;
	bool named;
	int ret;

	if (size > 0 && data[0] == CK_TLS_FIRST_BYTE)
		return classify_handshake(data, size, out);
	if (ck_fragments_join(data, size, CK_PEEK_MAX, &joined) < 0 || looks_wrong(data, &joined))
		return CK_PEEK_GARBAGE;
	if (!joined.complete)
		return CK_PEEK_MORE;
	ret = ck_call_decode(data + CK_MARK, joined.body, &header);
	if (ret == -EPROTO)
		return CK_PEEK_GARBAGE;
	out->xid = header.xid;
	out->record = joined.wire;
	if (ret < 0)
		return CK_PEEK_NO_RPC_VERSION;
	out->args = CK_MARK + header.size;
	out->args_size = joined.body - header.size;
	kind = classify_call(&header);
	named = kind == CK_PEEK_JOIN || kind == CK_PEEK_LINK || kind == CK_PEEK_DIRECT;
	if (named && out->args_size < sizeof(out->session))
		return CK_PEEK_GARBAGE;
	if (named) /* all begin with it */
		memcpy(out->session, data + out->args, sizeof(out->session));
	return kind;
}
