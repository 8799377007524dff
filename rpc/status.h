/*
 * rpc/status.h - how a client is told that what it has asked for is done: ck_event_ask, ck_stream_ask.
 *
 * The client names a watch by a number, which grows; the low CK_STATUS_BITS bits of it are those of
 * its word. A watch ends with that number and a state. Ends come in batches: what is done when one
 * end is found is found with it, so that nobody sees the later of two things done before the earlier.
 * An end counts when its batch has been closed.
 *
 * On one host the words are in a file in memory, of the client, that the server writes (ck_status_file,
 * seals against shrinking and growing). Else ends are deliveries without bytes (ck_delivery_next).
 */
#ifndef CK_RPC_STATUS_H
#define CK_RPC_STATUS_H

#include <stdatomic.h>
#include <stdint.h>

#define CK_STATUS_BITS 16
#define CK_STATUS_WORDS ((uint64_t)1 << CK_STATUS_BITS)

/* States. ASK: there is something that only a call can tell. */
#define CK_STATUS_ENDED 1u
#define CK_STATUS_ASK 2u
#define CK_STATUS_CLOSES 4u	/* of a delivery: it is the last one of its batch */

struct ck_status_word {
	_Atomic uint64_t end;	/* number << 2 | state, written last */
	_Atomic uint64_t batch;
};

struct ck_status_file {
	_Atomic uint64_t closed; /* the last batch that is complete */
	uint64_t unused[511];	 /* the words begin in a page of their own */
	struct ck_status_word word[CK_STATUS_WORDS];
};

/* What a question is answered: done; not done; not done, and the client will be told. */
#define CK_ASKED_DONE 0u
#define CK_ASKED_BUSY 1u
#define CK_ASKED_WATCHED 2u

/* In the number of a delivery: it is the end of a watch, its offset batch << 3 | state; it may come in
 * front of any reply, as a reply to ck_delivery_next with xid 0. */
#define CK_DELIVERY_NEWS ((uint64_t)1 << 63)
#define CK_DELIVERY_ALONG ((uint64_t)1 << 62)

#endif
