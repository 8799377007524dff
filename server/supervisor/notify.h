/*
 * server/supervisor/notify.h - tells systemd what the server does.
 */
#ifndef CK_SERVER_SUPERVISOR_NOTIFY_H
#define CK_SERVER_SUPERVISOR_NOTIFY_H

#include <stdint.h>

/* Tell systemd the @state, as in READY=1; without it, do nothing. */
void cks_notify(const char *state);

/* systemd ends a server that does not report in time (WatchdogSec=). */
struct cks_watchdog {
	int64_t every; /* ms between two reports; 0: none are wanted */
	int64_t next;
};

/* Read what systemd wants. */
void cks_watchdog_init(struct cks_watchdog *watchdog);

/* Report, if it is time. Returns the ms until the next time, or -1: never. */
int64_t cks_watchdog_run(struct cks_watchdog *watchdog);

#endif
