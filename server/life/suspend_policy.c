/*
 * server/life/suspend_policy.c - which sessions leave the GPU without a command.
 *
 * A session that has not used the GPU for --suspend-idle leaves it. One that finds no memory, to
 * allocate or to resume, has another one leave: with --suspend-for-others the one that has been
 * idle longest, and if both take turns (suspend_turns.c) and none is idle, one that waits behind
 * it, or the one that has run longest, after its turn. It parks, and leaves altogether if that was
 * not enough and no other can leave.
 */
#include "server/children/workers.h"
#include "server/door/disconnected_sessions.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_SPARE_MS 10000 /* one that could not be suspended is left alone so long */

void cks_suspend_policy_init(struct cks_suspend_policy *y, const struct cks_options *options)
{
	y->idle_ms = (int64_t)options->limits.value[CK_LIMIT_IDLE] * 1000;
	y->quantum_ms = (int64_t)options->limits.value[CK_LIMIT_QUANTUM] * 1000;
	y->most = options->limits.value[CK_LIMIT_SUSPENDED];
	y->pools = options->limits.value[CK_LIMIT_PARKED];
	y->for_others = options->suspend_for_others;
}

static void lower_next(int64_t *next, int64_t time)
{
	*next = ck_min(*next, time);
}

/* --- a session that leaves for another */

static bool may_leave(const struct cks_suspender *p, const struct cks_session_info *s, int64_t now)
{
	const struct cks_suspension *u = &s->suspension;

	return u->state == CK_RUNNING && now >= u->spared && cks_suspend_fits(p, s->memory);
}

/* Does @a, of time @a_time, leave before @b? The lowest priority leaves first; among equals, the
 * one that has been resident longest. */
static bool is_before(const struct cks_session_info *a, int64_t a_time,
		      const struct cks_session_info *b, int64_t b_time)
{
	if (cks_suspend_priority(a) != cks_suspend_priority(b))
		return cks_suspend_priority(a) < cks_suspend_priority(b);
	return a_time < b_time;
}

/* The one whose client has been without connections for the longest time. It leaves without regard
 * to its priority: its program does not wait for the GPU. */
static struct cks_session_info *choose_kept(const struct cks_suspender *p,
					    const struct cks_session_info *guest, int64_t now)
{
	struct cks_session_info *s = NULL, *oldest = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		if (s == guest || !cks_disconnected(s) || s->cut.ending || s->memory == 0 ||
		    !cks_suspend_same_gpu(s, guest) || !may_leave(p, s, now))
			continue;
		if (!oldest || s->cut.since < oldest->cut.since)
			oldest = s;
	}
	return oldest;
}

/* Does @s leave for @guest while it is idle; and while it works? */
static bool leaves_for(const struct cks_suspender *p, const struct cks_session_info *s,
		       const struct cks_session_info *guest, bool idle)
{
	bool lower = cks_suspend_priority(s) <= cks_suspend_priority(guest);

	if (cks_suspend_takes_turns(p, s) && cks_suspend_takes_turns(p, guest))
		return idle || lower;
	return idle && lower && p->policy.for_others;
}

/* The sessions that may leave for a guest, of each kind the first. */
struct choice {
	struct cks_session_info *idle, *waiting, *active;
};

/* @s has a request for memory: it does not work, wherever that memory comes from. */
static void consider_waiting(const struct cks_suspender *p, struct cks_session_info *s,
			     const struct cks_session_info *guest, struct choice *best)
{
	if (s->memory > 0 && leaves_for(p, s, guest, false) && cks_suspend_before(p, guest, s) &&
	    (!best->waiting || cks_suspend_before(p, best->waiting, s)))
		best->waiting = s;
}

static void consider_running(const struct cks_suspender *p, struct cks_session_info *s,
			     const struct cks_session_info *guest, int64_t now, struct choice *best,
			     int64_t *next)
{
	const struct cks_suspension *u = &s->suspension;
	bool works = leaves_for(p, s, guest, false);
	int64_t turn = works ? u->since + cks_suspend_turn_ms(p, s, guest) : INT64_MAX;
	int64_t asked = guest->suspension.memory_requested_at;

	if (u->uses == 0) { /* it had nothing on the GPU when it reported last */
		if (u->pressed && now < asked + CK_IDLE_MS)
			lower_next(next, asked + CK_IDLE_MS);
	} else if (now - u->used >= CK_IDLE_MS) {
		if (!best->idle || is_before(s, u->used, best->idle, best->idle->suspension.used))
			best->idle = s;
	} else if (now >= turn) {
		if (!best->active ||
		    is_before(s, u->since, best->active, best->active->suspension.since))
			best->active = s;
	} else {
		lower_next(next, ck_min(u->used + CK_IDLE_MS, turn));
	}
}

