/*
 * server/worker/spare.h - a worker that is started before its client connects.
 */
#ifndef CK_SERVER_WORKER_SPARE_H
#define CK_SERVER_WORKER_SPARE_H

struct cks_options;

/*
 * Load and initialise the driver, report it, and wait. Make the configured contexts when told to.
 * Returns when a client has connected: its connection is CK_WORKER_CONNECTION, its hello unread. If
 * something fails, this process becomes a fresh worker with @argv, its own arguments. Without a
 * client it exits: with CK_SPARE_FAILED, or with 0 when the server stops.
 */
void cks_spare_wait(const struct cks_options *options, char **argv);

#endif
