/*
 * rpc/record.h - ONC RPC messages (RFC 5531) with record marking on a channel.
 *
 * Written and read by our own code over libtirpc's XDR, because libtirpc's client and server
 * handles are built for one connection a thread, a blocking peer and no hostile input.
 * Functions return 0 or -errno and set outputs only on 0.
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

#define CK_CALL_XID 4		/* where the number of an encoded call is */
#define CK_CALL_HEADER 44	/* record mark and call header, AUTH_NONE, in bytes */
#define CK_RECORD_MAX (1u << 20) /* a record without bulk payload is no longer than this */

/*
 * Encode record mark, call header and arguments into @buf. @bulk bytes (0 for none) of payload
 * follow the record's encoded part on the channel, padded to 4: the mark counts them and the
 * length word that precedes them is the last field of the arguments. Returns the encoded
 * length, or -ENOSPC when @size does not do, -EINVAL when the arguments cannot be encoded.
 */
long ck_call_encode(void *buf, size_t size, uint32_t xid, uint32_t proc, xdrproc_t xdr_args,
		    const void *args, size_t bulk);

/* Put mark and call header in front of arguments that are in @buf already, behind CK_CALL_HEADER
 * bytes: @length is that of both, and the result as of ck_call_encode. */
long ck_call_head(void *buf, long length, uint32_t xid, uint32_t proc, size_t bulk);

/* The same for an accepted, successful reply. */
long ck_reply_encode(void *buf, size_t size, uint32_t xid, xdrproc_t xdr_res, const void *res,
		     size_t bulk);

/* The coder of a result that has nothing in it. */
bool_t ck_code_nothing(XDR *xdrs, ...);

/* A reply that refuses the call; @stat is PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS. */
long ck_refusal_encode(void *buf, size_t size, uint32_t xid, enum accept_stat stat);

/* Buffered reader of records. */
struct ck_reader;

int ck_reader_create(struct ck_chan *chan, struct ck_reader **reader);
void ck_reader_destroy(struct ck_reader *reader);

/*
 * Room for long records that many readers of one peer share. Each of them keeps a small buffer
 * (CK_READER_SMALL); for a record that needs more it takes a share, waits while there is none, and
 * gives it back with its memory when it goes on to a record that needs less. Where no share comes
 * back for 10 s, records that need one end their readers with -ENOBUFS.
 */
#define CK_READER_SMALL (32u << 10)
struct ck_reader_room;
int ck_reader_room_create(unsigned int shares, struct ck_reader_room **room);
void ck_reader_room_destroy(struct ck_reader_room *room);
int ck_reader_create_small(struct ck_chan *chan, struct ck_reader_room *room,
			   struct ck_reader **reader);

/* From now on it is like one of ck_reader_create. -ENOMEM: it is as it was. */
int ck_reader_widen(struct ck_reader *reader);

/* One record as it arrives: its whole body, or, for a record longer than CK_RECORD_MAX, the
 * first bytes (at least 4096). What the body does not hold is read by ck_reader_bulk. */
struct ck_record {
	const unsigned char *body;	/* valid until the next call on the reader */
	size_t body_size;
	size_t total;			/* bytes of the record's first fragment, body included */
	bool last;			/* no further fragment follows */
};

/* Wait for the next record. -EPIPE: the peer closed between records; -EPROTO: bad framing. */
int ck_reader_next(struct ck_reader *reader, struct ck_record *record);

/* True when a whole further record is already buffered: no system call is needed for it. */
bool ck_reader_ready(struct ck_reader *reader);

/*
 * Bulk payload: start at byte @offset of the current record's body; then each call moves the
 * next @size bytes to @dst (straight from the channel where they are not buffered yet).
 * What is not taken is skipped by ck_reader_next. -EPROTO past the record's end.
 */
int ck_reader_bulk_begin(struct ck_reader *reader, size_t offset);
int ck_reader_bulk(struct ck_reader *reader, void *dst, size_t size);

/* A call's header, decoded and checked. */
struct ck_call_header {
	uint32_t xid, program, version, proc;
	size_t size;			/* bytes of the header: arguments begin there */
};

/* -EPROTO: no RPC call of version 2 (credentials of any flavour up to 400 bytes are skipped). */
int ck_call_decode(const unsigned char *body, size_t size, struct ck_call_header *header);

/* A reply's header: @size is where results begin. -EPROTO: no accepted reply; -EPROTONOSUPPORT:
 * PROG_MISMATCH or RPC_MISMATCH (@low, @high say what the server speaks); -EOPNOTSUPP:
 * PROC_UNAVAIL or PROG_UNAVAIL; -EBADMSG: GARBAGE_ARGS. */
int ck_reply_decode(const unsigned char *body, size_t size, uint32_t *xid, size_t *results,
		    uint32_t *low, uint32_t *high);

#endif
