/*
 * server/worker/park.h - a worker that comes to rest, so that its GPU state can be moved out.
 *
 * Parked, no thread calls the driver. Pings, output, host functions and NVML are still answered;
 * other messages wait at the gate (server/session/gate.h), and the first of them tells the
 * supervisor.
 */
#ifndef CK_SERVER_WORKER_PARK_H
#define CK_SERVER_WORKER_PARK_H

#include <stdint.h>

#include "server/processes/messages.h"

struct cks_session;

/* Before anyone may ask @session to park; it has @seconds for that. */
void cks_park_prepare(struct cks_session *session, uint64_t seconds);

/* Park, in a thread, as @message asks for: the supervisor gets CK_NOTE_PARKED, or CK_NOTE_BUSY. */
void cks_park(struct cks_session *session, const struct cks_control_park *message);
/* Copy changed memory into host memory, in a thread, while the session runs: the supervisor gets
 * CK_NOTE_ROUND. */
void cks_park_round(struct cks_session *session, const struct cks_control_park *message);
/* End it. Memory that is away returns first, in a thread, as soon as there is room, as @message
 * says; the supervisor gets CK_NOTE_RETURNED, _NO_ROOM or _LOST. */
void cks_unpark(struct cks_session *session, const struct cks_control_unpark *message);

/* The GPUs that it has contexts on, as marks for the supervisor. */
void cks_park_gpus(const struct cks_session *session, uint32_t gpus[CK_NOTE_GPUS]);

/* Tell the supervisor, at most once a second, of device memory and use that have changed. For one
 * thread. */
void cks_park_report(struct cks_session *session);
/* Have that thread report at once, whether or not something has changed. */
void cks_park_report_now(struct cks_session *session);
/* Report that the process ends because of @reason; NULL session: there is none. From any thread,
 * once. */
void cks_park_end(struct cks_session *session, const char *reason);

/* --- waits for the session's work, with a limit of time, which the driver's own lacks
 * (work_wait.c) */

/* The gate is closed. 0; -ETIMEDOUT: some is still running after @ms; -EIO: the driver reports an
 * error; -ENOSYS, or -errno: no wait is possible. */
int cks_work_wait(struct cks_session *session, unsigned int ms);

#endif
