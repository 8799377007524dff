/*
 * server/modules/launch_pace.h - how far the launches of a session run ahead of the GPU while
 * sessions of higher priority may want it (server/rules/fair_share.h).
 *
 * An event follows each launch, and a launch waits until the one before the last is done: one runs,
 * and one is ready behind it, so the GPU is never idle, and whoever gets it next waits for these
 * two. Short launches may run further ahead, since a thread needs some time between two of them.
 * Copies and fills are not counted.
 */
#ifndef CK_SERVER_MODULES_LAUNCH_PACE_H
#define CK_SERVER_MODULES_LAUNCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_launch_pace;
struct cks_request;

/* 0 or -ENOMEM. The events end with the contexts. */
int cks_launch_pace_create(struct cks_launch_pace **pace);
void cks_launch_pace_destroy(struct cks_launch_pace *pace);

/* Bound launches from now on, or do not. For any thread. */
void cks_launch_pace_set(struct cks_launch_pace *pace, bool bound);

/* A kernel or a graph has been launched in @stream, in the current context. Waits for earlier ones,
 * but not for long: their work may wait for what the session submits next. */
void cks_launch_pace(struct cks_request *q, CUstream stream);

/* The context @ctx is about to end; it is current. */
void cks_launch_pace_drop_context(struct cks_launch_pace *pace, uint64_t ctx);

#endif
