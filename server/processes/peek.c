/*
 * server/processes/peek.c - see peek.h.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include "cricket.h"
#include "rpc/record.h"
#include "rpc/tls.h"
#include "server/processes/peek.h"

#define CK_MARK 4
#define CK_LAST_FRAGMENT 0x80000000u
#define CK_CALL_MIN 40 /* bytes of a call with empty credentials */

static uint32_t word_at(const unsigned char *data)
{
	uint32_t word;

	memcpy(&word, data, sizeof(word));
	return ntohl(word);
}

/* Detect an invalid start before the rest arrives: mark, message type, RPC version. */
static bool looks_wrong(const unsigned char *data, size_t size)
{
	uint32_t mark = size >= CK_MARK ? word_at(data) : CK_LAST_FRAGMENT | CK_CALL_MIN;
	uint32_t length = mark & ~CK_LAST_FRAGMENT;

	if (!(mark & CK_LAST_FRAGMENT) || length < CK_CALL_MIN || length > CK_PEEK_MAX - CK_MARK)
		return true;
	if (size >= CK_MARK + 8 && word_at(data + CK_MARK + 4) != CALL)
		return true;
	return size >= CK_MARK + 12 && word_at(data + CK_MARK + 8) != RPC_MSG_VERSION;
}

static enum cks_peek classify(const struct ck_call_header *header)
{
	if (header->program != CK_PROGRAM)
		return CK_PEEK_NO_PROGRAM;
	if (header->version != CK_VERSION)
		return CK_PEEK_NO_VERSION;
	switch (header->proc) {
	case NULLPROC:
		return header->flavor == CK_AUTH_TLS ? CK_PEEK_TLS : CK_PEEK_NULL;
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
	default:
		return CK_PEEK_NO_PROCEDURE;
	}
}

enum cks_peek cks_peek(const unsigned char *data, size_t size, struct cks_peeked *out)
{
	struct ck_call_header header;
	enum cks_peek kind;
	size_t length;
	bool named;

	if (size > 0 && data[0] == CK_TLS_FIRST_BYTE)
		return CK_PEEK_TLS;
	if (looks_wrong(data, size))
		return CK_PEEK_GARBAGE;
	if (size < CK_MARK)
		return CK_PEEK_MORE;
	length = word_at(data) & ~CK_LAST_FRAGMENT;
	if (size - CK_MARK < length)
		return CK_PEEK_MORE;
	if (ck_call_decode(data + CK_MARK, length, &header) < 0)
		return CK_PEEK_GARBAGE;
	kind = classify(&header);
	named = kind == CK_PEEK_JOIN || kind == CK_PEEK_LINK || kind == CK_PEEK_DIRECT;
	if (named && length < header.size + sizeof(out->session))
		return CK_PEEK_GARBAGE;
	out->xid = header.xid;
	out->record = CK_MARK + length;
	out->args = CK_MARK + header.size;
	if (named) /* all begin with it */
		memcpy(out->session, data + CK_MARK + header.size, sizeof(out->session));
	return kind;
}
