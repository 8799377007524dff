/*
 * server/session/retime.h - events that time the first launch of a kernel.
 *
 * Programs time a kernel by an event before the launch and one behind it. Before the first launch, messages of ours
 * fall between the two: the image, the module, the function. They would count as the kernel's time, over a network
 * with round trips and all. So the event is recorded once more, right before the launch, if nothing else has happened
 * since. The stream has had no work in between, so all that waits for the event waits for the same work.
 */
#ifndef CK_SERVER_SESSION_RETIME_H
#define CK_SERVER_SESSION_RETIME_H

#include "gen/numbers.h"
#include "server/session/session.h"
#include "util/util.h"

/* Command @proc with @args has been carried out with result @err. Command thread only. */
void ck_retime_command(struct ck_session *session, uint32_t proc, const void *args, CUresult err);

/* A call that waits has come: the program may have seen the event. Any thread; cheap. */
static inline void ck_retime_call(struct ck_session *session, uint32_t proc)
{
	if (unlikely(atomic_load_explicit(&session->retime.armed, memory_order_relaxed)) &&
	    proc != CK_PROC_ck_module_build)
		atomic_store_explicit(&session->retime.armed, false, memory_order_relaxed);
}

/* A kernel is about to be launched into @stream, by id and handle. Command thread only. */
void ck_retime_launch(struct ck_request *q, uint64_t id, CUstream stream);

#endif
