/*
 * server/processes/worker.h - the process of one session, and its messages to and from the
 * supervisor.
 */
#ifndef CK_SERVER_PROCESSES_WORKER_H
#define CK_SERVER_PROCESSES_WORKER_H

#include <stdint.h>

struct cks_options;

/* First argument of a worker, and of a spare one. */
#define CK_WORKER_ARGUMENT "--worker"
#define CK_SPARE_ARGUMENT "--spare"

/* Descriptors of a new worker. */
#define CK_WORKER_CONNECTION 3 /* the client's first, hello unread; spare: /dev/null */
#define CK_WORKER_CONTROL 4    /* a unix socket pair: struct cks_worker_note up, connections down */

/* Sent by the worker: a spare reports that its driver is initialised, and that its contexts exist;
 * each worker reports once that its session exists and connections may join it by this id. It asks
 * for the other sessions' free memory as often as it needs some. */
struct cks_worker_note {
	enum { CK_NOTE_STANDBY, CK_NOTE_READY, CK_NOTE_SESSION, CK_NOTE_PRESS } kind;
	unsigned char session[16];
};

/* Sent by the supervisor: with a connection, one that joins or a spare's client; alone, to a spare
 * that is to make its contexts. */
#define CK_CONTROL_JOIN 'J'
#define CK_CONTROL_CLIENT 'C'
#define CK_CONTROL_WARM 'W'
/* Without one: another session needs memory; and the answer that there is no other session. */
#define CK_CONTROL_PRESS 'P'
#define CK_CONTROL_ALONE 'A'

/* Exit status of a spare that failed to get ready. */
#define CK_SPARE_FAILED 3

/*
 * Run the process `cricket-rpc-server --worker ...`; returns the exit status. @spare_argv: NULL, or
 * the arguments of a process `--spare ...`.
 */
int cks_worker_main(const struct cks_options *options, char **spare_argv);

#endif
