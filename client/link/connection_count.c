/*
 * client/link/connection_count.c - find the number of connections that is fastest.
 */
#include "client/link/connection_count.h"

#include "util/util.h"

#define SAMPLE ((size_t)4 << 20) /* of each connection: about one window */
#define SAMPLE_MIN ((size_t)1 << 20)
#define TRIES 3 /* a new connection is slow at first */

void ckc_connection_count_init(struct ckc_connection_count *n, unsigned int count,
			       unsigned int most)
{
	*n = (struct ckc_connection_count){
		.now = count, .most = most, .best = count, .fixed = count >= most};
}

bool ckc_connection_count_grows(const struct ckc_connection_count *n, uint64_t trip_ns)
{
	return !n->fixed && trip_ns >= CK_CONNECTIONS_LONG_NS;
}

size_t ckc_connection_count_sample(const struct ckc_connection_count *n)
{
	return n->now * SAMPLE;
}

/* Is it a fourth faster than the best one? Twice as many could be twice as fast. */
static bool is_faster(const struct ckc_connection_count *n, uint64_t rate)
{
	return rate > n->rate + n->rate / 4;
}

static void try_more(struct ckc_connection_count *n)
{
	n->tries = 0;
	n->fixed = n->now >= n->most;
	n->now = ck_min(n->now * 2, n->most);
}

static void take_best(struct ckc_connection_count *n, size_t size, uint64_t rate)
{
	n->best = n->now;
	n->size = size;
	n->rate = rate;
	try_more(n);
}

void ckc_connection_count_note(struct ckc_connection_count *n, size_t size, uint64_t ns,
			       uint64_t trip_ns)
{
	uint64_t rate = (uint64_t)((double)size * 1e9 / (double)(ns + 1));

	/* a short copy is mostly a round trip, and a smaller one is slower in any case */
	if (!ckc_connection_count_grows(n, trip_ns) || size < n->now * SAMPLE_MIN ||
	    size < n->size / 2)
		return;
	if (is_faster(n, rate))
		take_best(n, size, rate);
	else if (++n->tries == TRIES)
		ckc_connection_count_stop(n);
}

void ckc_connection_count_stop(struct ckc_connection_count *n)
{
	n->now = n->best;
	n->fixed = true;
}
