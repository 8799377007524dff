/*
 * server/worker/gpu_turn.c - see gpu_turn.h.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "gen/driver.h"
#include "server/modules/launch_pace.h"
#include "server/processes/messages.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/worker/gpu_turn.h"
#include "server/worker/worker_part.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("server");

#define CK_STEP_US 250	 /* between two looks whether the session does anything */
#define CK_QUIET_US 2000 /* without a message, after which its turn ends early */

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	struct ck_cond begun;
	bool running;	/* the thread */
	bool held;	/* turns are given */
	uint64_t count; /* of turns so far: the latest is this one */
	struct cks_control_turn latest;
	struct cks_pass pass; /* of the thread */
} turn = {.lock = CK_MUTEX(CK_RANK_TURN)};

static void request_turn(void)
{
	const struct cks_worker_note note = {.kind = CK_NOTE_ASK};

	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

void cks_gpu_turn_prepare(struct cks_session *s)
{
	s->gate.ask = request_turn;
}

static void sleep_us(uint32_t us)
{
	const struct timespec step = {.tv_nsec = us * 1000L};

	nanosleep(&step, NULL);
}

/* Is turn @number the session's latest? */
static bool is_latest(uint64_t number)
{
	bool latest;

	ck_lock(&turn.lock);
	latest = turn.held && turn.count == number;
	ck_unlock(&turn.lock);
	return latest;
}

/* Let the session submit work in its turn @m. False: it had no more to do before the end. */
static bool allow_submission(struct cks_session *s, uint64_t number,
			     const struct cks_control_turn *m)
{
	const uint32_t most = ck_max((m->quiet_us ? m->quiet_us : CK_QUIET_US) / CK_STEP_US, 1u);
	int64_t until = ck_now_us() + m->window_us, now;
	uint64_t turns, before;
	unsigned int quiet = 0;
	bool inside;

	before = cks_gate_turns(&s->gate, &inside);
	while ((now = ck_now_us()) < until && is_latest(number)) {
		if (cks_gate_await_held(&s->gate,
					(uint32_t)ck_min(until - now, (int64_t)CK_STEP_US)))
			return true;
		turns = cks_gate_turns(&s->gate, &inside);
		quiet = turns == before && !inside ? quiet + 1 : 0;
		before = turns;
		if (quiet == most)
			return false;
	}
	return true;
}

static void sync_context(CUcontext context)
{
	CUcontext popped;

	if (ck_driver.cuCtxPushCurrent_v2(context))
		return;
	ck_driver.cuCtxSynchronize(); /* its error is the next call's too */
	ck_driver.cuCtxPopCurrent_v2(&popped);
}

/* Wait for the work of all contexts. In a context with a capture that is not allowed. */
static void wait_for_work(struct cks_session *s)
{
	struct cks_object context;
	uint64_t id = 0;

	cks_gate_uncount(&turn.pass);
	if (!ck_driver.cuCtxSynchronize || !ck_driver.cuCtxPushCurrent_v2 ||
	    !cks_gate_try_held(&s->gate, &turn.pass))
		return;
	ck_lock(&s->contexts);
	while (cks_handles_marked(s->handles) == 0 &&
	       cks_handles_next(s->handles, &id, CK_KIND_CONTEXT, &context))
		sync_context(context.handle);
	ck_unlock(&s->contexts);
	cks_gate_leave_uncounted(&turn.pass);
}

/* The gate is closed: wait for threads inside, which may wait for work, and for that. A new turn
 * ends it. */
static void drain_work(struct cks_session *s, uint64_t number)
{
	bool empty = false;

	while (!empty && is_latest(number)) {
		empty = cks_gate_is_empty(&s->gate);
		if (!empty)
			sleep_us(CK_STEP_US / 4);
	}
	if (empty)
		wait_for_work(s);
}

static void run_turn(struct cks_session *s, uint64_t number, const struct cks_control_turn *m)
{
	struct cks_worker_note note = {.kind = CK_NOTE_TURN, .number = m->serial};
	bool over;

	note.uses = allow_submission(s, number, m);
	ck_lock(&turn.lock);
	over = turn.held && turn.count == number;
	if (over)
		cks_gate_hold(&s->gate);
	ck_unlock(&turn.lock);
	if (!over)
		return;
	drain_work(s, number);
	ck_fd_write_full(CK_WORKER_CONTROL, &note, sizeof(note));
}

static void *take_turns(void *session)
{
	struct cks_session *s = session;
	struct cks_control_turn latest;
	uint64_t taken = 0;

	cks_gate_join(&s->gate, &turn.pass);
	for (;;) {
		ck_lock(&turn.lock);
		while (turn.count == taken)
			ck_cond_wait(&turn.begun, &turn.lock);
		taken = turn.count;
		latest = turn.latest;
		ck_unlock(&turn.lock);
		run_turn(s, taken, &latest);
	}
	return NULL;
}

/* Without the thread, nothing would end turns: the session stays free. */
static bool has_thread(struct cks_session *s)
{
	if (!turn.running) {
		int ret = worker_thread(take_turns, s);

		turn.running = ret == 0;
		if (ret < 0)
			ck_warn("no thread for turns on the GPU: %s", strerror(-ret));
	}
	return turn.running;
}

void cks_gpu_turn_free(struct cks_session *s)
{
	ck_lock(&turn.lock);
	turn.held = false;
	cks_launch_pace_set(s->launch_pace, false);
	cks_gate_let(&s->gate);
	ck_unlock(&turn.lock);
}

void cks_gpu_turn_control(struct cks_session *s, const struct cks_control_turn *m)
{
	if (m->kind == CK_CONTROL_FREE || !has_thread(s)) {
		cks_gpu_turn_free(s);
		return;
	}
	ck_lock(&turn.lock);
	turn.held = true;
	if (m->kind == CK_CONTROL_HOLD) {
		cks_gate_hold(&s->gate);
	} else {
		turn.count++;
		turn.latest = *m;
		cks_launch_pace_set(s->launch_pace, m->messages > 0);
		cks_gate_let(&s->gate);
		ck_cond_signal(&turn.begun);
	}
	ck_unlock(&turn.lock);
}
