/*
 * server/session/event_retime.h - events that time the first launch of a kernel.
 *
 * Programs time a kernel with an event before the launch and one after it. At the first launch,
 * Cricket's own messages come between the two: image, module, function. They would count as the
 * kernel's time, including network round trips. So the event is recorded again, directly before the
 * launch, if nothing else happened since. The stream has had no work in between, so waiters for the
 * event wait for the same work.
 */
#ifndef CK_SERVER_SESSION_EVENT_RETIME_H
#define CK_SERVER_SESSION_EVENT_RETIME_H

#include "rpc/proc.h"
#include "server/session/session.h"
#include "util/util.h"

static inline bool cks_event_retime_armed(const struct cks_event_retime *r)
{
	return unlikely(atomic_load_explicit(&r->armed, memory_order_relaxed));
}

/* The command that is being carried out has recorded @event in @stream, both given by id. */
void cks_event_retime_record(struct cks_event_retime *r, uint64_t event, uint64_t stream);

/* Command @proc was carried out. For the thread that carries out commands. */
void cks_event_retime_follow(struct cks_event_retime *r, const struct ck_proc *proc);

static inline void cks_event_retime_command(struct cks_event_retime *r, const struct ck_proc *proc)
{
	if (cks_event_retime_armed(r))
		cks_event_retime_follow(r, proc);
}

/* A waiting call has arrived: the program may have seen the event. Any thread; cheap. */
static inline void cks_event_retime_call(struct cks_event_retime *r, const struct ck_proc *proc)
{
	if (cks_event_retime_armed(r) && !proc->loads)
		atomic_store_explicit(&r->armed, false, memory_order_relaxed);
}

/* A kernel is about to be launched in @stream, given by id and handle. For the thread that carries
 * out commands. */
void cks_event_retime_launch(struct cks_request *q, uint64_t id, CUstream stream);

#endif
