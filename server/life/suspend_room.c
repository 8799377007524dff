/*
 * server/life/suspend_room.c - host memory for sessions that leave the GPU; see suspend.h.
 */
#include "server/children/workers.h"
#include "server/life/suspend.h"
#include "server/processes/session_info.h"
#include "util/process/available_memory.h"
#include "util/util.h"

bool cks_suspend_fits(const struct cks_suspender *p, uint64_t bytes)
{
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL)
		bytes += s->suspension.bytes;
	return bytes <= p->policy.most;
}

/* A quarter of the available memory stays for others. */
uint64_t cks_suspend_room(const struct cks_suspender *p, const struct cks_session_info *session)
{
	uint64_t available = ck_available_memory(), used = 0;
	struct cks_session_info *s = NULL;

	while ((s = cks_workers_next(p->workers, s)) != NULL)
		used += s == session ? 0 : ck_max(s->pool, s->suspension.away);
	return ck_min(p->policy.pools - ck_min(p->policy.pools, used),
		      session->pool + available / 4 * 3);
}
