/*
 * server/checkpoint/move.h - a worker from one server to another, without files in between.
 *
 * Device memory that the worker has in its pool goes first (chunks.h). CRIU sends the rest of the
 * worker's memory to a page server at the other end, which writes it to where it is restored from.
 * CRIU's other files follow, and the manifest. The worker here is stopped meanwhile; it ends when
 * the other server has it, and goes on if that fails.
 *
 *     sender                              receiver
 *                                         {"ok": true, "format": 1, "newest": 4}, or {"ok": false,
 *                                         "error": WHY}
 *     {"gpu": {...}}                      once or never, if the receiver knows 3
 *     {"lanes": COUNT} (lanes.h)          the same, if the first object has "lanes"
 *     {"memory": ...} (chunks.h)          as often as the sender likes, if the receiver knows 2
 *     {"pages": true, "alive": true}
 *     (CRIU's protocol for pages)
 *     {"file": NAME, "size": BYTES} BYTES...
 *     {"manifest": {...}}
 *                                         {"alive": true}, any number of times, if "pages" had
 *                                         "alive"
 *                                         {"ok": true, "session": NAME}, or {"ok": false, "error":
 *                                         WHY}
 *     {"ok": true}: the worker here has ended; or {"ok": false}
 *
 * The sender decides: the receiver has the session only when the last object is true. So the sender
 * may give up at any time before, and does so when the receiver stands still (stream.h),
 * even if that restores the session later. The receiver waits for the last object without a limit:
 * until then, it does not know who has the session.
 */
#ifndef CK_SERVER_CHECKPOINT_MOVE_H
#define CK_SERVER_CHECKPOINT_MOVE_H

#include <stdint.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/chunks.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/stream.h"

/* A worker that moves. */
struct cks_move {
	const struct cks_checkpoint_job *job; /* directory and keep do not count */
	int stream;			      /* after the receiver's first object */
	struct cks_memory_file memory;	      /* in job->pool, with marks; empty: CRIU sends all */
	struct cks_chunks *chunks;	      /* the receiver's part of that */
	unsigned int rounds;		      /* that have sent some of it before */
	struct cks_stream_watch watch;
	bool watched;
};

/* Before anything else is sent, to a receiver that knows @format: begin the limits of the exchange,
 * unless they have begun. And end them, after the result @ret, or an error, that it returns. */
int cks_move_watch(struct cks_move *move, json_int_t format, struct cks_why *why);
int cks_move_unwatch(struct cks_move *move, int ret, struct cks_why *why);

/*
 * Send it. The caller frees @manifest, as for cks_checkpoint_save. 0: the other server has it, and
 * here it has ended. After an error it is as before, unless *gone, as there.
 */
int cks_move_send(const struct cks_move *move, struct cks_manifest *manifest, bool *gone,
		  struct cks_why *why);

/* A worker that comes. */
struct cks_arrival {
	const char *criu;
	int stream;			     /* after the first object was sent */
	const struct cks_store *store;	     /* cks_store_abandon is the caller's */
	struct cks_chunks chunks;	     /* its device memory */
	const struct cks_manifest_gpu *here; /* of this server; NULL: they are not known yet */
	struct cks_lanes_door *door;	     /* open or closed */
	struct cks_alive alive;		     /* for the time until the result */
};

/* Receive it into the new folder @store->part, as a checkpoint for cks_checkpoint_open. */
int cks_move_receive(struct cks_arrival *arrival, struct cks_why *why);

/* Send the result, an object, which it takes. 0: the sender has given up its worker. -ECANCELED: it
 * has not, and the one that was received must end. -EPIPE: that is not known. */
int cks_move_confirm(int stream, json_t *result);

#endif
