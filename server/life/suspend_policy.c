/*
 * server/life/suspend_policy.c - which sessions leave the GPU without a command.
 *
 * A session that has not used the GPU for --suspend-idle leaves it. One that finds no memory, to
 * allocate or to resume, has another one leave: with --suspend-for-others the one that has been
 * idle longest, and with --quantum, if none is idle, the one that has run longest, after that time.
 * It parks, and leaves altogether if that was not enough and no other can leave. Sessions that wait
 * for room to resume have turns in the order in which they left.
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

#define CK_IDLE_MS 3000	     /* workers report their use with some delay */
#define CK_SPARE_MS 10000    /* one that could not be suspended is left alone so long */
#define CK_HEAD_START_MS 500 /* of the session that another one has left for */

void cks_suspend_policy_init(struct cks_suspend_policy *y, const struct cks_options *options)
{
	y->idle_ms = (int64_t)options->limits.value[CK_LIMIT_IDLE] * 1000;
	y->quantum_ms = (int64_t)options->limits.value[CK_LIMIT_QUANTUM] * 1000;
	y->most = options->limits.value[CK_LIMIT_SUSPENDED];
	y->pools = options->limits.value[CK_LIMIT_PARKED];
	y->for_others = options->suspend_for_others;
}

static bool makes_room(const struct cks_suspend_policy *y)
{
	return y->for_others || y->quantum_ms > 0;
}

static void lower_next(int64_t *next, int64_t time)
{
	*next = ck_min(*next, time);
}

/* --- a session that leaves for another */

static bool may_leave(const struct cks_suspender *p, const struct cks_session_info *s, int64_t now)
{
	const struct cks_suspension *u = &s->suspension;

	return u->state == CK_RUNNING && !u->memory_request && now >= u->spared &&
	       cks_suspend_fits(p, s->memory);
}

static int32_t priority_of(const struct cks_session_info *s)
{
	return cks_session_terms(s)->priority;
}

/* Does @a, of time @a_time, leave before @b? The lowest priority leaves first; among equals, the
 * one that has been resident longest. */
static bool is_before(const struct cks_session_info *a, int64_t a_time,
		      const struct cks_session_info *b, int64_t b_time)
{
	if (priority_of(a) != priority_of(b))
		return priority_of(a) < priority_of(b);
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
		    !may_leave(p, s, now))
			continue;
		if (!oldest || s->cut.since < oldest->cut.since)
			oldest = s;
	}
	return oldest;
}

/* Which session should leave for @guest; NULL: none yet, lowers *@next to when one may. */
static struct cks_session_info *choose_session(const struct cks_suspender *p,
					       const struct cks_session_info *guest, int64_t now,
					       int64_t *next)
{
	struct cks_session_info *s = NULL, *idle = NULL, *active = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		const struct cks_suspension *u = &s->suspension;

		if (s == guest || !may_leave(p, s, now) || priority_of(s) > priority_of(guest))
			continue;
		if (now - u->used >= CK_IDLE_MS) {
			if (u->uses == 0)
				continue; /* it has nothing on the GPU */
			if (!idle || is_before(s, u->used, idle, idle->suspension.used))
				idle = s;
		} else if (p->policy.quantum_ms > 0 && now - u->since >= p->policy.quantum_ms) {
			if (!active || is_before(s, u->since, active, active->suspension.since))
				active = s;
		} else {
			lower_next(next, u->used + CK_IDLE_MS);
			if (p->policy.quantum_ms > 0)
				lower_next(next, u->since + p->policy.quantum_ms);
		}
	}
	return idle ? idle : active;
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
		    now < u->spared)
			continue;
		if (!best || u->wanted < best->suspension.wanted ||
		    (u->wanted == best->suspension.wanted && u->since < best->suspension.since))
			best = s;
	}
	return best;
}

/* Have one leave for @guest. False: none can, nor will be able to before *@next. Kept sessions
 * always make room: if they cannot be suspended, one that the guest has probably come to replace
 * ends. */
static bool make_room(struct cks_suspender *p, const struct cks_session_info *guest, int64_t now,
		      int64_t *next)
{
	struct cks_session_info *s;
	char name[CK_SESSION_NAME], other[CK_SESSION_NAME];
	/* a parked session cannot return to another GPU */
	struct cks_suspend_wish wish = {.park = !p->anywhere};
	json_t *error;

	s = choose_kept(p, guest, now);
	if (!s && cks_disconnected_give_way(p->workers, guest))
		return true;
	if (!s && makes_room(&p->policy))
		s = choose_session(p, guest, now, next);
	if (!s && (s = choose_parked(p, guest, now)) != NULL)
		wish = (struct cks_suspend_wish){.held = s->suspension.held};
	if (!s)
		return false;
	ck_info("session %s leaves the GPU for %s", cks_session_name(s, name),
		cks_session_name(guest, other));
	wish.park |= s->mps != 0;
	error = cks_suspend(p, s, wish, NULL);
	json_decref(error);
	s->suspension.spared = now + CK_SPARE_MS; /* if this fails */
	s->suspension.again = INT64_MAX;	  /* see left() */
	return !error;
}

