/*
 * server/processes/peek.h - what a fresh connection wants, told from its first bytes without taking them.
 */
#ifndef CK_SERVER_PROCESSES_PEEK_H
#define CK_SERVER_PROCESSES_PEEK_H

#include <stddef.h>
#include <stdint.h>

#define CK_PEEK_MAX 4096 /* bytes; no first record of a client of ours is longer */

enum ck_peek {
	CK_PEEK_MORE,	       /* not all of the record has arrived */
	CK_PEEK_GARBAGE,       /* no RPC call, or one too long to be looked at */
	CK_PEEK_NULL,	       /* procedure 0 of our program and version */
	CK_PEEK_NO_PROGRAM,
	CK_PEEK_NO_VERSION,
	CK_PEEK_NO_PROCEDURE,  /* ours, but nothing that a connection begins with */
	CK_PEEK_HELLO,
	CK_PEEK_JOIN,
};

struct ck_peeked {
	uint32_t xid;
	size_t record;		   /* bytes of the record, its mark included */
	size_t args;		   /* where its arguments begin */
	unsigned char session[16]; /* of a join */
};

/* Judge the @size bytes at the start of a connection. *out is set from CK_PEEK_NULL on. */
enum ck_peek ck_peek(const unsigned char *data, size_t size, struct ck_peeked *out);

#endif
