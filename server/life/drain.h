/*
 * server/life/drain.h - after SIGTERM, until the running sessions have ended.
 *
 * Their users are warned at the beginning, and again five minutes before the end.
 */
#ifndef CK_SERVER_LIFE_DRAIN_H
#define CK_SERVER_LIFE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/children/workers.h"

struct cks_drain {
	int64_t by; /* stop at this time at the latest, in ms; 0: not draining */
};

void cks_drain_begin(struct cks_drain *drain, const struct cks_workers *workers, uint64_t seconds);
/* Continue after an upgrade, until @by (0: it does not drain); the sessions that there are were
 * warned of the beginning. */
void cks_drain_resume(struct cks_drain *drain, struct cks_workers *workers, int64_t by);
/* Warn the users of sessions that were not warned. Returns the milliseconds until the next call, or
 * until the end; -1: not draining. */
int64_t cks_drain_run(const struct cks_drain *drain, struct cks_workers *workers);
/* Is it over, so that the server stops? */
bool cks_drain_over(const struct cks_drain *drain, const struct cks_workers *workers);

/* Why sessions end when the server stops, for their users. */
const char *cks_drain_line(const struct cks_drain *drain);

#endif
