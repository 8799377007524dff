/*
 * server/worker/work_wait.h - waits for the session's work on the GPU, with a limit of time, which
 * the driver's own wait does not have.
 */
#ifndef CK_SERVER_WORKER_WORK_WAIT_H
#define CK_SERVER_WORKER_WORK_WAIT_H

struct cks_session;

/* The gate is closed. 0; -ETIMEDOUT: some is still running after @ms; -EIO: the driver reports an
 * error; -ENOSYS, or -errno: no wait is possible. */
int cks_work_wait(struct cks_session *session, unsigned int ms);

#endif
