/*
 * rpc/record.c - headers of ONC RPC messages, encoded and decoded word by word.
 *
 * Layouts of RFC 5531, sections 9 and 11. A call's header is eleven words with known values, which
 * are stored directly; XDR streams begin at the arguments.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "rpc/fragments.h"
#include "rpc/record.h"
#include "util/util.h"

#define CK_FRAGMENT_MAX 0x7fffffffu
#define CK_RPC_VERSION 2
#define CK_AUTH_MAX 400	      /* maximal body of a credential or verifier */
#define CK_REPLY_HEADER 28    /* record mark and header of an accepted reply */
#define CK_BULK_HEAD_MAX 4096 /* limit of bytes ahead of bulk payload: a reader may see no more */

static void put_word(unsigned char *at, uint32_t value)
{
	value = htonl(value);
	memcpy(at, &value, sizeof(value));
}

static void put_words(unsigned char *at, const uint32_t *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		put_word(at + 4 * i, values[i]);
}

static uint32_t get_word(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

/*
 * Encode @data after the @header bytes of @buf; returns the total length. XDR streams report only
 * failure. On failure, measure the data to find out whether room was missing.
 */
static long encode_body(unsigned char *buf, size_t size, size_t header, xdrproc_t xdr,
			const void *data)
{
	size_t room = size - header;
	XDR xdrs;

	if (room > INT_MAX)
		room = INT_MAX;
	xdrmem_create(&xdrs, (char *)buf + header, (u_int)room, XDR_ENCODE);
	if (!xdr(&xdrs, (void *)data))
		return xdr_sizeof(xdr, (void *)data) > room ? -ENOSPC : -EINVAL;
	return (long)(header + xdr_getpos(&xdrs));
}

/* Is @word the length of @bulk bytes of payload? @bulk may include one word more: the status at the
 * end of a reply whose payload can still fail. */
static bool bulk_matches(size_t bulk, uint32_t word)
{
	return bulk == word || bulk == (((size_t)word + 3) & ~(size_t)3) + 4;
}

/*
 * Store the record mark for @length bytes in @buf plus @bulk bytes to follow. Returns @length, or
 * -EINVAL for a record that a reader would refuse: a bulk length that differs from the last word,
 * too many bytes ahead of the payload, or a record that is too long without payload.
 */
static long write_record_mark(unsigned char *buf, long length, size_t bulk)
{
	size_t body = (size_t)length - 4;

	if (bulk > CK_FRAGMENT_MAX - CK_BULK_HEAD_MAX - 3)
		return -EINVAL;
	if (body > (bulk ? CK_BULK_HEAD_MAX : CK_RECORD_MAX))
		return -EINVAL;
	if (bulk && !bulk_matches(bulk, get_word(buf + length - 4)))
		return -EINVAL;
	body += (bulk + 3) & ~(size_t)3;
	put_word(buf, CK_LAST_FRAGMENT | (uint32_t)body);
	return length;
}

long ck_call_head(void *buf, long length, uint32_t xid, uint32_t proc, size_t bulk)
{
	const uint32_t words[] = {
		xid, CALL, CK_RPC_VERSION, CK_PROGRAM, CK_VERSION, proc, AUTH_NONE, 0, AUTH_NONE, 0,
	};

	put_words((unsigned char *)buf + 4, words, CK_ARRAY_SIZE(words));
	return write_record_mark(buf, length, bulk);
}

long ck_call_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, xdrproc_t xdr_args,
		    const void *args, size_t bulk)
{
	long length;

	if (size < CK_CALL_HEADER)
		return -ENOSPC;
	length = encode_body(buf, size, CK_CALL_HEADER, xdr_args, args);
	return length < 0 ? length : ck_call_head(buf, length, xid, proc, bulk);
}

bool_t ck_code_nothing(XDR *xdrs, ...)
{
	(void)xdrs;
	return TRUE;
}

long ck_reply_encode(void *buf, size_t size, uint32_t xid, xdrproc_t xdr_res, const void *res,
		     size_t bulk)
{
	const uint32_t words[] = {xid, REPLY, MSG_ACCEPTED, AUTH_NONE, 0, SUCCESS};
	long length;

	if (size < CK_REPLY_HEADER)
		return -ENOSPC;
	put_words((unsigned char *)buf + 4, words, CK_ARRAY_SIZE(words));
	length = encode_body(buf, size, CK_REPLY_HEADER, xdr_res, res);
	return length < 0 ? length : write_record_mark(buf, length, bulk);
}

