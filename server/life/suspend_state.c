/*
 * server/life/suspend_state.c - the state of a suspended session, and who hears of it; see
 * suspend_part.h.
 */
#include "server/children/workers.h"
#include "server/helpers/checkpoint.h"
#include "server/life/suspend_part.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

const char *cks_suspension_name(const struct cks_suspension *s)
{
	static const char *const names[] = {
		[CK_RUNNING] = "running",	[CK_PARKING] = "suspending",
		[CK_MOVING_OUT] = "suspending", [CK_SUSPENDED] = "suspended",
		[CK_MOVING_IN] = "resuming",	[CK_RETURNING] = "resuming"};

	return s->state == CK_SUSPENDED && s->parked ? "parked" : names[s->state];
}

uint64_t cks_suspension_away(const struct cks_suspension *s)
{
	switch (s->state) {
	case CK_SUSPENDED:
	case CK_RETURNING:
		return s->parked ? s->away : s->bytes;
	case CK_MOVING_IN:
		return s->bytes;
	case CK_MOVING_OUT:
		return s->away;
	default:
		return 0;
	}
}

void cks_suspension_set(struct cks_session_info *s, int state)
{
	s->suspension.state = state;
	s->suspension.since = ck_now_ms();
}

void cks_suspension_reply(struct cks_suspender *p, struct cks_session_info *s, json_t *answer)
{
	if (s->suspension.asked)
		cks_control_answer(p->control, s->suspension.asker, answer);
	else
		json_decref(answer);
	s->suspension.asked = false;
}

json_t *cks_suspension_report(const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	return json_pack("{s:b, s:s, s:I, s:i, s:o*}", "ok", 1, "session",
			 cks_session_name(s, name), "memory", (json_int_t)u->bytes, "ms",
			 (int)u->ms, "device", u->device < 0 ? NULL : json_integer(u->device));
}

void cks_suspension_tell_others(const struct cks_suspender *p, const struct cks_session_info *s,
				char kind)
{
	struct cks_session_info *other = NULL;

	while ((other = cks_workers_next(p->workers, other)) != NULL) {
		if (other != s)
			cks_workers_send(other, kind);
	}
}

pid_t cks_suspension_move(const struct cks_suspender *p, struct cks_session_info *s, bool out,
			  unsigned int wait_ms)
{
	struct cks_suspension *u = &s->suspension;
	uint32_t seat = 0;
	int account = cks_session_account(s, &seat);
	const struct cks_checkpoint_move move = {
		.worker = s->pid,
		.out = out,
		.wait_ms = wait_ms,
		.bytes = u->bytes,
		.away = u->away_on,
		.need = &u->need,
		.gpus = {.there = u->there, .marks = s->gpus, .goal = u->wish},
		.allowed = cks_session_terms(s)->gpus,
		.anywhere = p->anywhere,
		.account = account,
		.seat = seat};
	pid_t pid = cks_checkpoint_start(p->driver, &move, &u->answer);

	if (pid > 0) {
		u->mover = pid;
		u->state = out ? CK_MOVING_OUT : CK_MOVING_IN;
	}
	return pid;
}

/* The driver cannot bring the session's state back, so it must not go on as if nothing had
 * happened. */
void cks_suspension_lose(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	char name[CK_SESSION_NAME];

	ck_err("session %s is lost: %s", cks_session_name(s, name), why);
	cks_suspension_reply(p, s, cks_control_error("%s is lost: %s", name, why));
	snprintf(s->cause, sizeof(s->cause), "its GPU memory could not be moved back");
	if (!cks_workers_send_line(s, "the driver could not move its memory back to the GPU", true))
		cks_workers_kill(s);
	cks_suspension_set(s, CK_SUSPENDED);
	s->suspension.held = true;
}
