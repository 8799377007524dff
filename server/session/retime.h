/*
 * server/session/retime.h - events that time the first launch of a kernel.
 *
 * Programs time a kernel with an event before the launch and one after it. At the first launch,
 * Cricket's own messages come between the two: image, module, function. They would count as the
 * kernel's time, including network round trips. So the event is recorded again, directly before the
 * launch, if nothing else happened since. The stream has had no work in between, so waiters for the
 * event wait for the same work.
 */
#ifndef CK_SERVER_SESSION_RETIME_H
#define CK_SERVER_SESSION_RETIME_H

#include "gen/numbers.h"
#include "server/session/session.h"
#include "util/util.h"

/* Command @proc with @args was executed with result @err. For the thread that carries out commands. */
void cks_retime_command(struct cks_session *session, uint32_t proc, const void *args, CUresult err);

/* A waiting call has arrived: the program may have seen the event. Any thread; cheap. */
static inline void cks_retime_call(struct cks_session *session, uint32_t proc)
{
	if (unlikely(atomic_load_explicit(&session->retime.armed, memory_order_relaxed)) &&
	    proc != CK_PROC_module_build)
		atomic_store_explicit(&session->retime.armed, false, memory_order_relaxed);
}

/* A kernel is about to be launched in @stream, given by id and handle. For the thread that carries out commands. */
void cks_retime_launch(struct cks_request *q, uint64_t id, CUstream stream);

#endif
