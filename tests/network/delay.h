/*
 * tests/network/delay.h - a queue that releases each piece at its due time.
 *
 * One or more threads put pieces, one takes them. Times are ns of CLOCK_MONOTONIC.
 */
#ifndef CK_TESTS_NETWORK_DELAY_H
#define CK_TESTS_NETWORK_DELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/spin.h"
#include "util/until.h"
#include "util/wait.h"

struct ck_piece {
	struct ck_piece *next;
	int64_t due;
	size_t size, taken;
	unsigned char data[];
};

struct ck_delay {
	pthread_mutex_t lock;
	struct ck_cond changed;
	struct ck_piece *first, **end;
	size_t bytes;
	int64_t wake_ns; /* the taker stops sleeping this long before a piece is due */
	int error;	 /* returned after the last piece */
	int64_t error_due;
	bool closed; /* the contents are no longer needed */
	bool idle;   /* the thread of the queue has left */
};

static inline int64_t ck_delay_now(void)
{
	return (int64_t)ck_now_ns();
}

void ck_delay_sleep(int64_t until);

/* @late_ns: maximal delay of the taker's timers and wake-up. The taker stops sleeping that much
 * early and polls the clock, on machines with four or more processors. */
void ck_delay_init(struct ck_delay *q, int64_t late_ns);
void ck_delay_destroy(struct ck_delay *q);

/* A piece of @size bytes to fill, or NULL; free it with free(3). */
struct ck_piece *ck_piece_new(size_t size);

/* Put @p when there is room, waiting until @deadline (-1: no limit). The queue owns it then.
 * -EPIPE: closed; -ETIMEDOUT; or the error of the end. */
int ck_delay_put(struct ck_delay *q, struct ck_piece *p, int64_t deadline);

/* End the queue: after the pieces in it the taker gets @error, not before @due. */
void ck_delay_end(struct ck_delay *q, int error, int64_t due);

/* Make all waiters return -EPIPE. */
void ck_delay_close(struct ck_delay *q);

/*
 * Call with the lock held. Wait until the first piece is due; it stays in the queue. NULL with
 * @error: closed, ended, or none due at @deadline. The lock is released while waiting.
 */
struct ck_piece *ck_delay_first(struct ck_delay *q, int64_t deadline, int *error);

/* Call with the lock held. Remove the first piece; the caller owns it. */
void ck_delay_drop(struct ck_delay *q);

/* The taker leaves; another thread may wait for that until @deadline. The first is called with the
 * lock held, the second without. */
void ck_delay_left(struct ck_delay *q);
void ck_delay_await_left(struct ck_delay *q, int64_t deadline);

#endif
