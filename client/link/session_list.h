/*
 * client/link/session_list.h - the sessions of the process: one for each server of
 * REMOTE_GPU_ADDRESS.
 *
 * A message goes to one session. With a single server nothing is to be decided: `ckc_many` is
 * false, and a thread's session is the first one. With several, a thread has a route, which follows
 * the subject of a call:
 *
 * - at the beginning of a call, it is the session of the current context ("home");
 * - a handle, or a device, of another session changes it;
 * - a message that names objects, or another context than the current one, goes to their session in
 *   any case.
 *
 * The messages' context is changed with the session, because a server knows its own contexts only.
 */
#ifndef CK_CLIENT_LINK_SESSION_LIST_H
#define CK_CLIENT_LINK_SESSION_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "util/address/servers.h"

/* There are several sessions. Never reset, except in the child of a fork. */
extern _Atomic bool ckc_many __attribute__((visibility("hidden")));
/* Calls have more to do than usual when they begin: there are several sessions, or calls are
 * counted. */
extern _Atomic bool ckc_slow_entry __attribute__((visibility("hidden")));

/* Of the process; client/wire/servers.c fills it. The list is complete before the program knows a
 * device of it. */
struct ckc_sessions {
	struct ck_mutex lock;
	struct ckc_client *list[CK_SERVERS_MAX];
	struct ck_server_entry *entries[CK_SERVERS_MAX];
	unsigned int count; /* 0: they have not been opened */
	CUresult failed;
	bool told[CK_PROC_END]; /* messages that have named objects of two servers */
};
extern struct ckc_sessions ckc_sessions __attribute__((visibility("hidden")));

unsigned int ckc_servers_count(void);
/* The session number @index. */
struct ckc_client *ckc_server_session(unsigned int index);
/* The devices that the list names of session @index: their count, 0 for all. */
unsigned int ckc_server_devices(unsigned int index, const unsigned int **devices);

/* A forked child has no session: forget all but the first, which it may replace. */
void ckc_servers_forget(void);

/* --- routes */

static inline void ckc_route(struct ckc_client *c)
{
	if (unlikely(ckc_many))
		ckc_thread_client = c;
}
/* At the beginning of a call. */
void ckc_route_home(void);
/* Any session that is not lost; the first one if all are. */
void ckc_route_living(void);
/* This thread is the client's own, and serves @c. */
void ckc_route_serve(struct ckc_client *c);
/* Find the session of message @proc and make its context fit. NULL: its objects are on different
 * servers, which is logged. */
struct ckc_client *ckc_route_message(uint32_t proc, void *args);

/* The session for a message: see above. */
static inline struct ckc_client *ckc_session_of(uint32_t proc, void *args)
{
	return likely(!ckc_many) ? ckc_client_current() : ckc_route_message(proc, args);
}

#endif
