/*
 * server/worker/lane.h - a thread that carries out messages, for dispatch.c and commands.c.
 */
#ifndef CK_SERVER_WORKER_LANE_H
#define CK_SERVER_WORKER_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/proc.h"
#include "rpc/record.h"
#include "server/memory/delivery.h"
#include "server/session/session.h"

/* A connection, and the state of its thread. */
struct cks_lane {
	struct cks_session *session;
	struct ck_chan *chan;
	struct ck_reader *reader;
	void *args, *res;   /* buffers for any message, aligned as by malloc */
	unsigned char *out; /* encoded replies */
	size_t out_size;
	uint64_t bound;		/* id of this thread's current context */
	uint64_t epoch;		/* session.context_epoch when it was bound */
	struct cks_along along; /* sent ahead of the next reply */
	bool in_place;		/* the arguments point into the record: nothing to free */
	bool ordered;		/* its last call came after the commands of the program */
	bool polls;		/* commands.h: it is the lane that looks for commands */
	struct ck_spin spin;	/* between two calls, where it is not */
	struct cks_pass pass;	/* to the driver */
	int64_t sampled_us;	/* when its connection was asked for its round trip */
};

/* 0 or -ENOMEM; cks_lane_fini in both cases. */
int cks_lane_init(struct cks_lane *l, struct cks_session *s, struct ck_chan *chan,
		  struct ck_reader *reader);
void cks_lane_fini(struct cks_lane *l);

/* Read the record and header of the next message of @reader. 0, or -errno; -EPROTO is logged.
 * -EPROTONOSUPPORT: another version of RPC; only the xid of @header is set. */
int cks_lane_read(struct ck_chan *chan, struct ck_reader *reader, struct ck_record *record,
		  struct ck_call_header *header);

/*
 * Decode the arguments into lane.args, and describe the request. The caller calls cks_lane_release,
 * also on error. A message must be used up to its last byte.
 */
int cks_lane_decode(struct cks_lane *l, const struct ck_proc *proc, const struct ck_record *record,
		    const struct ck_call_header *header, struct cks_request *q);
void cks_lane_release(struct cks_lane *l, const struct ck_proc *proc);

/* Bind the context and run the handler; returns the error of either. */
CUresult cks_lane_carry_out(struct cks_lane *l, struct cks_request *q, const struct ck_proc *proc,
			    void *res);

/* Refuse a call with @err, which is returned. Closes the descriptors that came with it, or they
 * would be taken for those of the next call. */
CUresult cks_lane_turn_away(struct cks_request *q, CUresult err);

#endif