/* Which session should leave for @guest; NULL: none yet, lowers *@next to when one may. */
static struct cks_session_info *choose_session(const struct cks_suspender *p,
					       const struct cks_session_info *guest, int64_t now,
					       int64_t *next)
{
	struct choice best = {NULL, NULL, NULL};
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		if (s == guest || !may_leave(p, s, now) || !cks_suspend_same_gpu(s, guest) ||
		    !leaves_for(p, s, guest, true))
			continue;
		if (s->suspension.memory_request)
			consider_waiting(p, s, guest, &best);
		else
			consider_running(p, s, guest, now, &best, next);
	}
	return best.idle ? best.idle : best.waiting ? best.waiting : best.active;
}

/* A parked one, whose contexts and driver's memory are in the way; one that does not wait to resume
 * before one that does, else the one that is parked for the longest time. */
static struct cks_session_info *choose_parked(const struct cks_suspender *p,
					      const struct cks_session_info *guest, int64_t now)
{
	struct cks_session_info *s = NULL, *best = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		const struct cks_suspension *u = &s->suspension;

		if (s == guest || u->state != CK_SUSPENDED || !u->parked || s->mps ||
		    now < u->spared || !cks_suspend_same_gpu(s, guest))
			continue;
		if (!best || u->wanted < best->suspension.wanted ||
		    (u->wanted == best->suspension.wanted && u->since < best->suspension.since))
			best = s;
	}
	return best;
}

/* Who leaves for @guest, and how; NULL: none yet, lowers *@next. */
static struct cks_session_info *choose(const struct cks_suspender *p,
				       const struct cks_session_info *guest, int64_t now,
				       struct cks_suspend_wish *wish, int64_t *next)
{
	bool turns = cks_suspend_takes_turns(p, guest);
	struct cks_session_info *s = NULL;
	int64_t turn = INT64_MAX;

	/* a parked session cannot return to another GPU */
	*wish = (struct cks_suspend_wish){.park = !p->anywhere};
	if (turns || p->policy.for_others)
		s = choose_session(p, guest, now, &turn);
	lower_next(next, turn);
	if (s || (turns && turn < INT64_MAX)) /* its turn brings more than contexts */
		return s;
	s = choose_parked(p, guest, now);
	if (s)
		*wish = (struct cks_suspend_wish){.held = s->suspension.held};
	return s;
}

static bool have_it_leave(struct cks_suspender *p, struct cks_session_info *s,
			  const struct cks_session_info *guest, struct cks_suspend_wish wish,
			  int64_t now)
{
	char name[CK_SESSION_NAME], other[CK_SESSION_NAME];
	json_t *error;

	ck_info("session %s leaves the GPU for %s after %lld ms", cks_session_name(s, name),
		cks_session_name(guest, other), (long long)(now - s->suspension.since));
	if (s->suspension.state == CK_RUNNING)
		cks_suspend_charge(s, now);
	wish.park |= s->mps != 0;
	error = cks_suspend(p, s, wish, NULL);
	json_decref(error);
	s->suspension.spared = now + CK_SPARE_MS; /* if this fails */
	s->suspension.again = INT64_MAX;	  /* see cks_suspend_left() */
	return !error;
}

/* Have one leave for @guest. False: none can, nor will be able to before *@next. Kept sessions
 * always make room: if they cannot be suspended, one that the guest has probably come to replace
 * ends. */
static bool make_room(struct cks_suspender *p, const struct cks_session_info *guest, int64_t now,
		      int64_t *next)
{
	struct cks_suspend_wish wish;
	struct cks_session_info *s;

	do {
		wish = (struct cks_suspend_wish){.park = !p->anywhere};
		s = choose_kept(p, guest, now);
		if (!s && cks_disconnected_give_way(p->workers, guest))
			return true;
		if (!s)
			s = choose(p, guest, now, &wish, next);
	} while (s && !have_it_leave(p, s, guest, wish, now)); /* then it is spared */
	return s;
}

/* --- sessions that allocate */

