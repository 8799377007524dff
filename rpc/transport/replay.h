/*
 * rpc/transport/replay.h - the bytes that a lasting channel has taken and its peer has not
 * confirmed.
 *
 * They have numbers, from 0. Most are copied into a ring, which starts small, so that it stays in
 * the processor's cache, and grows to a limit; several can have a budget in common. Bytes that stay
 * valid where they are can be lent instead. No locks: the owner has one.
 */
#ifndef CK_RPC_TRANSPORT_REPLAY_H
#define CK_RPC_TRANSPORT_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "rpc/lasting.h"

#define CK_LOANS 64

struct ck_loan {
	uint64_t at; /* number of its first byte */
	size_t size;
	const unsigned char *data;
	unsigned char *copy; /* data, made by ck_replay_own; or NULL */
};

struct ck_replay {
	uint64_t from, to; /* bytes with these numbers are kept: [from, to) */
	unsigned char *ring;
	size_t size, limit;
	uint64_t lent_before; /* bytes of loans that have ended */
	struct ck_loan loans[CK_LOANS];
	unsigned int first, count; /* of loans: a circle */
	size_t copied;		   /* bytes of copies of loans */
	struct ck_lasting_budget
		*budget; /* which the ring and the copies share with others; NULL: none */
};

void ck_replay_fini(struct ck_replay *r);

/* Bytes of the ring and of copies of loans in use. */
size_t ck_replay_held(const struct ck_replay *r);

/* Room for copied bytes before the ring must grow. */
size_t ck_replay_room(const struct ck_replay *r);

/* Make the ring larger, if it may be: its bytes move. -ENOBUFS: it has its limit, or the budget is
 * used up; -ENOMEM. */
int ck_replay_grow(struct ck_replay *r);

/* Append @size bytes, at most ck_replay_room. */
void ck_replay_put(struct ck_replay *r, const void *data, size_t size);

/* Append bytes that stay where they are until they are confirmed or owned. False: too many
 * loans. */
bool ck_replay_lend(struct ck_replay *r, const void *data, size_t size);

/* Does any loan with bytes below @until remain whose bytes are the lender's? */
bool ck_replay_lent(const struct ck_replay *r, uint64_t until);

/* Copy the bytes of these loans, which the lender can then reuse. -ENOBUFS: more than limit or
 * budget allow; -ENOMEM. */
int ck_replay_own(struct ck_replay *r, uint64_t until);

/* The peer has received all bytes below @to, which is in [from, to]. An empty ring goes back to a
 * budget that others need. */
void ck_replay_confirm(struct ck_replay *r, uint64_t to);

/* Fill @iov with up to @most bytes from @at on; returns the number of entries used, and the bytes
 * in *@size. Bit i of *@lent: the bytes of entry i are the lender's. */
int ck_replay_gather(const struct ck_replay *r, uint64_t at, size_t most, struct iovec *iov,
		     int count, size_t *size, unsigned int *lent);

#endif
