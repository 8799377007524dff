/*
 * launcher/processes/worker.h - the process that has the driver and runs the kernels of one
 * session.
 *
 * It is a process of its own so that a fault, a crash inside the driver, or a kernel that never
 * ends harms nothing else: the session ends it and starts another.
 */
#ifndef CK_LAUNCHER_PROCESSES_WORKER_H
#define CK_LAUNCHER_PROCESSES_WORKER_H

#include <sys/types.h>

#include "launcher/options/options.h"

/* Microseconds that session and worker spin for a ticket of each other before they sleep. */
#define CK_SESSION_SPIN_US 100

/* A worker as its session sees it; sock is -1 without one. */
struct ckl_worker {
	int sock;
	pid_t pid;
	int pidfd;  /* -1 if the kernel has none: the pid is then used */
	bool ready; /* has said so */
};

/*
 * Fork one, which begins at once with the driver's initialisation, and is killed when its parent
 * ends. -errno. The caller must not have used CUDA, nor have threads.
 */
int ckl_worker_start(struct ckl_worker *worker, const struct ckl_options *options);

/* Kill it if it still runs, and forget it. */
void ckl_worker_end(struct ckl_worker *worker);

#endif
