/*
 * server/session/callback.h - functions of the client that the driver calls from a stream.
 *
 * The driver is given ck_host_call_run with a host call. Run by the driver, in one of its threads,
 * it leaves a ticket, which the client fetches by ck_callback_next, and waits until the client says
 * that its function has returned: meanwhile the stream stands still. All are safe from any thread.
 */
#ifndef CK_SERVER_SESSION_CALLBACK_H
#define CK_SERVER_SESSION_CALLBACK_H

#include <stdint.h>

#include "cuda/types.h"

struct ck_session;
struct ck_callbacks;
struct ck_host_call;

int ck_callbacks_create(struct ck_callbacks **callbacks);
/* Whoever waits in it is let go. A worker process ends with its session and needs neither. */
void ck_callbacks_end(struct ck_callbacks *callbacks);
void ck_callbacks_destroy(struct ck_callbacks *callbacks);

/* The one call of a function that graphs run, made when first asked for: it stays to the end of the
 * session, as what a graph refers to may. NULL: out of memory. */
struct ck_host_call *ck_host_call_keep(struct ck_session *session, uint64_t id);
uint64_t ck_host_call_id(const struct ck_host_call *call);

/* A call of the client's function @id, to be run any number of times; NULL: out of memory. */
struct ck_host_call *ck_host_call_create(struct ck_session *session, uint64_t id);
void ck_host_call_destroy(struct ck_host_call *call);

/* Run it and wait for its end: the CUhostFn for cuLaunchHostFunc and for host nodes. */
void ck_host_call_run(void *call);
/* The same once: @call is destroyed. */
void ck_host_call_run_once(void *call);
/* The same with the error that the stream is in: the CUstreamCallback. */
void ck_host_call_run_status(CUstream stream, CUresult status, void *call);
/* Tell the client and do not wait: for what runs in a thread that is needed elsewhere. */
void ck_host_call_tell(struct ck_host_call *call, int status, uint64_t value);

#endif
