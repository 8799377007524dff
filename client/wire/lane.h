/*
 * client/wire/lane.h - calls that wait: one connection a thread of the application.
 */
#ifndef CK_CLIENT_WIRE_LANE_H
#define CK_CLIENT_WIRE_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <rpc/rpc.h>

#include "client/wire/stub.h"

struct ck_chan;
struct ck_client;
struct ck_lane;

/* Connect to the session's server as @kind and join the session; the channel is the caller's.
 * 0 or -errno. session.c */
int ck_session_join(struct ck_client *c, int kind, struct ck_chan **chan);

/* A lane on @chan, which it owns from then on, also on failure. */
int ck_lane_create(struct ck_client *c, struct ck_chan *chan, struct ck_lane **lane);
void ck_lane_destroy(struct ck_lane *lane);

/* The channel of a lane that is given up; for the one that becomes the command stream. Nothing
 * may have been received but what was read. */
struct ck_chan *ck_lane_detach(struct ck_lane *lane);

/* A lane from the pool, or a new one, for which the server may be asked several times; the caller's. 0 or -errno. */
int ck_lane_take(struct ck_client *c, struct ck_lane **lane);

/* Give a lane that nobody uses to the pool; at thread exit, and after hello. */
void ck_lane_release(struct ck_lane *lane);

/* Close every pooled lane (the session is over). */
void ck_lane_drop_all(struct ck_client *c);

/* The session is over: whoever waits for a reply gets an error at once, and no bytes are received any more. */
void ck_lane_shut_all(struct ck_client *c);

/* In a forked child: close the copies of all connections, which are the parent's. Takes no lock:
 * whoever held one does not exist here. */
void ck_lane_forked(struct ck_client *c);

/* In a child that starts anew: no lane is left. */
void ck_lane_forget(struct ck_client *c);

/* A call is being made on it: exit() was called by the handler of a signal that came in the middle. */
bool ck_lane_busy(const struct ck_lane *lane);

/* Bound the wait for a reply, at set-up and at exit; 0: no bound. */
void ck_lane_timeout(struct ck_lane *lane, int milliseconds);

/* One call and its reply, either of which may end with payload. */
struct ck_exchange {
	uint32_t proc;
	xdrproc_t xdr_args, xdr_res;
	const void *args;
	void *res;
	const void *bulk;		/* behind the arguments */
	size_t bulk_size;
	const int *fd;			/* goes with the arguments; NULL: none does */
	struct ck_sink *sink;		/* for what is behind the results; NULL: nothing is */
	ck_place_fn place;		/* where that belongs; NULL: where the sink says */
	void *closure;			/* of place */
	int bulk_err;			/* result: the CUresult at the very end of such a reply */
	bool idle;			/* the reply comes when there is news: that it does not says nothing */
	bool unsent;			/* result: no message can hold the arguments; nothing was sent */
};

/* Carry it out: 0 or -errno (see rpc/record.h). */
int ck_lane_exchange(struct ck_lane *lane, struct ck_exchange *x);

/*
 * What kernels have printed goes to our stdout, lines of failed assertions to our stderr: a piece of
 * each. False: there was none.
 */
bool ck_output_fetch(void);

/*
 * Wait until deliveries up to the rank that a reply has named are here; ranks wrap round. Nearly
 * free when nothing is under way. An error: they will not come, and the caller must not report success.
 */
__attribute__((warn_unused_result)) CUresult ck_lane_covered(struct ck_client *c, uint32_t rank);

#endif
