/*
 * server/rules/fair_share.h - which session has its turn on a GPU, by the weights and priorities of
 * the policy.
 *
 * Sessions are held only while at least two that use one GPU have different weights or priorities.
 * A held session asks for a turn, and the one that has had least for its weight gets it (start-time
 * fair queueing). In its turn it submits work; then its worker waits until the GPU has done that,
 * and reports the end. So a turn is the GPU time of one session, without asking the driver. One
 * that has submitted work of a long time gets a shorter window next.
 *
 * A session of higher priority has its turn as soon as it asks for it, which ends the turn of a
 * lower one; and no lower one has a turn while it has. Beside it, the launches of lower sessions
 * wait for earlier ones (server/modules/launch_pace.h), so the GPU soon finishes their work.
 *
 * The sessions of a group, which NVIDIA MPS lets use a GPU together, have turns at the same time.
 *
 * These functions know no processes and no clock: times are arguments, in us.
 */
#ifndef CK_SERVER_RULES_FAIR_SHARE_H
#define CK_SERVER_RULES_FAIR_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/processes/gpu_share.h"
#include "server/processes/messages.h"

#define CK_SHARE_GPUS 64
#define CK_SHARE_TURN_US 20000 /* GPU time of a turn, about */
#define CK_SHARE_LEAST_US 200  /* shortest window */
/* A turn beside sessions of lower priority ends early after four times the time in which the
 * session asks again in the mean, between these. */
#define CK_SHARE_QUIET_US 500
#define CK_SHARE_QUIET_MOST_US 2000
#define CK_SHARE_MESSAGES 8 /* of a turn beside those of higher priority, of an older worker */
/* The GPU waits so long for one that had more to do: twice as long as that takes in the mean,
 * between these. */
#define CK_SHARE_EAGER_US 2000
#define CK_SHARE_EAGER_MOST_US 10000
#define CK_SHARE_STUCK_US 1000000 /* a turn without an end is over so long after its window */
#define CK_SHARE_CREDIT_US 50000  /* of turns at weight 1, that a session without wishes may save */

struct cks_fair_share {
	uint32_t marks[CK_SHARE_GPUS]; /* of GPUs (messages.h); their places are the bits */
	uint32_t serial;
	size_t held; /* sessions, after the last run */
	/* Tell the worker of @share: CK_CONTROL_HOLD (also to end its turn), _TURN or _FREE. */
	void (*tell)(struct cks_share *share, char kind);
};

/* The bits of GPUs with these marks; 0 ends the list. */
uint64_t cks_fair_share_bits(struct cks_fair_share *shares, const uint32_t marks[CK_NOTE_GPUS]);

/* The session asks for a turn, perhaps again. A worker that it does not hold gets that answer. */
void cks_fair_share_want(struct cks_fair_share *shares, struct cks_share *share, int64_t now);
/* Its turn of that number is over; @full: it used the window to its end. */
void cks_fair_share_ended(struct cks_share *share, uint32_t serial, bool full, int64_t now);

/* Hold, free and give turns. Sorts @list. Lowers *@next to the time of the next call. */
void cks_fair_share_run(struct cks_fair_share *shares, struct cks_share **list, size_t count,
			int64_t now, int64_t *next);

#endif
