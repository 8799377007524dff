/*
 * server/worker/gpu_turn.h - a session that shares a GPU with others of other weights: the worker's
 * side.
 *
 * The supervisor holds it and gives it turns (server/rules/fair_share.h). Between turns the gate is
 * closed. At the end of a turn the worker waits until the GPU has done the session's work, and
 * reports it. In a turn beside sessions of higher priority, launches wait for earlier ones, so that
 * this wait is short (server/modules/launch_pace.h).
 */
#ifndef CK_SERVER_WORKER_GPU_TURN_H
#define CK_SERVER_WORKER_GPU_TURN_H

#include <stdint.h>

struct cks_control_turn;
struct cks_session;

/* Before anyone may hold @session. */
void cks_gpu_turn_prepare(struct cks_session *session);

/* CK_CONTROL_HOLD, which also ends a turn, _TURN or _FREE. For one thread. */
void cks_gpu_turn_control(struct cks_session *session, const struct cks_control_turn *message);
/* The supervisor has gone: no process gives turns. For the same thread. */
void cks_gpu_turn_free(struct cks_session *session);

#endif