/* -EINVAL for another @stat. PROG_MISMATCH reports CK_VERSION as the only version. */
long ck_refusal_encode(void *buf, size_t size, uint32_t xid, enum accept_stat stat)
{
	const uint32_t words[] = {
		xid, REPLY, MSG_ACCEPTED, AUTH_NONE, 0, stat, CK_VERSION, CK_VERSION,
	};
	size_t count = stat == PROG_MISMATCH ? 8 : 6;

	if (stat != PROG_UNAVAIL && stat != PROG_MISMATCH && stat != PROC_UNAVAIL &&
	    stat != GARBAGE_ARGS)
		return -EINVAL;
	if (size < 4 + 4 * count)
		return -ENOSPC;
	put_words((unsigned char *)buf + 4, words, count);
	return write_record_mark(buf, (long)(4 + 4 * count), 0);
}

long ck_mismatch_encode(void *buf, size_t size, uint32_t xid)
{
	const uint32_t words[] = {
		xid, REPLY, MSG_DENIED, RPC_MISMATCH, CK_RPC_VERSION, CK_RPC_VERSION,
	};

	if (size < 4 + sizeof(words))
		return -ENOSPC;
	put_words((unsigned char *)buf + 4, words, CK_ARRAY_SIZE(words));
	return write_record_mark(buf, 4 + sizeof(words), 0);
}

/* Bytes of the credential or verifier at @at, with @size bytes left, or -EPROTO. */
static long auth_size(const unsigned char *at, size_t size)
{
	uint32_t length;

	if (size < 8)
		return -EPROTO;
	length = get_word(at + 4);
	if (length > CK_AUTH_MAX)
		return -EPROTO;
	length = (length + 3) & ~3u;
	return length <= size - 8 ? (long)(8 + length) : -EPROTO;
}

int ck_call_decode(const unsigned char *body, size_t size, struct ck_call_header *header)
{
	size_t at = 24;
	int i;

	if (size < 12 || get_word(body + 4) != CALL)
		return -EPROTO;
	if (get_word(body + 8) != CK_RPC_VERSION) {
		header->xid = get_word(body);
		return -EPROTONOSUPPORT;
	}
	if (size < at)
		return -EPROTO;
	for (i = 0; i < 2; i++) { /* credential, verifier */
		long n = auth_size(body + at, size - at);

		if (n < 0)
			return (int)n;
		at += (size_t)n;
	}
	header->xid = get_word(body);
	header->program = get_word(body + 12);
	header->version = get_word(body + 16);
	header->proc = get_word(body + 20);
	header->flavor = get_word(body + 24);
	header->size = at;
	return 0;
}

/* Decode the versions that follow a mismatch at @at. */
static int decode_mismatch(const unsigned char *body, size_t size, size_t at, uint32_t *low,
			   uint32_t *high)
{
	if (size < at + 8)
		return -EPROTO;
	*low = get_word(body + at);
	*high = get_word(body + at + 4);
	return -EPROTONOSUPPORT;
}

/* @xid is also set for refusals (all errors except -EPROTO), to identify the call. */
int ck_reply_decode(const unsigned char *body, size_t size, uint32_t *xid, size_t *results,
		    uint32_t *low, uint32_t *high)
{
	size_t at = 12;
	long verifier;
	int ret;

	if (size < at + 4 || get_word(body + 4) != REPLY)
		return -EPROTO;
	if (get_word(body + 8) == MSG_DENIED && get_word(body + at) == RPC_MISMATCH) {
		ret = decode_mismatch(body, size, at + 4, low, high);
		goto refused;
	}
	verifier = auth_size(body + at, size - at);
	if (get_word(body + 8) != MSG_ACCEPTED || verifier < 0)
		return -EPROTO;
	at += (size_t)verifier;
	if (size - at < 4)
		return -EPROTO;
	switch (get_word(body + at)) {
	case SUCCESS:
		*results = at + 4;
		ret = 0;
		break;
	case PROG_MISMATCH:
		ret = decode_mismatch(body, size, at + 4, low, high);
		break;
	case PROG_UNAVAIL:
	case PROC_UNAVAIL:
		ret = -EOPNOTSUPP;
		break;
	case GARBAGE_ARGS:
		ret = -EBADMSG;
		break;
	default: /* SYSTEM_ERR, which Cricket never sends, and undefined numbers */
		ret = -EPROTO;
		break;
	}
refused:
	if (ret != -EPROTO)
		*xid = get_word(body);
	return ret;
}
