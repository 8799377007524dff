/*
 * server/life/suspend_turns.c - sessions that take turns in the memory of a GPU; see suspend.h.
 *
 * A turn lasts so long that moving its session out and in takes little beside it. Of the sessions
 * that wait for memory, the next is one of the highest priority that has had least of the GPU. The
 * time of a session's moves counts too. So one that works rarely and briefly goes before those that
 * always work, and cannot keep them away: a session that has not worked for a long time saves the
 * time of one turn at most. This is start-time fair queueing (server/rules/fair_share.h).
 */
#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "server/processes/session_info.h"
#include "util/until.h"
#include "util/util.h"

#define CK_TURN_MS 2000 /* the shortest turn, without --quantum */
#define CK_TURN_MOVES 6 /* a turn is as long as so many moves out and in: they take 1/7 */
#define CK_MOVE_MIB 16	/* move in a millisecond, until that is measured */

/* --- turns */

int32_t cks_suspend_priority(const struct cks_session_info *s)
{
	return cks_session_terms(s)->priority;
}

bool cks_suspend_takes_turns(const struct cks_suspender *p, const struct cks_session_info *s)
{
	return p->policy.quantum_ms > 0 || cks_session_terms(s)->overcommit;
}

/* Of the session's way out and back. */
static int64_t cost_ms(const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	int64_t guess = (int64_t)(s->memory >> 20) / CK_MOVE_MIB;

	return (u->out_ms ? (int64_t)u->out_ms : guess) + (u->in_ms ? (int64_t)u->in_ms : guess);
}

int64_t cks_suspend_turn_ms(const struct cks_suspender *p, const struct cks_session_info *s,
			    const struct cks_session_info *guest)
{
	int64_t least = p->policy.quantum_ms > 0 ? p->policy.quantum_ms : CK_TURN_MS;

	if (cks_suspend_priority(guest) > cks_suspend_priority(s))
		return least;
	return ck_max(least, CK_TURN_MOVES * cost_ms(s));
}

/* How long it has used its turn, in ms. */
static int64_t used_until(const struct cks_suspension *u, int64_t now)
{
	return ck_max(ck_min(now, u->used + CK_IDLE_MS) - u->since, (int64_t)0);
}

void cks_suspend_begin_turn(struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->memory_request) /* it has worked before it asked for more */
		u->served += used_until(u, u->memory_requested_at);
	u->since = ck_now_ms();
	u->begun = u->served;
}

void cks_suspend_charge(struct cks_session_info *s, int64_t now)
{
	s->suspension.served += used_until(&s->suspension, now) + cost_ms(s);
}

/* --- those that wait */

bool cks_suspend_same_gpu(const struct cks_session_info *a, const struct cks_session_info *b)
{
	if (!a->gpus[0] || !b->gpus[0]) /* it has no context yet, and may make one anywhere */
		return true;
	for (size_t i = 0; i < CK_NOTE_GPUS && a->gpus[i]; i++) {
		for (size_t k = 0; k < CK_NOTE_GPUS && b->gpus[k]; k++) {
			if (a->gpus[i] == b->gpus[k])
				return true;
		}
	}
	return false;
}

void cks_suspend_line_up(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_session_info *other = NULL;

	while ((other = cks_workers_next(p->workers, other)) != NULL) {
		int64_t least = other->suspension.begun - cks_suspend_turn_ms(p, other, s);

		if (other != s && cks_suspend_same_gpu(s, other))
			s->suspension.served = ck_max(s->suspension.served, least);
	}
}

/* One that must not try again yet, for another reason than room, keeps no other away; neither does
 * one for which none can make room. */
static bool waits(const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	bool lines_up = u->no_room > 0 && !u->stuck;

	return u->memory_request || (u->state == CK_SUSPENDED && u->wanted && !u->held &&
				     (lines_up || ck_now_ms() >= u->again));
}

static bool makes_room(const struct cks_suspender *p, const struct cks_session_info *s)
{
	return p->policy.for_others || cks_suspend_takes_turns(p, s);
}

static int64_t waits_since(const struct cks_suspension *u)
{
	return u->memory_request ? u->memory_requested_at : u->since;
}

bool cks_suspend_before(const struct cks_suspender *p, const struct cks_session_info *a,
			const struct cks_session_info *b)
{
	const struct cks_suspension *u = &a->suspension, *v = &b->suspension;

	if (makes_room(p, a) != makes_room(p, b))
		return makes_room(p, a);
	if (cks_suspend_priority(a) != cks_suspend_priority(b))
		return cks_suspend_priority(a) > cks_suspend_priority(b);
	if (u->served != v->served)
		return u->served < v->served;
	if (!u->memory_request != !v->memory_request) /* those that resume have had a turn */
		return u->memory_request;
	if (waits_since(u) != waits_since(v))
		return waits_since(u) < waits_since(v);
	return a->pid < b->pid; /* in the same millisecond: one of two leaves for the other */
}

struct cks_session_info *cks_suspend_first(const struct cks_suspender *p,
					   const struct cks_session_info *with)
{
	struct cks_session_info *s = NULL, *first = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		if (waits(s) && cks_suspend_same_gpu(s, with) &&
		    (!first || cks_suspend_before(p, s, first)))
			first = s;
	}
	return first;
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
	if (!makes_room(p, s) || s->suspension.asked) /* a command comes first */
		return ck_max(s->suspension.again, p->pause);
	first = cks_suspend_first(p, s);
	if (first && first != s)
		return INT64_MAX;
	return ck_max(s->suspension.again, p->granted);
}

static void let_first_try(const struct cks_suspender *p, const struct cks_session_info *s,
			  bool parked)
{
	struct cks_session_info *first = cks_suspend_first(p, s);

	if (first && first != s && first->suspension.state == CK_SUSPENDED &&
	    (first->suspension.parked || !parked))
		first->suspension.again = 0;
}

void cks_suspend_freed(struct cks_suspender *p, const struct cks_session_info *s)
{
	p->left++;
	let_first_try(p, s, false);
}

/* The driver does not wait for room: only a parked one can take it piece by piece. */
void cks_suspend_offer(const struct cks_suspender *p, const struct cks_session_info *s)
{
	let_first_try(p, s, true);
}

void cks_suspend_left(struct cks_suspender *p, struct cks_session_info *s)
{
	if (s->suspension.again == INT64_MAX)
		s->suspension.again = ck_now_ms() + CK_HEAD_START_MS;
	cks_suspend_freed(p, s);
}
