/*
 * rpc/transport/delay.h - a queue whose pieces come out at the moments they are marked with.
 *
 * One thread or several put, one takes. Times are ns of CLOCK_MONOTONIC.
 */
#ifndef CK_RPC_TRANSPORT_DELAY_H
#define CK_RPC_TRANSPORT_DELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/spin.h"

struct ck_piece {
	struct ck_piece *next;
	int64_t due;
	size_t size, taken;
	unsigned char data[];
};

struct ck_delay {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ck_piece *first, **end;
	size_t bytes;
	int64_t wake_ns; /* this long before a piece is due its taker stops sleeping */
	int error;	 /* what comes behind the last piece */
	int64_t error_due;
	bool closed; /* nobody wants what is in it any more */
	bool idle;   /* the taker has seen the error, and left */
};

static inline int64_t ck_delay_now(void)
{
	return (int64_t)ck_now_ns();
}

void ck_delay_sleep(int64_t until);

/* @late_ns: by what the taker's timers and its waking up may be late. It stops sleeping that much
 * early and looks at the clock, on machines with four processors or more. */
void ck_delay_init(struct ck_delay *q, int64_t late_ns);
void ck_delay_destroy(struct ck_delay *q);

/* @size bytes to be filled, or NULL; free(3) is its end. */
struct ck_piece *ck_piece_new(size_t size);

/* Put @p, which is the queue's from then on, when it has room: until @deadline (-1: for ever).
 * -EPIPE: it is closed; -ETIMEDOUT; or the error at its end. */
int ck_delay_put(struct ck_delay *q, struct ck_piece *p, int64_t deadline);

/* No more will come: behind what is in it the taker finds @error, not before @due. */
void ck_delay_end(struct ck_delay *q, int error, int64_t due);

/* Everybody leaves, with -EPIPE. */
void ck_delay_close(struct ck_delay *q);

/*
 * With the lock held: wait until the first piece is due, and leave it in the queue; NULL and
 * @error: closed, at the end, or nothing there at @deadline. The lock is given up meanwhile.
 */
struct ck_piece *ck_delay_first(struct ck_delay *q, int64_t deadline, int *error);

/* With the lock held: take the first piece out; it is the caller's. */
void ck_delay_drop(struct ck_delay *q);

/* The taker leaves; somebody may wait for that, until @deadline. With and without the lock held. */
void ck_delay_left(struct ck_delay *q);
void ck_delay_await_left(struct ck_delay *q, int64_t deadline);

#endif
