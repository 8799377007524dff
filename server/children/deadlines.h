/*
 * server/children/deadlines.h - sessions that the policy ends: after some time, or when they are
 * idle.
 *
 * A fifth of the time before, or five minutes, the program's user is warned. At the end the worker
 * tells the client why, and ends. A worker that does not is killed.
 */
#ifndef CK_SERVER_CHILDREN_DEADLINES_H
#define CK_SERVER_CHILDREN_DEADLINES_H

#include <stdint.h>

struct cks_accounts;
struct cks_session_info;
struct cks_workers;

#define CK_TIME_TEXT 32

/* As in "2h", "90s": in the largest unit that is exact. Returns @out. */
const char *cks_print_time(uint64_t seconds, char out[CK_TIME_TEXT]);

/* Warn and end sessions, if it is time to look at them: *@again, in ms, which begins with 0.
 * Returns the milliseconds until the next call; -1: none is needed. */
int64_t cks_deadlines_run(struct cks_workers *workers, const struct cks_accounts *accounts,
			  int64_t *again);

/* The milliseconds until @session ends if it is not used meanwhile; -1: it has no end. */
int64_t cks_deadlines_left(const struct cks_session_info *session, int64_t now);

#endif
