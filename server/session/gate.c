/*
 * server/session/gate.c - see gate.h.
 */
#include <time.h>

#include "server/session/gate.h"
#include "server/session/locks.h"
#include "util/until.h"

#define STEP_NS 200000 /* between two looks whether all have left */

void cks_gate_init(struct cks_gate *g)
{
	*g = (struct cks_gate){.lock = CK_MUTEX(CK_RANK_GATE)};
}

void cks_gate_fini(struct cks_gate *g)
{
	ck_cond_destroy(&g->opened);
	ck_cond_destroy(&g->became);
	ck_mutex_destroy(&g->lock);
}

void cks_gate_join(struct cks_gate *g, struct cks_pass *pass)
{
	ck_lock(&g->lock);
	pass->next = g->passes;
	g->passes = pass;
	ck_unlock(&g->lock);
}

void cks_gate_part(struct cks_gate *g, struct cks_pass *pass)
{
	struct cks_pass **at = &g->passes;

	ck_lock(&g->lock);
	while (*at != pass)
		at = &(*at)->next;
	*at = pass->next;
	g->past += atomic_load(&pass->turns);
	ck_unlock(&g->lock);
}

/* A client wants the GPU, but it is suspended: say so once. */
static void request_resume(struct cks_gate *g)
{
	if (g->knocked)
		return;
	g->knocked = true;
	if (g->knock)
		g->knock();
}

/* The same for a turn: say so, and again after a while. */
static void request_turn(struct cks_gate *g)
{
	int64_t now = ck_now_ms();

	if (now < g->ask_at)
		return;
	g->ask_at = now + CK_GATE_ASK_MS;
	if (g->ask)
		g->ask();
}

/* Call with the lock held, which is released while the thread waits. @request: a client wants to
 * enter. */
static void wait_for_change(struct cks_gate *g, bool request)
{
	bool parked = atomic_load(&g->closed) & CK_GATE_PARKED;
	struct timespec again;

	if (request && parked)
		request_resume(g);
	else if (request)
		request_turn(g);
	if (!request || parked) {
		ck_cond_wait(&g->opened, &g->lock);
		return;
	}
	again = ck_until(CK_GATE_ASK_MS * CK_NS_PER_MS);
	ck_cond_timedwait(&g->opened, &g->lock, &again);
}

/* Call with the lock held. */
static void hold_gate(struct cks_gate *g)
{
	g->ask_at = 0;
	atomic_fetch_or(&g->closed, CK_GATE_HELD);
	ck_cond_signal(&g->became);
}

/* @over: the thread is to give up; or NULL. */
static void wait_until_open(struct cks_gate *g, bool knock, const atomic_bool *over)
{
	ck_lock(&g->lock);
	/* the gate may have opened and closed again before a waiting thread runs: then it knocks
	 * again */
	while (atomic_load(&g->closed) && !(over && atomic_load(over)))
		wait_for_change(g, knock);
	ck_unlock(&g->lock);
}

void cks_gate_wait(struct cks_gate *g, bool knock)
{
	wait_until_open(g, knock, NULL);
}

bool cks_gate_enter_unless(struct cks_gate *g, struct cks_pass *pass, const atomic_bool *over)
{
	while (!atomic_load(over)) {
		if (cks_gate_try(g, pass))
			return true;
		wait_until_open(g, true, over);
	}
	return false;
}

void cks_gate_wake(struct cks_gate *g)
{
	ck_lock(&g->lock);
	ck_cond_broadcast(&g->opened);
	ck_unlock(&g->lock);
}

/* How many turns of @p count, with one that has begun. */
static uint64_t count_turns(const struct cks_pass *p, bool *inside)
{
	uint64_t turn;
	bool quiet;

	do {
		turn = atomic_load(&p->turns);
		quiet = atomic_load(&p->quiet);
	} while (turn != atomic_load(&p->turns)); /* or it may be quiet because of another turn */
	*inside = turn % 2 == 1 && !quiet;
	return turn % 2 == 1 && quiet ? turn - 1 : turn;
}

uint64_t cks_gate_turns(struct cks_gate *g, bool *inside)
{
	uint64_t turns;
	bool one;

	*inside = false;
	ck_lock(&g->lock);
	turns = g->past;
	for (const struct cks_pass *p = g->passes; p; p = p->next) {
		turns += count_turns(p, &one);
		*inside |= one;
	}
	ck_unlock(&g->lock);
	return turns;
}

bool cks_gate_is_empty(struct cks_gate *g)
{
	bool empty = true;

	ck_lock(&g->lock);
	for (const struct cks_pass *p = g->passes; p && empty; p = p->next)
		empty = atomic_load(&p->turns) % 2 == 0;
	ck_unlock(&g->lock);
	return empty;
}

void cks_gate_knock(struct cks_gate *g)
{
	ck_lock(&g->lock);
	if ((atomic_load(&g->closed) & CK_GATE_PARKED) && g->knocked && g->knock)
		g->knock();
	ck_unlock(&g->lock);
}

bool cks_gate_close(struct cks_gate *g, unsigned int ms)
{
	const struct timespec step = {.tv_nsec = STEP_NS};
	int64_t until = ck_now_ms() + ms;

	ck_lock(&g->lock);
	g->knocked = false;
	atomic_fetch_or(&g->closed, CK_GATE_PARKED);
	ck_unlock(&g->lock);
	for (;;) {
		if (cks_gate_is_empty(g))
			return true;
		if (ck_now_ms() >= until)
			break;
		nanosleep(&step, NULL);
	}
	cks_gate_open(g);
	return false;
}

static void open_for(struct cks_gate *g, unsigned int reason)
{
	ck_lock(&g->lock);
	atomic_fetch_and(&g->closed, ~reason);
	ck_cond_broadcast(&g->opened); /* also if it is closed for another reason: they tell that */
	ck_unlock(&g->lock);
}

void cks_gate_open(struct cks_gate *g)
{
	open_for(g, CK_GATE_PARKED);
}

bool cks_gate_is_parked(const struct cks_gate *g)
{
	return atomic_load(&g->closed) & CK_GATE_PARKED;
}

void cks_gate_let(struct cks_gate *g)
{
	open_for(g, CK_GATE_HELD);
}

void cks_gate_hold(struct cks_gate *g)
{
	ck_lock(&g->lock);
	hold_gate(g);
	ck_cond_broadcast(&g->opened); /* threads that wait ask the new holder */
	ck_unlock(&g->lock);
}

bool cks_gate_await_held(struct cks_gate *g, uint32_t us)
{
	const struct timespec until = ck_until(us * UINT64_C(1000));
	bool held, late = false;

	ck_lock(&g->lock);
	while (!(held = atomic_load(&g->closed) & CK_GATE_HELD) && !late)
		late = ck_cond_timedwait(&g->became, &g->lock, &until) != 0;
	ck_unlock(&g->lock);
	return held;
}

bool cks_gate_try_held(struct cks_gate *g, struct cks_pass *pass)
{
	uint64_t turn = atomic_load_explicit(&pass->turns, memory_order_relaxed);

	atomic_store(&pass->turns, turn + 1);
	if (!(atomic_load(&g->closed) & CK_GATE_PARKED))
		return true;
	atomic_store(&pass->turns, turn);
	return false;
}
