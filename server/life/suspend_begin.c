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

json_t *cks_suspend(struct cks_suspender *p, struct cks_session_info *s, bool held,
		    const struct cks_asker *asker)
{
	struct cks_suspension *u = &s->suspension;
	char name[CK_SESSION_NAME];

	cks_session_name(s, name);
	if (u->state != CK_RUNNING)
		return cks_control_error("%s is %s already", name, cks_suspension_name(u));
	if (!cks_suspend_fits(p, s->memory))
		return cks_control_error("%s cannot be suspended: there is not enough host memory "
					 "(--suspend-memory)",
					 name);
	u->said.kind = CK_NOTE_STANDBY;
	if (!cks_workers_send(s, CK_CONTROL_PARK))
		return cks_control_error("%s is ending: its worker does not respond", name);
	u->held = held;
	u->wanted = false;
	u->no_room = false;
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
