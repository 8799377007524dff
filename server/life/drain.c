/*
 * server/life/drain.c - the end of the server without an end of running programs.
 */
#include <stdio.h>

#include "server/children/deadlines.h"
#include "server/children/workers.h"
#include "server/life/drain.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_WARN_MS 300000

void cks_drain_begin(struct cks_drain *drain, const struct cks_workers *workers, uint64_t seconds)
{
	size_t count = cks_workers_serving(workers);

	drain->by = ck_now_ms() + (int64_t)seconds * 1000;
	ck_info("stopping when %zu running program%s ended, in %llu s at most (--drain)", count,
		count == 1 ? " has" : "s have", (unsigned long long)seconds);
}

void cks_drain_resume(struct cks_drain *drain, struct cks_workers *workers, int64_t by)
{
	struct cks_session_info *s = NULL;

	drain->by = by;
	while (by && (s = cks_workers_next(workers, s)) != NULL)
		s->drain_told = CK_DRAIN_BEGUN;
}

/* A session may report that it exists after the drain has begun. */
static void warn_sessions(struct cks_workers *workers, int64_t left, enum cks_drain_told told)
{
	char line[CK_NOTE_TEXT], time[CK_TIME_TEXT];
	struct cks_session_info *s = NULL;

	snprintf(line, sizeof(line), "the session ends in %s at most: the server stops (drain)",
		 cks_print_time((uint64_t)(left + 999) / 1000, time));
	while ((s = cks_workers_next(workers, s)) != NULL) {
		if (s->drain_told >= told)
			continue;
		s->drain_told = told;
		cks_workers_send_line(s, line, false);
	}
}

int64_t cks_drain_run(const struct cks_drain *drain, struct cks_workers *workers)
{
	int64_t left = ck_max(drain->by - ck_now_ms(), (int64_t)0);
	bool near = left <= CK_WARN_MS;

	if (!drain->by)
		return -1;
	warn_sessions(workers, left, near ? CK_DRAIN_NEAR : CK_DRAIN_BEGUN);
	return near ? left : left - CK_WARN_MS;
}

bool cks_drain_over(const struct cks_drain *drain, const struct cks_workers *workers)
{
	size_t left = cks_workers_serving(workers);

	if (!drain->by || (left > 0 && ck_now_ms() < drain->by))
		return false;
	if (left > 0)
		ck_warn("stopping, and ending %zu programs that still run", left);
	return true;
}

const char *cks_drain_line(const struct cks_drain *drain)
{
	return drain->by ? "the server stops (drain)" : "the server stops";
}
