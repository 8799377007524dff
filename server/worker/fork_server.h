/*
 * server/worker/fork_server.h - the process from which workers of the emulated GPU are forked.
 *
 * It has executed this program, read the options and loaded the driver library, which takes a new
 * worker 2 ms of processor time. It has one thread, has called nothing of the driver, and logs
 * nothing. The supervisor is the parent of the workers that it forks, as of those that it executes
 * itself.
 *
 * Workers of one fork server share the layout of their addresses. Therefore those with a real GPU,
 * which take far longer for their contexts, are executed one by one.
 */
#ifndef CK_SERVER_WORKER_FORK_SERVER_H
#define CK_SERVER_WORKER_FORK_SERVER_H

#include "server/policy/terms.h"

struct cks_options;

#define CK_FORK_SERVER_ARGUMENT "--nursery" /* in the place of a worker's */
#define CK_FORK_SERVER_SOCKET                                                                      \
	3 /* SOCK_SEQPACKET: int32_t up: 0 once it is ready, then for each
				 * request down a process id or -errno */

/* A worker is wanted. The descriptors with it are its connection and its control socket. */
struct cks_fork_server_request {
	char gpus[CK_TERMS_GPUS]; /* its CUDA_VISIBLE_DEVICES; empty: the server's own */
};

/* Can workers be forked in this build, and on this system? */
int cks_fork_server_possible(void);

/* Serve until the socket's other end is closed: then this ends the process. Returns in each worker,
 * which has its descriptors in their places. */
void cks_fork_server_serve(const struct cks_options *options);

#endif
