/*
 * rpc/fields.c - see fields.h. It handles numbers and byte arrays; messages with other fields
 * (strings, lists, structures) are left to XDR.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cricket.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/util.h"

/* rpcgen's structure for opaque NAME<>. */
struct bytes {
	u_int len;
	char *val;
};

#define HEAD_SIZE 16 /* of struct ck_head, here and on the wire */

/* Size of a field of @kind on the wire in words; 0: not fixed. */
static unsigned int words_of(enum ck_field_kind kind)
{
	switch (kind) {
	case CK_FIELD_INT:
	case CK_FIELD_UINT:
	case CK_FIELD_FLOAT:
	case CK_FIELD_BULK:
		return 1;
	case CK_FIELD_U64:
	case CK_FIELD_POINTER:
	case CK_FIELD_ID:
		return 2;
	default:
		return 0;
	}
}

/* Swap one or two words; encodes and decodes. */
static void swap_words(unsigned char *to, const unsigned char *from, unsigned int words)
{
	uint32_t narrow;
	uint64_t wide;

	if (words == 1) {
		memcpy(&narrow, from, sizeof(narrow));
		narrow = htobe32(narrow);
		memcpy(to, &narrow, sizeof(narrow));
	} else {
		memcpy(&wide, from, sizeof(wide));
		wide = htobe64(wide);
		memcpy(to, &wide, sizeof(wide));
	}
}

/* Write the length, the bytes, and zeros up to a whole word. */
static long put_bytes(unsigned char *to, size_t room, const struct bytes *bytes)
{
	size_t padded = CK_ALIGN_UP((size_t)bytes->len, 4u);

	if (bytes->len > CK_BYTES_MAX)
		return -EINVAL;
	if (room < 4 + padded)
		return -ENOSPC;
	swap_words(to, (const unsigned char *)&bytes->len, 1);
	if (bytes->len > 0) {
		memset(to + padded, 0, 4); /* zero the padding of the last word */
		memcpy(to + 4, bytes->val, bytes->len);
	}
	return (long)(4 + padded);
}

static long get_bytes(const unsigned char *from, size_t left, struct bytes *bytes)
{
	size_t padded;

	if (left < 4)
		return -EBADMSG;
	swap_words((unsigned char *)&bytes->len, from, 1);
	padded = CK_ALIGN_UP((size_t)bytes->len, 4u);
	if (bytes->len > CK_BYTES_MAX || left - 4 < padded)
		return -EBADMSG;
	bytes->val = (char *)(uintptr_t)from + 4;
	return (long)(4 + padded);
}

static long encode_fields(unsigned char *to, size_t size, const struct ck_field *fields,
			  const unsigned char *args)
{
	size_t at = HEAD_SIZE;

	if (size < HEAD_SIZE)
		return -ENOSPC;
	swap_words(to, args, 2);
	swap_words(to + 8, args + 8, 2);
	for (const struct ck_field *f = fields; f && f->kind != CK_FIELD_END; f++) {
		unsigned int words = words_of(f->kind);
		long n = 4 * (long)words;

		if (words > 0) {
			if (size - at < 4 * (size_t)words)
				return -ENOSPC;
			swap_words(to + at, args + f->offset, words);
		} else if (f->kind == CK_FIELD_BYTES) {
			n = put_bytes(to + at, size - at, (const void *)(args + f->offset));
		} else {
			return -EOPNOTSUPP;
		}
		if (n < 0)
			return n;
		at += (size_t)n;
	}
	return (long)at;
}

static long decode_fields(const unsigned char *from, size_t size, const struct ck_field *fields,
			  unsigned char *args)
{
	size_t at = HEAD_SIZE;

	if (size < HEAD_SIZE)
		return -EBADMSG;
	swap_words(args, from, 2);
	swap_words(args + 8, from + 8, 2);
	for (const struct ck_field *f = fields; f && f->kind != CK_FIELD_END; f++) {
		unsigned int words = words_of(f->kind);
		long n = 4 * (long)words;

		if (words > 0) {
			if (size - at < 4 * (size_t)words)
				return -EBADMSG;
			swap_words(args + f->offset, from + at, words);
		} else if (f->kind == CK_FIELD_BYTES) {
			n = get_bytes(from + at, size - at, (void *)(args + f->offset));
		} else {
			return -EOPNOTSUPP;
		}
		if (n < 0)
			return n;
		at += (size_t)n;
	}
	return (long)at;
}

long ck_message_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, const void *args,
		       size_t bulk)
{
	const struct ck_proc *p = &ck_procs[proc];
	long n;

	if (size < CK_CALL_HEADER)
		return -ENOSPC;
	n = encode_fields((unsigned char *)buf + CK_CALL_HEADER, size - CK_CALL_HEADER, p->in,
			  args);
	if (n == -EOPNOTSUPP)
		return ck_call_encode(buf, size, xid, proc, p->xdr_args, args, bulk);
	return n < 0 ? n : ck_call_head(buf, CK_CALL_HEADER + n, xid, proc, bulk);
}

long ck_message_decode(const unsigned char *from, size_t size, uint32_t proc, void *args)
{
	return decode_fields(from, size, ck_procs[proc].in, args);
}
