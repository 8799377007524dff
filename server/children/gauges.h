/*
 * server/children/gauges.h - the process that measures GPU time (server/helpers/gauge.h), for
 * --gpu-time.
 */
#ifndef CK_SERVER_CHILDREN_GAUGES_H
#define CK_SERVER_CHILDREN_GAUGES_H

#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

struct cks_workers;

struct cks_gauge {
	bool wanted;
	const char *driver;
	int control; /* -1: there is no process */
	pid_t pid;
};

/* Start it if it is @wanted. A failure is logged: sessions have no GPU time then. */
void cks_gauge_start(struct cks_gauge *gauge, bool wanted, const char *driver);
void cks_gauge_stop(struct cks_gauge *gauge);

/* Fill in one descriptor; and take reports. */
void cks_gauge_poll(const struct cks_gauge *gauge, struct pollfd *fd);
void cks_gauge_run(struct cks_gauge *gauge, struct cks_workers *workers);

/* Process @pid has ended; false: it is another one. */
bool cks_gauge_ended(struct cks_gauge *gauge, pid_t pid);

#endif
