/*
 * server/life/suspend.c - takes each suspended session as far as it can get; see suspend.h.
 */
#include <stdlib.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "server/life/suspend_part.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/until.h"
#include "util/util.h"

struct cks_suspender *cks_suspender_create(const struct cks_options *options, const char *driver,
					   struct cks_workers *workers, struct cks_control *control)
{
	struct cks_suspender *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->driver = driver;
	p->wait_ms = (unsigned int)(options->limits.value[CK_LIMIT_PARK] * 1000);
	p->anywhere = options->resume_anywhere;
	p->workers = workers;
	p->control = control;
	cks_suspend_policy_init(&p->policy, options);
	return p;
}

void cks_suspender_destroy(struct cks_suspender *p)
{
	free(p);
}

static void advance_session(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	switch (u->state) {
	case CK_RUNNING:
		cks_suspension_late_note(p, s);
		break;
	case CK_PARKING:
		cks_suspension_parked(p, s);
		break;
	case CK_MOVING_OUT:
		if (u->mover == 0)
			cks_suspension_moved_out(p, s);
		break;
	case CK_MOVING_IN:
		if (u->mover == 0)
			cks_suspension_moved_in(p, s);
		break;
	case CK_SUSPENDED:
		if (u->wanted && !u->held && !s->pool_sent && ck_now_ms() >= cks_suspend_turn(p, s))
			cks_suspension_resume(p, s);
		break;
	case CK_RETURNING:
		cks_suspension_returned(p, s);
		break;
	}
}

/* When to look at the session again without being told; INT64_MAX: never. */
static int64_t next_look(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;

	if (u->state == CK_PARKING)
		return cks_suspension_late_ms(p, s) + 1;
	return u->state == CK_SUSPENDED && u->wanted && !u->held && !s->pool_sent
		       ? cks_suspend_turn(p, s)
		       : INT64_MAX;
}

/* Is the session where it stays until it, a command or the time changes that? */
static bool is_at_rest(const struct cks_suspension *u)
{
	return !u->memory_request && !u->coming && u->said.kind == CK_NOTE_STANDBY &&
	       (u->state == CK_RUNNING || (u->state == CK_SUSPENDED && !u->wanted));
}

/* Look at all sessions; the time of the next look. */
static int64_t look_at_all(struct cks_suspender *p)
{
	struct cks_session_info *s = NULL;
	bool rest = true;
	int64_t next;

	while ((s = cks_workers_next(p->workers, s)) != NULL)
		advance_session(p, s);
	next = cks_suspend_policy(p);
	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		next = ck_min(next, ck_min(next_look(p, s), cks_suspend_notice(s)));
		rest &= is_at_rest(&s->suspension);
	}
	if (!rest)
		cks_workers_mark_changed(p->workers); /* again, after each event */
	return next;
}

void cks_suspender_run(struct cks_suspender *p, int *timeout_ms)
{
	if (cks_workers_take_changed(p->workers) || ck_now_ms() >= p->due)
		p->due = look_at_all(p);
	if (p->due < INT64_MAX)
		ck_poll_sooner(timeout_ms, ck_max(p->due - ck_now_ms(), (int64_t)0));
}

bool cks_suspender_busy(const struct cks_suspender *p)
{
	for (struct cks_session_info *s = NULL; (s = cks_workers_next(p->workers, s)) != NULL;) {
		if (s->suspension.state != CK_RUNNING && s->suspension.state != CK_SUSPENDED)
			return true;
	}
	return false;
}

bool cks_suspender_ended(struct cks_suspender *p, pid_t pid)
{
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL) {
		struct cks_suspension *u = &s->suspension;
		bool moves = u->state == CK_MOVING_OUT || u->state == CK_MOVING_IN;

		if (moves && u->mover == pid) {
			u->mover = 0;
			cks_workers_mark_changed(p->workers);
			return true;
		}
		if (cks_session_child(s) != pid)
			continue;
		if (moves || u->state == CK_RETURNING)
			cks_suspension_tell_others(p, s, CK_CONTROL_THAW);
		if (moves)
			close(u->answer);
		cks_suspension_reply(p, s, cks_control_error("the session has ended"));
		cks_suspend_freed(p, s);
		cks_workers_mark_changed(p->workers);
		return false;
	}
	return false;
}
