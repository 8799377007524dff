/*
 * rpc/transport/lasting.h - a lasting channel, for its files: lasting.c sends, lasting_read.c
 * receives, lasting_link.c changes connections.
 *
 * The lock guards all fields. It is not held while a thread reads or writes the connection; `users`
 * counts those threads. One of them at a time has the turn to read, and one the turn to write. A
 * writer with much to send reads confirmations between its frames, and keeps data that come with
 * them for the reader. So two ends that both write never wait for each other.
 */
#ifndef CK_RPC_TRANSPORT_LASTING_H
#define CK_RPC_TRANSPORT_LASTING_H

#include <pthread.h>
#include <sys/types.h>

#include "rpc/lasting.h"
#include "rpc/transport/frames.h"
#include "rpc/transport/replay.h"
#include "rpc/transport/transport.h"
#include "util/wait.h"

struct ck_lasting {
	struct ck_chan base;
	struct ck_lasting_owner owner;
	pid_t process; /* a forked child only closes the descriptor */
	pthread_mutex_t lock;
	struct ck_cond changed;
	unsigned int sleepers; /* threads that wait for changed */
	struct ck_chan *inner; /* the connection; NULL: none */
	unsigned int users;
	bool reading, writing;
	bool greets;	/* the peer's first words have not been read */
	bool detaching; /* the connection is about to be closed */
	bool missed;	/* a look found another thread reading */
	int why;	/* the connection is broken */
	int ended;	/* -errno: for good */
	unsigned int spin_us;
	bool spin_due; /* the connection does not have it yet */
	/* outgoing */
	struct ck_replay out;
	uint64_t sent;	    /* bytes with numbers below this were given to the connection */
	uint64_t reached;   /* the highest number that was ever given to one, plus 1 */
	uint64_t asked_for; /* a confirmation was asked for at this number */
	uint64_t ask_at;    /* ask for one when the bytes below this number have been sent */
	bool slow;	    /* the last wait for one was in vain: the line is long */
	bool says_bye, said_bye;
	/* incoming */
	struct ck_frames in;
	uint64_t told; /* bytes that were confirmed to the peer */
	bool owes;     /* a confirmation */
	bool asks;     /* reclaim wants one */
};

static inline struct ck_lasting *ck_lasting_of(struct ck_chan *chan)
{
	return (struct ck_lasting *)chan;
}

/* The functions below are called with the lock held. */

static inline bool ck_lasting_up(const struct ck_lasting *l)
{
	return l->inner && !l->why && !l->ended && !l->detaching;
}

void ck_lasting_wake(struct ck_lasting *l);

/* Wait for a change, for a second at most, and until @deadline (-1: none): then -ETIMEDOUT. */
int ck_lasting_sleep(struct ck_lasting *l, int64_t deadline);

/* The use of @inner failed with @error. */
void ck_lasting_failed(struct ck_lasting *l, const struct ck_chan *inner, int error);

/* The channel has ended: writes return @error, and so do reads after the received bytes. */
void ck_lasting_end(struct ck_lasting *l, int error);

void ck_lasting_notify(struct ck_lasting *l); /* the owner, that something has changed */

/* The error of an end that reads and writes return; 0: it has not ended. */
int ck_lasting_over(const struct ck_lasting *l);

/* The deadline of a wait that begins now (transport.h); -1: none. */
int64_t ck_lasting_deadline(const struct ck_lasting *l);

/* Around the use of the connection, which stays meanwhile: enter releases the lock, leave takes
 * it. */
struct ck_chan *ck_lasting_enter(struct ck_lasting *l);
void ck_lasting_leave(struct ck_lasting *l);

/* Read the connection once, if no other thread does: to @to, or, with a @size of 0, into the
 * buffer. Returns the bytes at @to; 0: look again; -ETIMEDOUT; -ENOBUFS: the buffer is full. */
long ck_lasting_receive(struct ck_lasting *l, void *to, size_t size, size_t least);

/* Bytes have come and were parsed with result @ret: act on the heads among them. */
void ck_lasting_take_heads(struct ck_lasting *l, int ret);

/* Is there something to send: data, a confirmation, a goodbye? */
bool ck_lasting_unsent(const struct ck_lasting *l);

/* Send all of it, unless another thread does. The lock is released in between. */
void ck_lasting_transmit(struct ck_lasting *l);

/* Take the bytes that the connection has, without waiting, if no thread reads it. @all: even if the
 * reader takes none. */
void ck_lasting_drain_input(struct ck_lasting *l, bool all);

/* The channel's operations (transport.h); they take the lock. */
long ck_lasting_read(struct ck_chan *chan, void *buf, size_t size, size_t least);
int ck_lasting_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd);
int ck_lasting_lend(struct ck_chan *chan, struct iovec *iov, int count, int lent, uint64_t *until);
void ck_lasting_reclaim(struct ck_chan *chan, uint64_t until);

#endif
