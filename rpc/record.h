/*
 * rpc/record.h - ONC RPC messages (RFC 5531) with record marking on a channel.
 *
 * Cricket uses its own code over libtirpc's XDR: libtirpc's client and server handles are designed
 * for one connection per thread, a blocking peer and trusted input. Functions return 0 or -errno
 * and set outputs only on 0.
 */
#ifndef CK_RPC_RECORD_H
#define CK_RPC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rpc/rpc.h>

#include "rpc/chan.h"

#define CK_PROGRAM 99
#define CK_VERSION 1

#define CK_CALL_XID 4		 /* offset of the xid in an encoded call */
#define CK_CALL_HEADER 44	 /* bytes of record mark and call header with AUTH_NONE */
#define CK_RECORD_MAX (1u << 20) /* longest record, without bulk payload */

/*
 * Encode record mark, call header and arguments into @buf. @bulk bytes (0 for none) of payload
 * follow on the channel, padded to 4. The mark includes them, and the last field of the arguments
 * is their length. Returns the encoded length, or -ENOSPC if @size is too small, -EINVAL if the
 * arguments cannot be encoded.
 */
long ck_call_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, xdrproc_t xdr_args,
		    const void *args, size_t bulk);

/* Write mark and call header ahead of arguments that are already in @buf, at offset CK_CALL_HEADER.
 * @length is the total; the result is as for ck_call_encode. */
long ck_call_head(void *buf, long length, uint32_t xid, uint32_t proc, size_t bulk);

/* The same for an accepted, successful reply. */
long ck_reply_encode(void *buf, size_t size, uint32_t xid, xdrproc_t xdr_res, const void *res,
		     size_t bulk);

/* The coder of an empty result. */
bool_t ck_code_nothing(XDR *xdrs, ...);

/* Encode a reply that refuses the call; @stat is PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL,
 * GARBAGE_ARGS. */
long ck_refusal_encode(void *buf, size_t size, uint32_t xid, enum accept_stat stat);

/* Encode a reply that denies a call of another version of RPC (RPC_MISMATCH). */
long ck_mismatch_encode(void *buf, size_t size, uint32_t xid);

/* Buffered reader of records. */
struct ck_reader;

int ck_reader_create(struct ck_chan *chan, struct ck_reader **reader);
void ck_reader_destroy(struct ck_reader *reader);

/* A reader with a small buffer (CK_READER_SMALL), which takes a share of @room for a larger
 * record (rpc/reader_memory.h). */
#define CK_READER_SMALL (32u << 10)
struct ck_reader_memory;
int ck_reader_create_small(struct ck_chan *chan, struct ck_reader_memory *room,
			   struct ck_reader **reader);

/* Make it like a reader of ck_reader_create. -ENOMEM: unchanged. */
int ck_reader_widen(struct ck_reader *reader);

/* Has the reader received bytes beyond the current record? */
bool ck_reader_holds(const struct ck_reader *reader);

/* A received record: its whole body; or, if it is longer than CK_RECORD_MAX, its first bytes (at
 * least 4096). ck_reader_bulk reads the rest. */
struct ck_record {
	const unsigned char *body; /* valid until the next call on the reader */
	size_t body_size;
	size_t total; /* bytes of the record, body included */
};

/* Wait for the next record. -EPIPE: the peer closed the stream between records; -EPROTO: bad
 * framing. */
int ck_reader_next(struct ck_reader *reader, struct ck_record *record);

/* Take the unread rest of the last record, such as the padding of its payload, off the channel.
 * Otherwise a reader that sees bytes there takes them for the next record. The record stays valid,
 * its payload does not. */
int ck_reader_finish(struct ck_reader *reader);

/*
 * Bulk payload: start at byte @offset of the current record's body; then each call copies the next
 * @size bytes to @dst (directly from the channel if they are not buffered). ck_reader_next skips
 * unread bytes. -EPROTO past the record's end.
 */
int ck_reader_bulk_begin(struct ck_reader *reader, size_t offset);
int ck_reader_bulk(struct ck_reader *reader, void *dst, size_t size);

/* A call's header, decoded and checked. */
struct ck_call_header {
	uint32_t xid, program, version, proc;
	uint32_t flavor; /* of the credential */
	size_t size;	 /* bytes of the header; the arguments follow */
};

/* Credentials of any flavour up to 400 bytes are skipped. -EPROTO: not an RPC call.
 * -EPROTONOSUPPORT: one of another version than 2; only the xid is set. */
int ck_call_decode(const unsigned char *body, size_t size, struct ck_call_header *header);

/* Decode a reply's header: @results is the offset of the results. -EPROTO: no accepted reply;
 * -EPROTONOSUPPORT: PROG_MISMATCH or RPC_MISMATCH (@low, @high are the server's versions);
 * -EOPNOTSUPP: PROC_UNAVAIL or PROG_UNAVAIL; -EBADMSG: GARBAGE_ARGS. */
int ck_reply_decode(const unsigned char *body, size_t size, uint32_t *xid, size_t *results,
		    uint32_t *low, uint32_t *high);

#endif
