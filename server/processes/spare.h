/*
 * server/processes/spare.h - a worker before its client has come.
 */
#ifndef CK_SERVER_PROCESSES_SPARE_H
#define CK_SERVER_PROCESSES_SPARE_H

struct ck_options;

/*
 * Load the driver, make the contexts that are asked for, say that this process is ready, and wait.
 * Returns when a client is there: its connection is CK_WORKER_CONNECTION, its hello not read.
 * What does not work is left to a fresh worker, which this process becomes with @argv, the
 * arguments that it was started with. Without a client it ends: CK_SPARE_FAILED, or 0 with the
 * server.
 */
void ck_spare_wait(const struct ck_options *options, char **argv);

#endif