/* The last word to the worker about its wish for memory. */
static void answer_memory_request(struct cks_suspender *p, struct cks_session_info *s, char kind)
{
	struct cks_suspension *u = &s->suspension;

	cks_workers_send(s, kind);
	if (kind == CK_CONTROL_MADE)
		p->granted = ck_now_ms() + CK_HEAD_START_MS;
	if (u->coming)
		cks_suspend_begin_turn(s);
	u->memory_request = CK_NO_MEMORY_REQUEST;
	u->coming = false;
}

static void have_it_wait(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->coming)
		return;
	u->coming = true;
	u->left_before = p->left;
	cks_workers_send(s, CK_CONTROL_COMING);
}

/* Is there another that gets memory before @s: one that is about to try, or for which one leaves
 * now or later? */
static bool is_behind(const struct cks_suspender *p, const struct cks_session_info *s, int64_t now)
{
	const struct cks_session_info *first = cks_suspend_first(p, s);
	struct cks_suspend_wish wish;
	int64_t turn = INT64_MAX;

	if (!first || first == s)
		return false;
	if (first->suspension.state == CK_SUSPENDED && now >= first->suspension.again)
		return true;
	return choose(p, first, now, &wish, &turn) || turn < INT64_MAX;
}

/* None leaves for it. */
static void refuse_memory_request(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (cks_suspend_takes_turns(p, s))
		cks_suspend_explain(p, s);
	if (u->coming) {
		answer_memory_request(p, s, CK_CONTROL_MADE);
	} else if (u->memory_request == CK_MEMORY_REQUEST_ALONE) {
		answer_memory_request(p, s, CK_CONTROL_ALONE);
	} else {
		answer_memory_request(p, s, CK_CONTROL_NONE);
	}
}

static void serve_memory_request(struct cks_suspender *p, struct cks_session_info *s, int64_t now,
				 int64_t *next)
{
	struct cks_suspension *u = &s->suspension;
	int64_t turn = INT64_MAX;
	bool behind;

	if (!u->coming)
		cks_suspend_line_up(p, s);
	behind = is_behind(p, s, now);
	if (u->coming && p->left != u->left_before && !behind) {
		answer_memory_request(p, s, CK_CONTROL_MADE);
	} else if (behind || cks_suspender_busy(p) || cks_disconnected_ending(p->workers, NULL) ||
		   make_room(p, s, now, &turn)) {
		/* one on its way out brings memory; that which one on its way in found free is not
		 * for others */
		have_it_wait(p, s);
	} else if (turn < INT64_MAX && (cks_suspend_takes_turns(p, s) ||
					now - u->memory_requested_at < 2 * CK_IDLE_MS)) {
		have_it_wait(p, s);
		lower_next(next, turn);
	} else {
		refuse_memory_request(p, s);
	}
}

/* --- all of it */

static void leave_idle(struct cks_suspender *p, struct cks_session_info *s, int64_t now,
		       int64_t *next)
{
	const struct cks_terms *terms = cks_session_terms(s);
	struct cks_suspension *u = &s->suspension;
	int64_t idle_ms = terms->idle >= 0 ? terms->idle * 1000 : p->policy.idle_ms;

	if (idle_ms == 0 || u->state != CK_RUNNING || u->uses == 0)
		return;
	if (now - u->used < idle_ms) {
		lower_next(next, u->used + idle_ms);
	} else if (cks_suspend_fits(p, s->memory)) {
		json_decref(
			cks_suspend(p, s, (struct cks_suspend_wish){.park = s->mps != 0}, NULL));
		u->used = now; /* if this fails, after the same time again */
	} else {
		u->used = now;
	}
}

/* A session that waits to resume has tried since the last one left, and tries again later. */
static void serve_resumer(struct cks_suspender *p, struct cks_session_info *s, int64_t now,
			  int64_t *next)
{
	struct cks_suspension *u = &s->suspension;
	int64_t turn = INT64_MAX;

	if (u->state != CK_SUSPENDED || !u->wanted || u->held || u->no_room == 0 ||
	    now >= u->again || cks_suspender_busy(p) || cks_suspend_first(p, s) != s)
		return;
	u->stuck = !make_room(p, s, now, &turn) && turn == INT64_MAX;
	lower_next(next, turn);
}

int64_t cks_suspend_policy(struct cks_suspender *p)
{
	int64_t now = ck_now_ms(), next = INT64_MAX;
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		leave_idle(p, s, now, &next);
		if (s->suspension.memory_request)
			serve_memory_request(p, s, now, &next);
	}
	while ((s = cks_workers_next(p->workers, s)) != NULL)
		serve_resumer(p, s, now, &next);
	return next;
}
