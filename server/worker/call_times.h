/*
 * server/worker/call_times.h - how long calls take, and round trips to the client, for the server's
 * metrics.
 */
#ifndef CK_SERVER_WORKER_CALL_TIMES_H
#define CK_SERVER_WORKER_CALL_TIMES_H

#include <stdint.h>

struct cks_lane;

/* A call of @lane that arrived at @began, in us, is about to be answered. */
void cks_call_times_note(struct cks_lane *lane, int64_t began);

#endif
