/*
 * server/session/session.h - one client process, inside its worker process.
 *
 * Threads: one command thread executes one-way messages in order, or a lane in its place; one
 * thread per lane executes calls that wait. A call names the last command before it, and starts
 * only when that command has been executed (session.executed).
 */
#ifndef CK_SERVER_SESSION_SESSION_H
#define CK_SERVER_SESSION_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cuda/types.h"
#include "gen/driver.h"
#include "rpc/record.h"
#include "server/session/faults.h"
#include "server/session/gate.h"
#include "server/session/handles.h"
#include "server/session/histogram.h"
#include "server/session/locks.h"
#include "server/session/rate_limit.h"
#include "server/session/stream_holds.h"
#include "util/spin.h"
#include "util/wait.h"

/* The event that the last commands recorded; see event_retime.h. The thread that carries out a
 * command owns all but armed. */
struct cks_event_retime {
	_Atomic bool armed;
	uint64_t event, stream; /* ids */
	uint64_t recorded_ns;
	bool recording; /* by the command that is being carried out */
	bool loading;	/* messages that load a kernel came after it */
};

struct cks_commands;

#define CK_NOTED_GPUS 16 /* GPUs that are shared by weight */

struct cks_session {
	unsigned char id[16], key[16];
	/* of a client with TLS: its further connections begin with it */
	unsigned char secret[32];
	bool has_secret;
	struct cks_handles *handles;
	struct cks_memory *memory;	     /* every device allocation of the session */
	struct cks_leases *leases;	     /* device memory that the client lays out */
	struct cks_evacuation *evacuation;   /* device memory that is in host memory */
	struct cks_staging *staging;	     /* pinned slots for pageable copies */
	struct cks_launch_pace *launch_pace; /* how far launches run ahead */
	struct cks_textures *textures;	     /* numbers of texture and surface objects */
	struct cks_modcache *modules;	     /* images by content hash */
	/* answers that earlier sessions of the program received */
	struct cks_answer_store *answers;
	struct cks_chunk_store *store;	       /* kept uploads of its identity; NULL: none */
	struct cks_start_list *start;	       /* its chunks that the program takes; NULL: none */
	struct cks_chunk_writer *writer;       /* chunks to be kept there; NULL: none */
	struct cks_held_chunks *held;	       /* chunks that it will take next; NULL: none */
	struct cks_assembly *assembly;	       /* the image that is arriving */
	struct ck_output *output;	       /* of kernels */
	struct cks_callbacks *callbacks;       /* functions for the client to run */
	struct cks_mirrors *mirrors;	       /* host memory of graphs */
	struct cks_deliveries *deliveries;     /* asynchronous copies to the client's memory */
	struct cks_status *status;	       /* events and streams that the client watches */
	struct cks_direct *direct;	       /* connections to workers of other servers */
	struct cks_pinned *pinned;	       /* host memory of the client that the driver knows */
	struct cks_shadows *shadows;	       /* the part of it that the client cannot share */
	struct cks_nccl *nccl;		       /* communicators */
	struct cks_commands *_Atomic commands; /* in shared memory: lanes may carry them out */
	_Atomic uint64_t executed;	       /* number of the last command carried out */
	_Atomic uint64_t awaited; /* the first command that a lane sleeps for; or UINT64_MAX */
	_Atomic uint64_t beside;  /* uploads beside the commands that have ended */
	struct ck_mutex lock;	  /* with the condition: waiting for executed, and for beside */
	struct ck_cond progress;
	struct ck_spin spin;	 /* of lanes, before they sleep */
	_Atomic int async_error; /* first CUresult of a failed command, until reported */
	_Atomic(struct ck_chan *) failed_to; /* which learned last that it is OUT_OF_MEMORY */
	_Atomic uint64_t context_epoch;	     /* counts changes of contexts: threads bind again */
	struct cks_event_retime retime;
	struct cks_faults faults; /* the last launches */
	_Atomic bool used;	  /* it is in use: the watch reports it, and checks output */
	struct cks_gate gate;	  /* closed while the session is suspended */
	struct cks_stream_holds holds;
	/* it has begun a capture: memory/lease_quiet.c, objects/event.c */
	_Atomic bool captured;
	struct ck_mutex captures; /* held while a stream joins one, or streams are looked at */
	struct ck_mutex contexts; /* held while one ends, or its work is waited for */
	_Atomic uint32_t
		gpus[CK_NOTED_GPUS]; /* by device: a mark if it has a context there, else 0 */
	_Atomic bool shares;	     /* it has shared memory or events with other processes */
	struct cks_histogram call_times, round_trips; /* of calls that wait; of its connections */
	int wake_fd; /* an eventfd that wakes the watch; -1: none */
	int device_count;
	/* ask the other sessions for free memory, or wait for it no longer; NULL: not possible */
	int (*press)(bool waits);
	void (*listens)(
		void); /* the calling lane waits for words from now on; NULL: nothing to do */
	unsigned int wait_max_ms;	       /* time limit of calls that wait for news */
	_Atomic uint64_t window_lo, window_hi; /* addresses reserved for managed memory; or 0 */

