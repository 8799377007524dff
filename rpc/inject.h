/*
 * rpc/inject.h - a network that is slower than the one there is, for those who want to know how
 * their program would do on it: CRICKET_INJECT=rtt=500us,bw=10G.
 *
 * The client's connections get it, both ways. Nothing is lost and nothing overtakes: bytes written
 * at t arrive at t + rtt/2, later where the link was not free, however many are under way.
 */
#ifndef CK_RPC_INJECT_H
#define CK_RPC_INJECT_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

struct ck_inject {
	int64_t delay_ns;	  /* of one direction: half of the round trip */
	uint64_t bits_per_second; /* of each direction, shared by all connections; 0: no bound */
};

/* "rtt=TIME", "bw=RATE" or both with a comma between. TIME: a number with us, ms or s, up to 10 s;
 * RATE: bits per second, a number with k, M, G or T (powers of 1000) or without, from 1k on.
 * -EINVAL for anything else. */
int ck_inject_parse(const char *text, struct ck_inject *inject);

/* Channels dialed from now on are slowed down as @text says; NULL or "": no more. -EINVAL. */
int ck_inject_set(const char *text);

/* What is set, or NULL: nothing is. */
const struct ck_inject *ck_inject_current(void);

/* Take over @inner, a channel just dialed: @chan is what it is like over the network @like, after
 * the round trip that connecting takes. It passes no descriptors. On an error @inner is closed. */
int ck_inject_wrap(const struct ck_inject *like, struct ck_chan *inner, struct ck_chan **chan);

/*
 * For the transport: the link of a direction (0: to the server, 1: from it). Reserve the time that
 * @size bytes take on it, from @now on or when it is free; when they have arrived, in ns of
 * CLOCK_MONOTONIC. A link is not reserved for more than a millisecond ahead, so that a large copy
 * does not keep small messages of other connections waiting: the time until which to hold back.
 */
int64_t ck_inject_arrival(const struct ck_inject *like, int direction, size_t size, int64_t now);
int64_t ck_inject_hold_until(int direction);
size_t ck_inject_piece(const struct ck_inject *like); /* the most bytes to reserve at a time */

#endif
