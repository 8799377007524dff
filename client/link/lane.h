/*
 * client/link/lane.h - calls that wait for a reply: one connection per thread of the application.
 */
#ifndef CK_CLIENT_LINK_LANE_H
#define CK_CLIENT_LINK_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <rpc/rpc.h>

#include "client/link/stub.h"

struct ck_chan;
struct ckc_client;
struct ckc_exchange;
struct ckc_lane;

/* Make a lane on @chan. The lane owns @chan from then on, also on failure. */
int ckc_lane_create(struct ckc_client *c, struct ck_chan *chan, struct ckc_lane **lane);
void ckc_lane_destroy(struct ckc_lane *lane);

/* Give up a lane and return its channel, which becomes the command stream. The lane must not have
 * received bytes beyond the replies read. */
struct ck_chan *ckc_lane_detach(struct ckc_lane *lane);

/* Take a lane from the pool; the caller owns it. NULL: there is none. See ckc_join_lane. */
struct ckc_lane *ckc_lane_pooled(struct ckc_client *c);

/* Give the calling thread a lane of @c, if it has none. A client thread that must not fail later,
 * for lack of descriptors, calls this first. 0 or -errno. */
int ckc_lane_open(struct ckc_client *c);

/* Return an unused lane to the pool; at thread exit, and after hello. */
void ckc_lane_release(struct ckc_lane *lane);

/* Close every pooled lane: the session is over. */
void ckc_lane_drop_all(struct ckc_client *c);

/* Has the program closed the descriptor of one? */
bool ckc_lane_is_closed(struct ckc_client *c);

/* The session is over: fail all waits for replies at once, and stop receiving. */
void ckc_lane_shut_all(struct ckc_client *c);

/* In a forked child: close the copies of all connections, which belong to the parent. Takes no
 * lock: the thread that held one does not exist in the child. */
void ckc_lane_forked(struct ckc_client *c);

/* In a child that starts anew: no lane is left. The thread's is the caller's to forget. */
void ckc_lane_forget(struct ckc_client *c);

/* The xid of its last call. Those of the session's lanes differ, so a profiler can tell calls
 * apart. */
uint32_t ckc_lane_xid(const struct ckc_lane *lane);

/* A call is in progress on it: a signal handler called exit() in the middle. */
bool ckc_lane_busy(const struct ckc_lane *lane);

/* Send the join @x, and do not wait: its reply is read ahead of that to the lane's first call. 0 or
 * -errno. */
int ckc_lane_send_join(struct ckc_lane *lane, struct ckc_exchange *x);

/* The lane's channel is a lasting one, whose link the server has not accepted: the lane's first
 * call finds out. */
void ckc_lane_linked(struct ckc_lane *lane);

/* Make sure that the server has accepted the lane: read the reply to its join, if that has not been
 * done. 0 or -errno. */
int ckc_lane_accept(struct ckc_lane *lane);

/* The server has not accepted the lane: no call has been made on it. */
bool ckc_lane_joining(const struct ckc_lane *lane);

struct ck_chan *ckc_lane_chan(const struct ckc_lane *lane);
struct ckc_client *ckc_lane_client(const struct ckc_lane *lane);

/* Bytes of the last reply. */
size_t ckc_lane_received(const struct ckc_lane *lane);

/* Limit the wait for a reply, at set-up and at exit; 0: no limit. */
void ckc_lane_timeout(struct ckc_lane *lane, int milliseconds);

/* One call and its reply. Either may end with payload. */
struct ckc_exchange {
	uint32_t proc;
	xdrproc_t xdr_args, xdr_res;
	const void *args;
	void *res;
	const void *bulk; /* payload after the arguments */
	size_t bulk_size;
	struct ck_private_fd *fd; /* sent with the arguments; NULL: none */
	struct ckc_sink *sink;	  /* for the payload after the results; NULL: there is none */
	ckc_place_fn place;	  /* finds the payload's destination; NULL: the sink has it */
	void *closure;		  /* for place */
	int bulk_err;		  /* result: the CUresult at the very end of such a reply */
	bool passing; /* the payload is valid only until it is sent, not until the reply */
	bool idle;    /* silence is no sign of a dead server */
	bool unsent;  /* result: too large to send; nothing was sent */
};

/* Make the call: 0 or -errno (see rpc/record.h). On a lane that the server has not accepted, an
 * error means that the call was not carried out. */
int ckc_lane_exchange(struct ckc_lane *lane, struct ckc_exchange *x);

/* Its two halves, for calls that are sent before the reply of an earlier one is read
 * (pipelined_calls.c): replies come in the order of the calls. */
int ckc_lane_send(struct ckc_lane *lane, struct ckc_exchange *x);
int ckc_lane_receive(struct ckc_lane *lane, struct ckc_exchange *x);

/* The call @x of this thread failed on the wire with @ret: returns its error, and ends the session
 * if the lane broke. */
CUresult ckc_call_lost(struct ckc_client *c, const struct ckc_exchange *x, int ret);
/* The connection of call @name broke with @ret: ends the session, and returns
 * DEVICE_UNAVAILABLE. */
CUresult ckc_call_broken(struct ckc_client *c, const char *name, int ret);
/* None could be made for call @name: OPERATING_SYSTEM, as the process may be out of descriptors; or
 * as ckc_call_broken, if the server has ended the session. */
CUresult ckc_call_unconnected(struct ckc_client *c, const char *name, int ret);

/*
 * Print one piece of the output of kernels to stdout, and one of failed assertions to stderr. True:
 * there is more.
 */
bool ckc_output_fetch(void);
/* The same without the command stream, which may wait for the caller. */
bool ckc_output_fetch_aside(struct ckc_client *c);

/*
 * Wait until the deliveries up to a reply's rank have arrived; ranks wrap round. Nearly free if
 * none is outstanding. On error they will not arrive: the caller must not report success.
 */
__attribute__((warn_unused_result)) CUresult ckc_lane_covered(struct ckc_client *c, uint32_t rank);

#endif
