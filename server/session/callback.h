/*
 * server/session/callback.h - functions of the client that the driver calls from a stream.
 *
 * The driver is given cks_host_call_run with a host call. The driver runs it in one of its threads.
 * It leaves a ticket, which the client fetches with ck_callback_next, and waits until the client
 * reports that the function has returned; the stream is blocked meanwhile. Safe from any thread.
 */
#ifndef CK_SERVER_SESSION_CALLBACK_H
#define CK_SERVER_SESSION_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_session;
struct cks_callbacks;
struct cks_host_call;

int cks_callbacks_create(struct cks_callbacks **callbacks);
/* Release all waiters. A worker process ends with its session and needs neither function. */
void cks_callbacks_end(struct cks_callbacks *callbacks);
void cks_callbacks_destroy(struct cks_callbacks *callbacks);

/* The one call of a function that graphs run, made on first use. It stays until the end of the
 * session, because a graph may refer to it. NULL: out of memory. */
struct cks_host_call *cks_host_call_keep(struct cks_session *session, uint64_t id);
uint64_t cks_host_call_id(const struct cks_host_call *call);

/* Make a call of the client's function @id that may run any number of times; NULL: out of
 * memory. */
struct cks_host_call *cks_host_call_create(struct cks_session *session, uint64_t id);
void cks_host_call_destroy(struct cks_host_call *call);

/* Run it and wait for its end: a CUhostFn for cuLaunchHostFunc and host nodes. */
void cks_host_call_run(void *call);
/* Run it and wait for its end at most @ms: whether it has ended. */
bool cks_host_call_run_within(const struct cks_host_call *call, unsigned int ms);
/* The same, once: destroys @call. */
void cks_host_call_run_once(void *call);
/* The same of a function that waits for another server (stream_holds.h), which has begun. */
void cks_host_call_run_held(void *call);
/* The same with the stream's error: a CUstreamCallback. */
void cks_host_call_run_status(CUstream stream, CUresult status, void *call);
/* Send the call to the client without waiting, for threads that must not block. */
void cks_host_call_send(struct cks_host_call *call, int status, uint64_t value);

#endif
