/*
 * server/session/stream_holds.h - streams that wait for another server, and driver calls that must
 * not run at the same time.
 *
 * A stream waits for another server in a function of the host, which ends when the client says so.
 * Before that, this worker may have to receive bytes for it. Some of the driver's functions wait
 * for all work of the context, and keep the driver's other functions waiting meanwhile (CUDA C++
 * Programming Guide, "Lazy Loading": loading a kernel may need the context's synchronization). The
 * two would deadlock. So only one kind is in the driver at a time. tests/gpu/holds.c shows which
 * functions wait on a GPU.
 */
#ifndef CK_SERVER_SESSION_STREAM_HOLDS_H
#define CK_SERVER_SESSION_STREAM_HOLDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"

struct ck_proc;

struct cks_stream_holds {
	struct ck_mutex lock;
	struct ck_cond changed;
	unsigned int holding; /* streams, from the message to the end of the function */
	unsigned int waiting; /* calls that may wait for all work */
};

void cks_stream_holds_init(struct cks_stream_holds *holds);
void cks_stream_holds_fini(struct cks_stream_holds *holds);

/* Wait until no call of the other kind is in the driver, and count this one. */
void cks_stream_holds_begin(struct cks_stream_holds *holds);
void cks_stream_holds_over(struct cks_stream_holds *holds);

/* The same of message @proc, if its row says that it drains; false: it does not. */
bool cks_stream_holds_enter(struct cks_stream_holds *holds, const struct ck_proc *proc);
void cks_stream_holds_leave(struct cks_stream_holds *holds);

#endif
