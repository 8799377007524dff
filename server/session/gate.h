/*
 * server/session/gate.h - the way to the driver, which closes when the session is suspended, or has
 * to wait for its turn.
 *
 * A thread goes through it for each message that may call the driver. While it is closed, threads
 * wait in front of it, and the first one knocks: its client wants the GPU. Messages that need no
 * driver do not come here.
 */
#ifndef CK_SERVER_SESSION_GATE_H
#define CK_SERVER_SESSION_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"

/* A thread's own; odd: it is inside. */
struct cks_pass {
	_Atomic uint64_t turns;
	atomic_bool quiet; /* this turn does not count */
	struct cks_pass *next;
};

/* Why it is closed: bits. */
#define CK_GATE_PARKED 1u /* the session is suspended, or about to be */
#define CK_GATE_HELD 2u	  /* another session has the turn (worker/gpu_turn.h) */

/* A thread that still waits for a turn asks again: a question or its answer may be lost. */
#define CK_GATE_ASK_MS 1000

struct cks_gate {
	_Atomic unsigned int closed;
	struct ck_mutex lock;
	struct ck_cond opened;
	struct cks_pass *passes;
	uint64_t past;	       /* turns of threads that have gone */
	struct ck_cond became; /* held */
	bool knocked;
	int64_t ask_at;	     /* in ms: the next time to ask; 0: at once */
	void (*knock)(void); /* tells that a client wants the GPU, while it is parked; or NULL */
	void (*ask)(void);   /* the same while it is held; again each CK_GATE_ASK_MS */
};

void cks_gate_init(struct cks_gate *gate);
void cks_gate_fini(struct cks_gate *gate); /* no thread may use it any more */

/* Before the first use of @pass, and after the last. */
void cks_gate_join(struct cks_gate *gate, struct cks_pass *pass);
void cks_gate_part(struct cks_gate *gate, struct cks_pass *pass);

/* Wait while it is closed; with @knock, a client wants to enter. */
void cks_gate_wait(struct cks_gate *gate, bool knock);

/* False: it is closed, and the thread is outside. */
static inline bool cks_gate_try(struct cks_gate *gate, struct cks_pass *pass)
{
	uint64_t turn = atomic_load_explicit(&pass->turns, memory_order_relaxed);

	/* sequentially consistent, like the other side: it sees this turn, or the turn sees it
	 * closed */
	atomic_store(&pass->turns, turn + 1);
	if (__builtin_expect(!atomic_load(&gate->closed), 1))
		return true;
	atomic_store(&pass->turns, turn);
	return false;
}

static inline void cks_gate_enter(struct cks_gate *gate, struct cks_pass *pass)
{
	while (!cks_gate_try(gate, pass))
		cks_gate_wait(gate, true);
}

/* For work that no client waits for. */
static inline void cks_gate_enter_silently(struct cks_gate *gate, struct cks_pass *pass)
{
	while (!cks_gate_try(gate, pass))
		cks_gate_wait(gate, false);
}

/* Enter, unless @over is or becomes true: false. Whoever sets it calls cks_gate_wake then. */
bool cks_gate_enter_unless(struct cks_gate *gate, struct cks_pass *pass, const atomic_bool *over);
void cks_gate_wake(struct cks_gate *gate);

static inline void cks_gate_leave(struct cks_pass *pass)
{
	uint64_t turn = atomic_load_explicit(&pass->turns, memory_order_relaxed);

	atomic_store_explicit(&pass->turns, turn + 1, memory_order_release);
}

/* A turn that is no use of the session by its program: it does not count. Before the thread enters,
 * and to leave. */
static inline void cks_gate_uncount(struct cks_pass *pass)
{
	atomic_store_explicit(&pass->quiet, true, memory_order_relaxed);
}

static inline void cks_gate_leave_uncounted(struct cks_pass *pass)
{
	uint64_t turn = atomic_load_explicit(&pass->turns, memory_order_relaxed);

	atomic_store_explicit(&pass->turns, turn - 1, memory_order_release);
	atomic_store_explicit(&pass->quiet, false, memory_order_release);
}

static inline bool cks_gate_try_uncounted(struct cks_gate *gate, struct cks_pass *pass)
{
	bool inside;

	cks_gate_uncount(pass);
	inside = cks_gate_try(gate, pass);
	if (!inside)
		atomic_store_explicit(&pass->quiet, false, memory_order_release);
	return inside;
}

/* Close it and wait at most @ms until no thread is inside. False: one still is, and the gate is
 * open again. */
bool cks_gate_close(struct cks_gate *gate, unsigned int ms);
void cks_gate_open(struct cks_gate *gate);
bool cks_gate_is_parked(const struct cks_gate *gate);
/* No thread is inside. */
bool cks_gate_is_empty(struct cks_gate *gate);
/* Knock again if it is closed and a client wants to enter. */
void cks_gate_knock(struct cks_gate *gate);

/* Close it without waiting for those inside; threads in front of it ask. And open it. */
void cks_gate_hold(struct cks_gate *gate);
void cks_gate_let(struct cks_gate *gate);
/* Wait at most @us until it is held: whether it is. */
bool cks_gate_await_held(struct cks_gate *gate, uint32_t us);
/* Enter although it is held. False: it is parked, and the thread is outside. */
bool cks_gate_try_held(struct cks_gate *gate, struct cks_pass *pass);

/* Turns so far that count: another number means that the session was used. @inside: one of them has
 * begun. */
uint64_t cks_gate_turns(struct cks_gate *gate, bool *inside);

#endif