	/* For the log line at the end. */
	_Atomic uint64_t calls, bytes_in, bytes_out; /* of the lanes */
	_Atomic uint64_t command_bytes;		     /* written by one thread at a time */
	struct cks_rate_limit pace;
};

/* One message, passed to a handler. */
struct cks_request {
	struct cks_session *session;
	struct ck_chan *chan;
	struct ck_reader *reader; /* bulk payload is read through it */
	uint32_t xid;
	uint32_t proc;
	struct cks_pass *pass; /* of its thread, which is inside of the gate; NULL: it has none */
	uint64_t ctx;	       /* id of the caller's current context; already bound */
	size_t bulk_offset;    /* of the payload, in the record's body */
	size_t bulk_size;
	bool replied; /* the handler sent the reply itself (bulk) */
	bool bounded; /* a quota refuses it: more memory would not help */
	int broken;   /* -errno: the channel failed in the handler */
};

/*
 * Make the tables of a session. Takes ownership of the module cache, already open, and of @output
 * (NULL: none). -errno: takes neither.
 */
int cks_session_create(struct cks_modcache *modules, struct ck_output *output, int device_count,
		       struct cks_session **session);

/* For tests: a worker process ends with its session and frees nothing. No thread may use the
 * session. */
void cks_session_destroy(struct cks_session *session);

/* Keep @err for the next call that waits, unless an earlier one is kept; returns whether it is
 * kept. */
bool cks_session_fail(struct cks_session *session, CUresult err);

/* Command @seq was executed: wake the lanes that wait for it. */
void cks_session_executed(struct cks_session *session, uint64_t seq);

/* An upload beside the commands has ended with @err: keep that as a command's, and wake the command
 * that waits for the upload. */
void cks_session_beside(struct cks_session *session, CUresult err);

/* Wait until @count uploads beside the commands have ended. False: so many cannot be on their
 * way. */
bool cks_session_join(struct cks_session *session, uint64_t count);

void cks_session_wake_watch(struct cks_session *session);

/* The session is in use, and kernels may have printed: report it soon. Cheap if already
 * requested. */
static inline void cks_session_mark_used(struct cks_session *session)
{
	if (!atomic_load_explicit(&session->used, memory_order_relaxed))
		cks_session_wake_watch(session);
}

/* Count the bytes of a reply, before it is sent. */
static inline void cks_session_count_reply(struct cks_session *session, const struct iovec *iov,
					   unsigned int count)
{
	size_t size = 0;

	for (unsigned int i = 0; i < count; i++)
		size += iov[i].iov_len;
	atomic_fetch_add_explicit(&session->bytes_out, size, memory_order_relaxed);
	cks_rate_limit_take(&session->pace, CK_WAY_OUT, size);
}

/* Wait until command @seq has been executed. */
void cks_session_wait(struct cks_session *session, uint64_t seq);

/* The name of @err for logs; never NULL. */
const char *cks_error_name(CUresult err);

#endif
