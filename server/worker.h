/*
 * server/worker.h - the process of one session, and what it and the supervisor say to each other.
 */
#ifndef CK_SERVER_WORKER_H
#define CK_SERVER_WORKER_H

#include <stdint.h>

struct ck_options;

/* Descriptors that a worker is started with. */
#define CK_WORKER_CONNECTION 3 /* the client's first; its hello has not been read */
#define CK_WORKER_CONTROL 4    /* a unix socket pair: struct ck_worker_note up, connections down */

/* From the worker, once: its session stands, connections may join it by this id. */
struct ck_worker_note {
	unsigned char session[16];
};

/* From the supervisor, with each joining connection. */
#define CK_CONTROL_JOIN 'J'

/* The process `cricket-rpc-server --worker ...`; the exit status. */
int ck_worker_main(const struct ck_options *options);

#endif
