/*
 * server/supervisor/drain.c - the end of the server without an end of running programs.
 */
#include "server/supervisor/drain.h"
#include "server/supervisor/workers.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

void cks_drain_begin(struct cks_drain *drain, const struct cks_workers *workers, uint64_t seconds)
{
	drain->by = ck_now_ms() + (int64_t)seconds * 1000;
	ck_info("stopping when %zu running programs have ended, in %llu s at most (--drain)",
		cks_workers_serving(workers), (unsigned long long)seconds);
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
