/*
 * tests/network/inject.h - simulate a slower network, for tests and benchmarks:
 * CRICKET_TEST_NETWORK=rtt=500us,bw=10G.
 *
 * Applies to the connections of a client that is linked with this folder, in both directions, over
 * tcp and unix. Nothing is lost or reordered. Bytes written at t arrive at t + rtt/2, or later if
 * the link is busy, with any number in transit.
 */
#ifndef CK_TESTS_NETWORK_INJECT_H
#define CK_TESTS_NETWORK_INJECT_H

#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

struct ck_inject {
	int64_t delay_ns;	  /* of one direction: half of the round trip */
	uint64_t bits_per_second; /* per direction, shared by all connections; 0: unlimited */
};

/* Parse "rtt=TIME", "bw=RATE" or both separated by a comma. TIME: a number with us, ms or s, up to
 * 10 s; RATE: bits per second, from 1k, optionally with k, M, G or T (powers of 1000). -EINVAL for
 * anything else. */
int ck_inject_parse(const char *text, struct ck_inject *inject);

/* Wait for the round trip of connecting, once for channels that are dialed at the same time. */
void ck_inject_connect(const struct ck_inject *like);

/* Wrap @inner, a channel just dialed: @chan behaves as over the network @like. It passes no
 * descriptors. Takes ownership of @inner; on error, closes it. */
int ck_inject_wrap(const struct ck_inject *like, struct ck_chan *inner, struct ck_chan **chan);

/*
 * For the channels: the link of a direction (0: to the server, 1: from it). Arrival: reserve the
 * time for @size bytes, starting at @now or when the link is free; returns the arrival time in ns
 * of CLOCK_MONOTONIC. Hold: the time before which to send nothing more. A link is reserved at most
 * a millisecond ahead, so that a large copy does not delay small messages of other connections.
 */
int64_t ck_inject_arrival(const struct ck_inject *like, int direction, size_t size, int64_t now);
int64_t ck_inject_hold_until(int direction);
size_t ck_inject_piece(const struct ck_inject *like); /* the most bytes to reserve at once */

#endif
