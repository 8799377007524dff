/*
 * server/life/suspend_leave.c - how a session leaves the GPU; see suspend_part.h.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/helpers/checkpoint.h"
#include "server/life/suspend_part.h"
#include "server/processes/messages.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_LATE_MS 5000	 /* for the answer of a worker, beside its own wait */
#define CK_ROUNDS 16	 /* so much longer may it take with rounds beside the program */
#define CK_SLOW_SHIFT 20 /* a worker moves at least 1 MiB in a millisecond */

static void report_failure(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	char name[CK_SESSION_NAME];

	snprintf(s->suspension.why, sizeof(s->suspension.why), "%s", why);
	ck_info("session %s is not suspended: %s", cks_session_name(s, name), why);
	cks_suspension_reply(p, s, cks_control_error("%s cannot be suspended: %s", name, why));
}

/* The session goes on, because it could not be suspended: @why. */
static void release_session(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	struct cks_suspension *u = &s->suspension;

	report_failure(p, s, why);
	if (u->parked) { /* it was before */
		u->state = CK_SUSPENDED;
		u->again = 0;
		return;
	}
	u->held = false;
	if (u->away > 0) {
		cks_suspension_return(p, s);
		return;
	}
	cks_workers_unpark(s, 0, 0);
	cks_suspension_run(s);
}

/* The session has left the GPU, or its part that moves fast. */
static void finish_leave(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	u->device = -1;
	u->spared = 0;
	u->out_ms = ck_max(u->ms, 1u);
	/* its thread has stopped to wait for memory, and asks again when it is back */
	u->memory_request = CK_NO_MEMORY_REQUEST;
	u->coming = false;
	cks_suspension_set(s, CK_SUSPENDED);
	p->suspends++;
	cks_suspend_left(p, s);
	ck_info("session %s is %s: %llu MiB moved out of GPU memory in %u ms",
		cks_session_name(s, name), cks_suspension_name(u),
		(unsigned long long)(u->parked ? u->away : u->bytes) >> 20, u->ms);
	cks_suspension_reply(p, s, cks_suspension_report(s));
}

static void move_out(struct cks_suspender *p, struct cks_session_info *s)
{
	pid_t pid = cks_suspension_move(p, s, true, p->wait_ms);

	if (pid <= 0)
		release_session(p, s, strerror((int)-pid));
}

/* The process that moved it was killed, and may have locked it, or moved it: another one finds out
 * on the way back. */
static void bring_back(struct cks_suspender *p, struct cks_session_info *s, const char *why)
{
	struct cks_suspension *u = &s->suspension;
	bool stays = u->parked;

	report_failure(p, s, why);
	u->parked = false;
	u->need.count = 0;
	u->again = 0;
	cks_suspension_set(s, CK_SUSPENDED);
	if (stays)
		return;
	u->held = false;
	u->wanted = true;
	cks_suspension_resume(p, s);
}

int64_t cks_suspension_late_ms(const struct cks_suspender *p, const struct cks_session_info *s)
{
	const struct cks_suspension *u = &s->suspension;

	return u->since + p->wait_ms + CK_LATE_MS +
	       (int64_t)((s->memory >> CK_SLOW_SHIFT) * (u->saves ? CK_ROUNDS : 1));
}

void cks_suspension_parked(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;

	if (u->leaving > 0 && u->to_park && !u->offered) {
		u->offered = true;
		cks_suspend_offer(p, s);
	}
	if (u->said.kind == CK_NOTE_PARKED) {
		u->bytes = u->said.number;
		u->away = u->said.away;
		memcpy(u->away_on, u->said.away_on, sizeof(u->away_on));
		u->ms = u->said.move_ms;
		/* without memory that its worker can move, only the driver frees some */
		u->parked |= u->to_park && (u->away > 0 || u->bytes == 0 || s->mps);
		if (u->to_park && u->parked)
			finish_leave(p, s);
		else
			move_out(p, s);
	} else if (u->said.kind == CK_NOTE_BUSY) {
		u->said.text[CK_NOTE_TEXT - 1] = '\0';
		release_session(p, s, u->said.text);
	} else if (ck_now_ms() > cks_suspension_late_ms(p, s)) {
		release_session(p, s, "its worker does not answer");
	}
}

void cks_suspension_moved_out(struct cks_suspender *p, struct cks_session_info *s)
{
	struct cks_checkpoint_answer a;

	cks_checkpoint_read(s->suspension.answer, &a);
	close(s->suspension.answer);
	if (a.status == CK_CHECKPOINT_LOST) {
		cks_suspension_lose(p, s, a.why);
	} else if (a.status == CK_CHECKPOINT_KILLED) {
		bring_back(p, s, a.why);
	} else if (a.status != CK_CHECKPOINT_DONE) {
		release_session(p, s, a.why);
	} else {
		s->suspension.need = a.need;
		s->suspension.parked = false;
		s->suspension.ms += a.ms;
		finish_leave(p, s);
	}
}
