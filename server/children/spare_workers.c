/*
 * server/children/spare_workers.c - decide when to start spare workers, and when they make
 * contexts: at server start, a while after one was taken, and with growing delays after failures.
 *
 * One thing at a time, because loading a driver and making a context take locks that all processes
 * share. Standby workers have no context. The next workers with contexts are made of them, and they
 * keep the driver's state of the GPUs, which takes 0.1 s to set up, alive between programs.
 */
#include <errno.h>
#include <string.h>

#include "server/children/spare_workers.h"
#include "server/children/workers.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_TAKEN_MS 1000  /* so that a new session does not compete with the next spare */
#define CK_FAILED_MS 1000 /* after a failure; doubled after each further one */
#define CK_FAILED_MAX 300000
#define CK_WARMING_MS 60000 /* waking GPUs takes the driver seconds */

/* Handle spares that were taken or lost since the last call. */
static void update_counts(struct cks_spare_workers *s, const struct cks_spare_counts *counts,
			  int64_t now)
{
	if (counts->lost != s->lost) {
		s->due = now + ck_min((int64_t)CK_FAILED_MS << ck_min(s->failures, 10u),
				      (int64_t)CK_FAILED_MAX);
		s->failures++;
		ck_info("a spare worker has ended: the next in %lld s",
			(long long)(s->due - now) / 1000);
	}
	if (counts->taken != s->taken) {
		s->warm_due = now + CK_TAKEN_MS;
		s->failures = 0;
	}
	s->lost = counts->lost;
	s->taken = counts->taken;
}

/* Start a spare, or contexts in one; returns the milliseconds until the next call. */
static int start_spare(struct cks_spare_workers *s, struct cks_workers *workers, bool contexts,
		       int64_t now)
{
	int ret = contexts ? cks_workers_warm(workers) : cks_workers_spare(workers);

	if (ret == 0)
		return 1000;
	ck_err("starting a spare worker: %s", strerror(-ret));
	s->due = now + CK_FAILED_MAX;
	return CK_FAILED_MAX;
}

int cks_spare_workers_run(struct cks_spare_workers *s, struct cks_workers *workers)
{
	const struct cks_spare_counts *counts = cks_workers_spares(workers);
	int64_t now = ck_now_ms(), later = -1;
	unsigned int wanted = s->standby;

	if (s->warm + s->standby == 0)
		return -1;
	update_counts(s, counts, now);
	if (counts->starting + counts->warming > 0) {
		cks_workers_expire(workers, now - CK_WARMING_MS);
		return 1000;
	}
	if (now < s->due)
		return (int)(s->due - now);
	if (counts->ready < s->warm && now >= s->warm_due) {
		if (counts->standby > 0)
			return start_spare(s, workers, true, now);
		wanted = ck_max(wanted, 1u); /* it will make contexts */
	} else if (counts->ready < s->warm) {
		later = s->warm_due - now;
	}
	return counts->standby < wanted ? start_spare(s, workers, false, now) : (int)later;
}
