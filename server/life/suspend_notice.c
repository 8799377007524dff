/*
 * server/life/suspend_notice.c - tells the user of a program that its session is suspended, that it
 * is back, and why none leaves for it; see suspend.h.
 *
 * Only where the program stands still for it: a session that left the GPU while it was idle, and
 * returns at its next call, is not worth a line.
 */
#include <stdio.h>

#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_TELL_MS 1000 /* a shorter stop is not worth a line */

static bool stands_still(const struct cks_suspension *u)
{
	return u->state != CK_RUNNING && (u->held || u->wanted);
}

static void tell_stop(struct cks_session_info *s)
{
	s->suspension.told = cks_workers_send_line(
		s,
		s->suspension.held ? "the session is suspended: CUDA calls wait until it is resumed"
				   : "the session is suspended: CUDA calls wait for GPU memory "
				     "that others use",
		false);
}

static void tell_return(struct cks_session_info *s, int64_t now)
{
	char line[CK_NOTE_TEXT];

	snprintf(line, sizeof(line), "the session is resumed after %lld s",
		 (long long)(now - s->suspension.stopped + 500) / 1000);
	cks_workers_send_line(s, line, false);
	s->suspension.told = false;
}

void cks_suspend_quiet(struct cks_session_info *s, int64_t ms)
{
	s->suspension.stopped = ck_now_ms() + ms;
}

int64_t cks_suspend_notice(struct cks_session_info *s)
{
	struct cks_suspension *u = &s->suspension;
	int64_t now = ck_now_ms();

	if (!stands_still(u)) {
		if (u->told)
			tell_return(s, now);
		u->stopped = 0;
		return INT64_MAX;
	}
	if (u->stopped == 0)
		u->stopped = now;
	if (u->told)
		return INT64_MAX;
	if (now < u->stopped + CK_TELL_MS)
		return u->stopped + CK_TELL_MS;
	tell_stop(s);
	return u->told ? INT64_MAX : now + CK_TELL_MS;
}

/* Why does @s, which has memory of its GPU, not leave for @guest? NULL: it has none, or leaves. */
static const char *find_obstacle(const struct cks_suspender *p, const struct cks_session_info *s,
				 const struct cks_session_info *guest)
{
	const struct cks_suspension *u = &s->suspension;

	if (u->state != CK_RUNNING || s->memory == 0 || !cks_suspend_same_gpu(s, guest))
		return NULL;
	if (!cks_suspend_takes_turns(p, s))
		return "it takes no turns (memory_overcommit)";
	if (!cks_suspend_fits(p, s->memory))
		return "not enough host memory (--suspend-memory)";
	return ck_now_ms() < u->spared && u->why[0] ? u->why : NULL;
}

void cks_suspend_explain(const struct cks_suspender *p, struct cks_session_info *guest)
{
	char line[CK_NOTE_TEXT], name[CK_SESSION_NAME], other[CK_SESSION_NAME];
	struct cks_session_info *s = NULL;
	const char *why = NULL;

	while (!why && (s = cks_workers_next(p->workers, s)) != NULL)
		why = s == guest ? NULL : find_obstacle(p, s, guest);
	if (why)
		ck_debug("session %s gets no memory: session %s cannot be parked: %s",
			 cks_session_name(guest, name), cks_session_name(s, other), why);
	if (why)
		snprintf(line, sizeof(line), "no GPU memory: a session cannot be parked: %.52s",
			 why);
	else
		snprintf(line, sizeof(line), "no GPU memory: no other session could be parked");
	cks_workers_send_refusal(guest, line);
}
