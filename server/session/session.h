/*
 * server/session/session.h - one client process inside its worker process.
 *
 * Threads: one command thread carries out one-way messages in order; one thread a lane carries
 * out calls that wait. A call names the last command before it and is started only when that
 * one has been carried out (session.executed).
 */
#ifndef CK_SERVER_SESSION_SESSION_H
#define CK_SERVER_SESSION_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "gen/driver.h"
#include "rpc/record.h"
#include "server/session/handles.h"
#include "server/session/locks.h"
#include "util/spin.h"

/* The event that the last commands recorded; see retime.h. All but armed is the command thread's. */
struct ck_retime {
	_Atomic bool armed;
	uint64_t event, stream; /* ids */
	uint64_t recorded_ns;
	bool loading;		/* messages that load a kernel have followed */
};

struct ck_session {
	unsigned char id[16], key[16];
	struct ck_handles *handles;
	struct ck_memory *memory;	/* every device allocation of the session */
	struct ck_staging *staging;	/* pinned slots for pageable copies */
	struct ck_textures *textures;	/* numbers of texture and surface objects */
	struct ck_modcache *modules;	/* images by content hash */
	struct ck_assembly *assembly;	/* the image that is arriving */
	struct ck_output *output;	/* what kernels print */
	struct ck_callbacks *callbacks;	/* what the client is to run */
	struct ck_mirrors *mirrors;	/* host memory of graphs */
	struct ck_deliveries *deliveries; /* copies to its memory that no call waits for */
	struct ck_status *status;	/* events that it waits to hear of */
	struct ck_pinned *pinned;	/* host memory of a client on this host */
	_Atomic uint64_t executed;	/* number of the last command carried out */
	_Atomic uint64_t awaited;	/* the first command that a lane sleeps for; or UINT64_MAX */
	struct ck_mutex lock;		/* with the condition: waiting for executed */
	pthread_cond_t progress;
	struct ck_spin spin;		/* of lanes, before they sleep */
	_Atomic int async_error;	/* first CUresult of a failed command, until told */
	_Atomic uint64_t context_epoch; /* counts changes to contexts: threads bind anew */
	struct ck_retime retime;
	_Atomic bool stirred;		/* commands have come; the worker's watch looks after the session */
	int stir_fd;			/* an eventfd, which tells it so; -1: none */
	int device_count;
	unsigned int wait_max_ms;	/* a call that waits for news is answered by then */
	_Atomic uint64_t window_lo, window_hi; /* addresses kept for managed memory; or 0 */

	/* For the log line at the end. */
	_Atomic uint64_t calls, bytes_in, bytes_out; /* of the lanes */
	_Atomic uint64_t command_bytes;		     /* written by the command thread alone */
};

/* One message in the hands of a handler. */
struct ck_request {
	struct ck_session *session;
	struct ck_chan *chan;
	struct ck_reader *reader;	/* bulk payload is read through it */
	uint32_t xid;
	uint32_t proc;
	uint64_t ctx;			/* id of the caller's current context; already bound */
	size_t bulk_offset;		/* of the payload in the record's body */
	size_t bulk_size;
	bool replied;			/* the handler has sent the reply itself (bulk) */
	int broken;			/* -errno: the channel failed under the handler */
};

/*
 * Make the tables of a session; the module cache is the caller's, already open, and becomes the
 * session's, and so does @output (NULL: none). -errno, and neither is taken.
 */
int ck_session_create(struct ck_modcache *modules, struct ck_output *output, int device_count,
		      struct ck_session **session);

/* For tests: a worker process ends with its session and frees nothing. No thread may use it. */
void ck_session_destroy(struct ck_session *session);

/* Keep @err for the next call that waits, unless an earlier one is kept; whether it is kept. */
bool ck_session_fail(struct ck_session *session, CUresult err);

/* Command number @seq has been carried out: let lanes that wait for it go on. */
void ck_session_executed(struct ck_session *session, uint64_t seq);

void ck_session_stir_up(struct ck_session *session);

/* A command may have made kernels print: have the output looked at soon. Cheap when it is already. */
static inline void ck_session_stir(struct ck_session *session)
{
	if (!atomic_load_explicit(&session->stirred, memory_order_relaxed))
		ck_session_stir_up(session);
}

/* Wait until command @seq has been carried out. */
void ck_session_wait(struct ck_session *session, uint64_t seq);

/* The name of @err, for logs; never NULL. */
const char *ck_error_name(CUresult err);

#endif