/* --- sessions that allocate */

/* The last word to the worker about its wish for memory. */
static void answer_memory_request(struct cks_suspender *p, struct cks_session_info *s, char kind)
{
	cks_workers_send(s, kind);
	if (kind == CK_CONTROL_MADE)
		p->granted = ck_now_ms() + CK_HEAD_START_MS;
	s->suspension.memory_request = CK_NO_MEMORY_REQUEST;
	s->suspension.coming = false;
	s->suspension.since = ck_now_ms(); /* its turn begins now */
}

static void have_it_wait(const struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->coming)
		return;
	u->coming = true;
	u->left_before = p->left;
	cks_workers_send(s, CK_CONTROL_COMING);
}

static void serve_memory_request(struct cks_suspender *p, struct cks_session_info *s, int64_t now,
				 int64_t *next)
{
	struct cks_suspension *u = &s->suspension;
	int64_t turn = INT64_MAX;

	if (u->coming && p->left != u->left_before) {
		answer_memory_request(p, s, CK_CONTROL_MADE);
	} else if (cks_suspender_busy(p) || cks_disconnected_ending(p->workers, NULL) ||
		   make_room(p, s, now, &turn)) {
		/* one on its way out brings memory; that which one on its way in found free is not
		 * for others */
		have_it_wait(p, s);
	} else if (turn < INT64_MAX &&
		   (p->policy.quantum_ms > 0 || now - u->memory_requested_at < 2 * CK_IDLE_MS)) {
		have_it_wait(p, s);
		lower_next(next, turn);
	} else if (u->coming) {
		answer_memory_request(p, s, CK_CONTROL_MADE);
	} else if (u->memory_request == CK_MEMORY_REQUEST_ALONE) {
		answer_memory_request(p, s, CK_CONTROL_ALONE);
	} else {
		/* it waits a moment for memory that others return */
		u->memory_request = CK_NO_MEMORY_REQUEST;
	}
}

/* --- sessions that resume */

/* The session whose turn it is to find room. */
static struct cks_session_info *first_in_line(const struct cks_suspender *p)
{
	struct cks_session_info *s = NULL, *first = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		const struct cks_suspension *u = &s->suspension;

		if (u->state == CK_SUSPENDED && u->wanted && !u->held && u->no_room &&
		    (!first || u->since < first->suspension.since))
			first = s;
	}
	return first;
}

/* Is a session blocked in an allocation? Such sessions are resumed first: others have had their
 * turn. */
static bool one_allocates(const struct cks_suspender *p)
{
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		if (s->suspension.coming)
			return true;
	}
	return false;
}

/* Is one on its way in? The next one cannot know what it leaves free. */
static bool one_returns(const struct cks_suspender *p)
{
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		if (s->suspension.state == CK_MOVING_IN || s->suspension.state == CK_RETURNING)
			return true;
	}
	return false;
}

int64_t cks_suspend_turn(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_session_info *first;

	if (one_returns(p))
		return INT64_MAX;
	if (!makes_room(&p->policy) || s->suspension.asked) /* a command comes first */
		return ck_max(s->suspension.again, p->pause);
	first = first_in_line(p);
	if ((first && first != s) || one_allocates(p))
		return INT64_MAX;
	return ck_max(s->suspension.again, p->granted);
}

void cks_suspend_left(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_session_info *first;

	p->left++;
	if (s->suspension.again == INT64_MAX)
		s->suspension.again = ck_now_ms() + CK_HEAD_START_MS;
	first = first_in_line(p);
	if (first)
		first->suspension.again = 0;
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

int64_t cks_suspend_policy(struct cks_suspender *p)
{
	int64_t now = ck_now_ms(), next = INT64_MAX;
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		leave_idle(p, s, now, &next);
		if (s->suspension.memory_request)
			serve_memory_request(p, s, now, &next);
	}
	s = first_in_line(p);
	/* it has tried since the last one left, and waits to try again */
	if (s && now < s->suspension.again && !cks_suspender_busy(p) && !one_allocates(p))
		make_room(p, s, now, &next);
	return next;
}
