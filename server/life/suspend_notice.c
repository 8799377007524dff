/*
 * server/life/suspend_notice.c - tells the user of a program that its session is suspended, and
 * that it is back; see suspend.h.
 *
 * Only where the program stands still for it: a session that left the GPU while it was idle, and
 * returns at its next call, is not worth a line.
 */
#include <stdio.h>

#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "util/until.h"
#include "util/util.h"

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
