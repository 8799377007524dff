/*
 * server/session/callback.h - functions of the client that the driver calls from a stream.
 *
 * The driver is given ck_host_call_run with a host call. The driver runs it in one of its threads.
 * It leaves a ticket, which the client fetches with ck_callback_next, and waits until the client
 * reports that the function has returned; the stream is blocked meanwhile. Safe from any thread.
 */
#ifndef CK_SERVER_SESSION_CALLBACK_H
#define CK_SERVER_SESSION_CALLBACK_H

#include <stdint.h>

#include "cuda/types.h"

struct ck_session;
struct ck_callbacks;
struct ck_host_call;

int ck_callbacks_create(struct ck_callbacks **callbacks);
/* Release all waiters. A worker process ends with its session and needs neither function. */
void ck_callbacks_end(struct ck_callbacks *callbacks);
void ck_callbacks_destroy(struct ck_callbacks *callbacks);

/* The one call of a function that graphs run, made on first use. It stays until the end of the
 * session, because a graph may refer to it. NULL: out of memory. */
struct ck_host_call *ck_host_call_keep(struct ck_session *session, uint64_t id);
uint64_t ck_host_call_id(const struct ck_host_call *call);

/* Make a call of the client's function @id that may run any number of times; NULL: out of
 * memory. */
struct ck_host_call *ck_host_call_create(struct ck_session *session, uint64_t id);
void ck_host_call_destroy(struct ck_host_call *call);

/* Run it and wait for its end: a CUhostFn for cuLaunchHostFunc and host nodes. */
void ck_host_call_run(void *call);
/* The same, once: destroys @call. */
void ck_host_call_run_once(void *call);
/* The same with the stream's error: a CUstreamCallback. */
void ck_host_call_run_status(CUstream stream, CUresult status, void *call);
/* Send the call to the client without waiting, for threads that must not block. */
void ck_host_call_tell(struct ck_host_call *call, int status, uint64_t value);

#endif
