/*
 * server/processes/connection_peek.h - find the purpose of a new connection from its first bytes,
 * without reading them.
 */
#ifndef CK_SERVER_PROCESSES_CONNECTION_PEEK_H
#define CK_SERVER_PROCESSES_CONNECTION_PEEK_H

#include <stddef.h>
#include <stdint.h>

#define CK_PEEK_MAX 4096 /* bytes, with all marks; the client's first records are never longer */

enum cks_connection_peek {
	CK_PEEK_MORE,		/* not all of the record has arrived */
	CK_PEEK_GARBAGE,	/* no RPC call, or too long to peek at */
	CK_PEEK_HANDSHAKE,	/* the whole first record of a TLS handshake */
	CK_PEEK_SECRET,		/* the same, which names a session whose secret its client has */
	CK_PEEK_NULL,		/* procedure 0 of this program and version */
	CK_PEEK_NO_RPC_VERSION, /* a call of another version of RPC */
	CK_PEEK_NO_PROGRAM,
	CK_PEEK_NO_VERSION,
	CK_PEEK_NO_PROCEDURE, /* this program, but not a first procedure */
	CK_PEEK_PROBE,	      /* procedure 0 that asks for TLS */
	CK_PEEK_HELLO,
	CK_PEEK_JOIN,
	CK_PEEK_LINK,
	CK_PEEK_FILES,
	CK_PEEK_DIRECT,
	CK_PEEK_OFFER,
	CK_PEEK_ENDED,
};

struct cks_peeked {
	uint32_t xid;
	size_t record;		   /* bytes of the record on the connection, its marks included */
	size_t args;		   /* offset of its arguments in the joined record */
	size_t args_size;	   /* in bytes */
	unsigned char session[16]; /* of a join, a link, a direct connection or CK_PEEK_SECRET */
};

/*
 * Classify the first @size bytes of a connection, and join the fragments of the record in @data.
 * *out is set from CK_PEEK_NULL on; only its xid and record for CK_PEEK_NO_RPC_VERSION, and only
 * its session for CK_PEEK_SECRET.
 */
enum cks_connection_peek cks_connection_peek(unsigned char *data, size_t size,
					     struct cks_peeked *out);

#endif
