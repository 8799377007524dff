/*
 * server/children/fork_server.h - the process from which workers of the emulated GPU are forked
 * (server/worker/fork_server.h).
 */
#ifndef CK_SERVER_CHILDREN_FORK_SERVER_H
#define CK_SERVER_CHILDREN_FORK_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cks_worker_command;

struct cks_fork_server {
	bool wanted;
	pid_t pid;   /* 0: there is none */
	int control; /* -1: it is ending */
	bool ready;
	int64_t begun; /* in ms, when it was started last */
};

/* Start it if workers have @driver. A failure is no error: workers are executed then. */
void cks_fork_server_start(struct cks_fork_server *fork_server, const char *driver,
			   struct cks_worker_command *command);
/* Wait a moment until it is ready. */
void cks_fork_server_await(struct cks_fork_server *fork_server);
void cks_fork_server_stop(struct cks_fork_server *fork_server);

/*
 * Fork a worker for @connection with @control, which stay the caller's: its process id. Waits until
 * it is there, about as long as a fork(2) takes. -ENOENT: there is no such process that is ready,
 * so execute one; else -errno.
 */
pid_t cks_fork_server_fork(struct cks_fork_server *fork_server, struct cks_worker_command *command,
			   int connection, int control, const char *gpus);

/* Process @pid has ended; false: it is another one. */
bool cks_fork_server_ended(struct cks_fork_server *fork_server, pid_t pid);

#endif
