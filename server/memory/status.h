/*
 * server/memory/status.h - events and streams that the client asks for again and again: it is told when
 * they are done, so that it need not ask.
 *
 * rpc/status.h says how. What is watched is looked at until a look finds no more that is done: what has
 * been found so far is one batch.
 *
 * What is done when a reply is sent has been told by then: a program that has learned in whatever
 * way that work is over never finds an event in front of that work undone.
 */
#ifndef CK_SERVER_MEMORY_STATUS_H
#define CK_SERVER_MEMORY_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct ck_session;
struct ck_status;

int ck_status_create(struct ck_status **status);
void ck_status_destroy(struct ck_status *status); /* no other thread uses it any more */

/* A reply is about to be sent: tell of all watches that are done. @takes: it takes the news along. */
void ck_status_settle(struct ck_session *session, bool takes);

/* A context is about to go, and what is in it: the watches end, the client is to ask. */
void ck_status_drop_all(struct ck_session *session);
/* The same for one event or stream, by the client's id. */
void ck_status_drop(struct ck_session *session, uint64_t object);

/* A capture is about to begin, and its stream is marked (ck_handles_mark): streams are not looked at
 * while one is. */
void ck_status_capture(struct ck_session *session);

#endif
