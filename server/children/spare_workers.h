/*
 * server/children/spare_workers.h - when to start processes without a client.
 */
#ifndef CK_SERVER_CHILDREN_SPARE_WORKERS_H
#define CK_SERVER_CHILDREN_SPARE_WORKERS_H

#include <stdint.h>

#include "server/children/workers.h"

struct cks_spare_workers {
	unsigned int warm, standby; /* wanted numbers: with contexts, without */
	unsigned int taken, lost;   /* as last seen in cks_spare_counts */
	unsigned int failures;	    /* consecutive failures */
	int64_t due;		    /* earliest time of the next start; in ms */
	int64_t warm_due;	    /* the same for the next contexts */
};

/* Start a spare if one is due, or kill one that does not get ready. Returns the milliseconds until
 * the next call, or -1: call again when one is taken or lost. */
int cks_spare_workers_run(struct cks_spare_workers *spares, struct cks_workers *workers);

#endif
