/*
 * server/life/suspend_begin.c - commands and policies have a session suspended, or resumed; see
 * suspend.h.
 */
#include <stdio.h>
#include <string.h>

#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/until.h"

static void record_asker(struct cks_session_info *s, const struct cks_asker *asker)
{
	s->suspension.asked = asker != NULL;
	if (asker)
		s->suspension.asker = *asker;
}

/* It is parked: nothing is left to do for its worker. Its program may be waiting, and knocks only
 * once. */
static void leave_altogether(struct cks_suspender *p, struct cks_session_info *s, bool held)
{
	struct cks_suspension *u = &s->suspension;

	u->said.kind = CK_NOTE_PARKED;
	u->said.number = u->bytes;
	u->said.away = u->away;
	memcpy(u->said.away_on, u->away_on, sizeof(u->away_on));
	u->said.move_ms = 0;
	u->to_park = false;
	u->held = held;
	u->state = CK_PARKING;
	u->since = ck_now_ms();
	cks_workers_mark_changed(p->workers);
}

json_t *cks_suspend(struct cks_suspender *p, struct cks_session_info *s,
		    struct cks_suspend_wish wish, const struct cks_asker *asker)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	cks_session_name(s, name);
	if (s->mps && !wish.park)
		return cks_control_error("%s cannot be suspended or written into files: NVIDIA's "
					 "driver does not support that for processes of MPS (share "
					 "= \"mps\"); it can be parked",
					 name);
	if (u->state == CK_SUSPENDED && u->parked && !wish.park) {
		record_asker(s, asker);
		leave_altogether(p, s, wish.held);
		return NULL;
	}
	if (u->state != CK_RUNNING)
		return cks_control_error("%s is %s already", name, cks_suspension_name(u));
	if (!cks_suspend_fits(p, s->memory))
		return cks_control_error("%s cannot be suspended: there is not enough host memory "
					 "(--suspend-memory)",
					 name);
	u->said.kind = CK_NOTE_STANDBY;
	if (!cks_workers_park(s, cks_suspend_room(p, s), wish.saves, 2 * wish.again_s))
		return cks_control_error("%s is ending: its worker does not respond", name);
	u->held = wish.held;
	u->to_park = wish.park;
	u->saves = wish.saves;
	u->parked = false;
	u->away = u->leaving = 0;
	u->offered = false;
	u->wanted = false;
	u->no_room = 0;
	u->again = 0;
	u->bytes = s->memory;
	record_asker(s, asker);
	cks_workers_mark_changed(p->workers);
	u->state = CK_PARKING;
	u->since = ck_now_ms();
	return NULL;
}

json_t *cks_resume(struct cks_suspender *p, struct cks_session_info *s, const char *device,
		   const struct cks_asker *asker)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	cks_session_name(s, name);
	if (u->state != CK_SUSPENDED)
		return cks_control_error("%s is %s", name, cks_suspension_name(u));
	if (device && u->parked)
		return cks_control_error("%s is parked, so its contexts stay on their GPU: suspend "
					 "it first",
					 name);
	if (device && strlen(device) >= sizeof(u->wish))
		return cks_control_error("the list of devices is too long");
	snprintf(u->wish, sizeof(u->wish), "%s", device ? device : "");
	u->was_held = u->held;
	u->was_wanted = u->wanted;
	u->held = false;
	u->wanted = true;
	u->again = 0;
	record_asker(s, asker);
	cks_workers_mark_changed(p->workers);
	return NULL;
}
