/*
 * server/worker/worker.h - the process of one session.
 */
#ifndef CK_SERVER_WORKER_WORKER_H
#define CK_SERVER_WORKER_WORKER_H

struct cks_options;

/*
 * Run the process `cricket-rpc-server --worker ...`; returns the exit status. @spare_argv: NULL, or
 * the arguments of a process `--spare ...`.
 */
int cks_worker_main(const struct cks_options *options, char **spare_argv);

#endif
