/*
 * server/memory/status.h - events and streams that the client polls: the server reports when they
 * are done, so that the client need not ask.
 *
 * See rpc/status.h for the protocol. Watched objects are polled until a pass finds no further
 * finished ones; all found so far form one batch.
 *
 * Everything that is done when a reply is sent has been reported by then. So a program that knows
 * that work is over never finds an event ahead of that work unfinished.
 */
#ifndef CK_SERVER_MEMORY_STATUS_H
#define CK_SERVER_MEMORY_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct cks_session;
struct cks_status;

int cks_status_create(struct cks_status **status);
void cks_status_destroy(struct cks_status *status); /* no thread may use it any more */

/* Report all finished watches: before a reply is sent, or while a lane waits. @takes: the reply
 * carries the news. */
void cks_status_report(struct cks_session *session, bool takes);

/* After a reply that may have begun a watch: see to it that the thread polls. */
void cks_status_wake(struct cks_session *session);

/* A context is about to end: end all watches, so that the client asks. */
void cks_status_drop_all(struct cks_session *session);
/* The same for one event or stream, by the client's id. */
void cks_status_drop(struct cks_session *session, uint64_t object);

/* A capture is about to begin and its stream is marked (cks_handles_mark): stop polling streams
 * while one is. */
void cks_status_capture(struct cks_session *session);

#endif
