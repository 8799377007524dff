/*
 * server/processes/peek.h - find the purpose of a new connection from its first bytes, without
 * reading them.
 */
#ifndef CK_SERVER_PROCESSES_PEEK_H
#define CK_SERVER_PROCESSES_PEEK_H

#include <stddef.h>
#include <stdint.h>

#define CK_PEEK_MAX 4096 /* bytes; the client's first records are never longer */

enum cks_peek {
	CK_PEEK_MORE,	 /* not all of the record has arrived */
	CK_PEEK_GARBAGE, /* no RPC call, or too long to peek at */
	CK_PEEK_TLS,	 /* the probe for TLS, or a handshake that begins without one */
	CK_PEEK_NULL,	 /* procedure 0 of this program and version */
	CK_PEEK_NO_PROGRAM,
	CK_PEEK_NO_VERSION,
	CK_PEEK_NO_PROCEDURE, /* this program, but not a first procedure */
	CK_PEEK_HELLO,
	CK_PEEK_JOIN,
	CK_PEEK_LINK,
	CK_PEEK_FILES,
	CK_PEEK_DIRECT,
	CK_PEEK_OFFER,
};

struct cks_peeked {
	uint32_t xid;
	size_t record;		   /* bytes of the record, its mark included */
	size_t args;		   /* offset of its arguments */
	unsigned char session[16]; /* of a join, a link or a direct connection */
};

/* Classify the first @size bytes of a connection. *out is set from CK_PEEK_NULL on. */
enum cks_peek cks_peek(const unsigned char *data, size_t size, struct cks_peeked *out);

#endif
