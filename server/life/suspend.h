/*
 * server/life/suspend.h - sessions that leave the GPU for a while: the supervisor's side.
 *
 * The worker parks (park.h), a process moves its GPU state out (checkpoint.h), and the session is
 * suspended. It is resumed the other way round: by a command, or when its client wants the GPU,
 * unless it is held. Nothing here waits: cks_suspender_run() takes each session as far as it can
 * get.
 */
#ifndef CK_SERVER_LIFE_SUSPEND_H
#define CK_SERVER_LIFE_SUSPEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/control/control.h"
#include "server/processes/session_info.h"

struct cks_suspend_policy {
	int64_t idle_ms, quantum_ms; /* 0: none */
	uint64_t most;		     /* bytes of host memory for all suspended sessions, */
	uint64_t pools;		     /* and that workers fill themselves */
	bool for_others;
};

struct cks_suspender {
	const char *driver;
	unsigned int wait_ms; /* for running work */
	bool anywhere;	      /* a session may return to another GPU: --resume-anywhere */
	struct cks_workers *workers;
	struct cks_control *control;
	struct cks_suspend_policy policy;
	uint64_t suspends; /* how often a session was suspended */
	uint64_t left;	   /* how often one has left the GPU, by that or by its end */
	int64_t due;	   /* when to look again at all sessions, unless something changes before */
	int64_t granted;   /* until this time, the room is for the one that allocates */
	/* until this time, no session returns: one has found no room, and the others allocate, and
	 * come to the point where they return memory */
	int64_t pause;
};

/* @driver and @control stay the caller's. NULL: out of memory. */
struct cks_suspender *cks_suspender_create(const struct cks_options *options, const char *driver,
					   struct cks_workers *workers,
					   struct cks_control *control);
void cks_suspender_destroy(struct cks_suspender *suspender); /* accepts NULL */

/* Go on with all sessions. Lowers @timeout_ms to the time of the next call. */
void cks_suspender_run(struct cks_suspender *suspender, int *timeout_ms);

/* Process @pid has ended: was it a mover? Call with those of workers too, before
 * cks_workers_ended(). */
bool cks_suspender_ended(struct cks_suspender *suspender, pid_t pid);

/* Is a session on its way out or in? */
bool cks_suspender_busy(const struct cks_suspender *suspender);

/* "running", "suspending" ... */
const char *cks_suspension_name(const struct cks_suspension *suspension);
/* Bytes of the session's device memory that are in host memory. */
uint64_t cks_suspension_away(const struct cks_suspension *suspension);

/* How a session leaves. */
struct cks_suspend_wish {
	bool held;	      /* until a command resumes it */
	bool park;	      /* its contexts stay on the GPU */
	bool saves;	      /* for a checkpoint, after which it goes on; and the next one is */
	unsigned int again_s; /* that long after it */
};

/*
 * suspend_begin.c: begin. A parked session may leave the GPU altogether. @asker, unless NULL, is
 * answered later. Returns why not, as a reply; NULL: it has begun.
 */
json_t *cks_suspend(struct cks_suspender *suspender, struct cks_session_info *session,
		    struct cks_suspend_wish wish, const struct cks_asker *asker);
/* @device: the server's number of the GPU to return to, or a list as in "0=1,1=0"; NULL: where it
 * was. */
json_t *cks_resume(struct cks_suspender *suspender, struct cks_session_info *session,
		   const char *device, const struct cks_asker *asker);

/* suspend_notice.c: tell the program's user, if the session has stopped or is back. Returns when to
 * call again; INT64_MAX: when something has changed. */
int64_t cks_suspend_notice(struct cks_session_info *session);
/* The session has just been suspended or resumed because its program goes into files, or comes from
 * there: tell nothing in the next @ms. */
void cks_suspend_quiet(struct cks_session_info *session, int64_t ms);
/* Say why no session leaves for this one, if an allocation fails for that. */
void cks_suspend_explain(const struct cks_suspender *suspender, struct cks_session_info *session);

/* --- suspend_room.c: host memory */

/* Is there some for @bytes of suspended sessions more? */
bool cks_suspend_fits(const struct cks_suspender *suspender, uint64_t bytes);
/* Bytes that the worker of @session may have for device memory that it moves itself. */
uint64_t cks_suspend_room(const struct cks_suspender *suspender,
			  const struct cks_session_info *session);

/* --- suspend_policy.c */

void cks_suspend_policy_init(struct cks_suspend_policy *policy, const struct cks_options *options);
/* Have sessions leave; returns when to call again, INT64_MAX: when something has changed. */
int64_t cks_suspend_policy(struct cks_suspender *suspender);

/* --- suspend_turns.c: sessions that take turns */

#define CK_IDLE_MS 3000	     /* workers report their use with some delay */
#define CK_HEAD_START_MS 500 /* of the session that another one has left for */

/* By the policy: the higher one gets memory first. */
int32_t cks_suspend_priority(const struct cks_session_info *session);
/* Does it leave when its turn is over, for others that do so too? */
bool cks_suspend_takes_turns(const struct cks_suspender *suspender,
			     const struct cks_session_info *session);
/* How long a turn of @session lasts if @guest waits for its end. */
int64_t cks_suspend_turn_ms(const struct cks_suspender *suspender,
			    const struct cks_session_info *session,
			    const struct cks_session_info *guest);
/* A turn begins. A turn ends at @now, and its time is added to the session's. */
void cks_suspend_begin_turn(struct cks_session_info *session);
void cks_suspend_charge(struct cks_session_info *session, int64_t now);

/* May they have memory of the same GPU? */
bool cks_suspend_same_gpu(const struct cks_session_info *a, const struct cks_session_info *b);
/* The session begins to wait for memory. */
void cks_suspend_line_up(struct cks_suspender *suspender, struct cks_session_info *session);
/* Of two that wait: does @a get memory before @b? */
bool cks_suspend_before(const struct cks_suspender *suspender, const struct cks_session_info *a,
			const struct cks_session_info *b);
/* Of those that wait for memory of the GPUs of @with, the first; NULL: none waits. */
struct cks_session_info *cks_suspend_first(const struct cks_suspender *suspender,
					   const struct cks_session_info *with);
/* When it is the session's turn to resume, with others that find no room: a time, or INT64_MAX:
 * later. */
int64_t cks_suspend_turn(const struct cks_suspender *suspender,
			 const struct cks_session_info *session);
/* The session begins to give memory back: the first of the others may take it meanwhile. */
void cks_suspend_offer(const struct cks_suspender *suspender,
		       const struct cks_session_info *session);
/* The session has left the GPU, or ended: there is room for others. */
void cks_suspend_left(struct cks_suspender *suspender, struct cks_session_info *session);
void cks_suspend_freed(struct cks_suspender *suspender, const struct cks_session_info *session);

#endif
