/*
 * rpc/status.h - how the server reports that watched objects are done: ck_event_ask,
 * ck_event_watch, ck_stream_ask.
 *
 * The client numbers its watches in ascending order; the low CK_STATUS_BITS bits of a number select
 * a word. A watch ends with its number and a state. Ends come in batches: all objects found done
 * together are in one batch, so that no thread sees the later of two ends first. An end is valid
 * when its batch has been closed.
 *
 * On one host, the words are in a memory file of the client that the server writes (ck_status_file,
 * sealed against shrinking and growing). Otherwise, ends are deliveries without bytes
 * (ck_delivery_next). A client that has sent ck_event_watch also gets several ends in one delivery:
 * a list.
 */
#ifndef CK_RPC_STATUS_H
#define CK_RPC_STATUS_H

#include <stdatomic.h>
#include <stdint.h>

#define CK_STATUS_BITS 16
#define CK_STATUS_WORDS ((uint64_t)1 << CK_STATUS_BITS)

/* States. ASK: only a call can report the outcome. */
#define CK_STATUS_ENDED 1u
#define CK_STATUS_ASK 2u
#define CK_STATUS_CLOSES 4u /* of a delivery: the last one of its batch */

struct ck_status_word {
	_Atomic uint64_t end; /* number << 2 | state, written last */
	_Atomic uint64_t batch;
};

struct ck_status_file {
	_Atomic uint64_t closed; /* the last complete batch */
	uint64_t unused[511];	 /* so that the words begin in a separate page */
	struct ck_status_word word[CK_STATUS_WORDS];
};

/* Replies to a query: done; not done; not done, and the end will be reported. */
#define CK_ASKED_DONE 0u
#define CK_ASKED_BUSY 1u
#define CK_ASKED_WATCHED 2u

/* Flag in the number of a delivery: it is the end of a watch, and its offset is batch << 3 | state.
 * It may come ahead of any reply, as a reply to ck_delivery_next with xid 0. */
#define CK_DELIVERY_NEWS ((uint64_t)1 << 63)
#define CK_DELIVERY_ALONG ((uint64_t)1 << 62)

/* Number of a delivery whose bytes are a list of ends, in the order of their ranks; it has the rank
 * of the last one. Each has the content of a delivery of its own, in little-endian words. */
#define CK_DELIVERY_LIST (CK_DELIVERY_NEWS | (uint64_t)1 << 61)
#define CK_NEWS_MOST 40u

/* Number of a delivery whose bytes are changes of shadowed memory (rpc/pinned.h). */
#define CK_DELIVERY_CHANGES (CK_DELIVERY_NEWS | (uint64_t)1 << 60)

/* ck_event_times, ck_wait_times: at most so many pairs of events. The reply has their times in
 * milliseconds, floats with the low byte first, up to the first pair without one. */
#define CK_TIMES_MOST 256u

struct ck_news {
	uint64_t number, what, rank;
};

#endif
