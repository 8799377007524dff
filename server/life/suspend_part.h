/*
 * server/life/suspend_part.h - the steps of a suspended session, for the files suspend*.c only.
 */
#ifndef CK_SERVER_LIFE_SUSPEND_PART_H
#define CK_SERVER_LIFE_SUSPEND_PART_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/life/suspend.h"
#include "server/processes/session_info.h"

/* --- suspend_state.c */

void cks_suspension_set(struct cks_session_info *session, int state);
/* Send @answer, which it takes, if a command waits for one. */
void cks_suspension_reply(struct cks_suspender *suspender, struct cks_session_info *session,
			  json_t *answer);
/* The answer to a command that has moved it. */
json_t *cks_suspension_report(const struct cks_session_info *session);
/* Send the message @kind to all workers but that of @session. */
void cks_suspension_tell_others(const struct cks_suspender *suspender,
				const struct cks_session_info *session, char kind);
/* Begin to move its GPU state, after at most @wait_ms for room or for running work. Returns the
 * process that does it, or -errno. */
pid_t cks_suspension_move(const struct cks_suspender *suspender, struct cks_session_info *session,
			  bool out, unsigned int wait_ms);
/* End a session whose state is lost. */
void cks_suspension_lose(struct cks_suspender *suspender, struct cks_session_info *session,
			 const char *why);

/* --- suspend_return.c */

void cks_suspension_resume(struct cks_suspender *suspender, struct cks_session_info *session);
/* Begin with its memory only: its contexts are on the GPU. */
void cks_suspension_return(struct cks_suspender *suspender, struct cks_session_info *session);
/* It runs on the GPU again. */
void cks_suspension_run(struct cks_session_info *session);
/* The steps CK_MOVING_IN, whose process has ended, and CK_RETURNING, and a late report of a running
 * session's worker. */
void cks_suspension_moved_in(struct cks_suspender *suspender, struct cks_session_info *session);
void cks_suspension_returned(struct cks_suspender *suspender, struct cks_session_info *session);
void cks_suspension_late_note(struct cks_suspender *suspender, struct cks_session_info *session);

/* --- suspend_leave.c */

/* When the worker of a session in the step CK_PARKING is late. */
int64_t cks_suspension_late_ms(const struct cks_suspender *suspender,
			       const struct cks_session_info *session);
/* The steps CK_PARKING, and CK_MOVING_OUT, whose process has ended. */
void cks_suspension_parked(struct cks_suspender *suspender, struct cks_session_info *session);
void cks_suspension_moved_out(struct cks_suspender *suspender, struct cks_session_info *session);

#endif
