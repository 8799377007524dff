/*
 * server/processes/worker.h - the process of one session, and what it and the supervisor say to each other.
 */
#ifndef CK_SERVER_PROCESSES_WORKER_H
#define CK_SERVER_PROCESSES_WORKER_H

#include <stdint.h>

struct ck_options;

/* First argument of a worker, and of one that gets ready for a client which is still to come. */
#define CK_WORKER_ARGUMENT "--worker"
#define CK_SPARE_ARGUMENT "--spare"

/* Descriptors that a worker is started with. */
#define CK_WORKER_CONNECTION 3 /* the client's first, its hello not read; of a spare: /dev/null */
#define CK_WORKER_CONTROL 4    /* a unix socket pair: struct ck_worker_note up, connections down */

/* From the worker: once from a spare, that it is ready; once from each, that its session stands
 * and connections may join it by this id. */
struct ck_worker_note {
	enum { CK_NOTE_READY, CK_NOTE_SESSION } kind;
	unsigned char session[16];
};

/* From the supervisor, with a connection: one that joins; a spare's client. */
#define CK_CONTROL_JOIN 'J'
#define CK_CONTROL_CLIENT 'C'

/* The exit status of a spare that could not get ready. */
#define CK_SPARE_FAILED 3

/*
 * The process `cricket-rpc-server --worker ...`; the exit status. @spare_argv: NULL, or the
 * arguments of a process `--spare ...`.
 */
int ck_worker_main(const struct ck_options *options, char **spare_argv);

#endif
