/*
 * server/checkpoint/lanes.h - further connections of a move, which carry chunks beside the main
 * one, each in a thread of its own.
 *
 * The receiver listens while a session comes, and says in its first object where, with a secret
 * (lanes_open.c). The sender connects, if it can, and all are encrypted with that secret:
 *
 *     sender                              receiver
 *     {"lanes": COUNT}                    if it has connected
 *     (TLS on one after the other)
 *                                         {"ok": true, "lanes": COUNT}, or another count: there
 *                                         are none
 *
 * Afterwards they carry chunks and nothing else, in turn: the records on the main connection say
 * which (chunks.h). They are read and written only between cks_lanes_start and cks_lanes_stop.
 */
#ifndef CK_SERVER_CHECKPOINT_LANES_H
#define CK_SERVER_CHECKPOINT_LANES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"
#include "util/hash.h"

#define CKS_LANES 4
#define CKS_LANES_TASKS ((size_t)(2 * CKS_LANES)) /* that are given and not done */

struct ck_chan;
struct ck_tls;
struct cks_lanes;

/* --- lanes_open.c */

/* Of the receiver. */
struct cks_lanes_door {
	int fd; /* -1: it does not listen */
	struct ck_hash secret;
};

/* Listen at the host of @server, an address at which the server itself listens for TCP; NULL: it
 * does not. Result: what the sender needs to know, for the caller; NULL: there will be no lanes. */
json_t *cks_lanes_listen(struct cks_lanes_door *door, const char *server);
void cks_lanes_close(struct cks_lanes_door *door); /* accepts a closed one */

/* The object @json has come on @stream: take as many connections as it says, within some seconds,
 * answer, and listen no more. 0, with *@lanes, NULL: there are none; or -errno. */
int cks_lanes_accept(struct cks_lanes_door *door, int stream, const json_t *json,
		     struct cks_lanes **lanes, struct cks_why *why);

/* At the sender: what cks_lanes_listen said, and the @address of the server. As above. */
int cks_lanes_dial(const json_t *door, const char *address, int stream, struct cks_lanes **lanes,
		   struct cks_why *why);

/* --- lanes.c */

/* Takes the channels, and @tls, which they use; NULL: no memory, and they are closed. */
struct cks_lanes *cks_lanes_create(struct ck_chan *const chans[CKS_LANES], struct ck_tls *tls);
void cks_lanes_destroy(struct cks_lanes *lanes); /* accepts NULL */

/*
 * Let threads do tasks from now on: @work, of the task with a number, on its connection; 0 or
 * -errno. The first error ends all connections, for both servers; and @stream, if it is not -1,
 * gives no more bytes, so that a thread that reads it goes on. 0 or -errno.
 */
int cks_lanes_start(struct cks_lanes *lanes,
		    int (*work)(void *data, struct ck_chan *chan, size_t task), void *data,
		    int stream);
/* The number of the next task, when at most CKS_LANES_TASKS will not be done with it: 0, or the
 * first error of any. And give it. */
int cks_lanes_next(struct cks_lanes *lanes, size_t *task);
void cks_lanes_give(struct cks_lanes *lanes);
/* Until tasks below @end are done. 0, or the first error of any. */
int cks_lanes_wait(struct cks_lanes *lanes, size_t end);
/* No more tasks; @failed: those that were given are not done either. 0, or the first error. */
int cks_lanes_stop(struct cks_lanes *lanes, bool failed);

#endif
