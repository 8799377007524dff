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

static void warn(struct cks_workers *workers, uint64_t seconds)
{
	char line[CK_NOTE_TEXT], left[CK_TIME_TEXT];
	struct cks_session_info *s = NULL;

	snprintf(line, sizeof(line), "the session ends in %s at most: the server stops (drain)",
		 cks_print_time(seconds, left));
	while ((s = cks_workers_next(workers, s)) != NULL)
		cks_workers_say(s, line, false);
}

void cks_drain_begin(struct cks_drain *drain, struct cks_workers *workers, uint64_t seconds)
{
	int64_t ms = (int64_t)seconds * 1000;

	drain->by = ck_now_ms() + ms;
	drain->warned = ms <= CK_WARN_MS;
	ck_info("stopping when %zu running programs have ended, in %llu s at most (--drain)",
		cks_workers_serving(workers), (unsigned long long)seconds);
	warn(workers, seconds);
}

int64_t cks_drain_run(struct cks_drain *drain, struct cks_workers *workers)
{
	int64_t now = ck_now_ms();

	if (!drain->by)
		return -1;
	if (!drain->warned && now >= drain->by - CK_WARN_MS) {
		warn(workers, (uint64_t)(ck_max(drain->by - now, (int64_t)0) + 999) / 1000);
		drain->warned = true;
	}
	return ck_max(drain->by - (drain->warned ? 0 : CK_WARN_MS) - now, (int64_t)0);
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
