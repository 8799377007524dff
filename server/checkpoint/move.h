/*
 * server/checkpoint/move.h - a worker from one server to another, without files in between.
 *
 * Device memory that the worker has in its pool goes first (chunks.h). CRIU sends the rest of the
 * worker's memory to a page server at the other end, which writes it to where it is restored from.
 * CRIU's other files follow, and the manifest. The worker here is stopped meanwhile; it ends when
 * the other server has it, and goes on if that fails.
 *
 *     sender                              receiver
 *                                         {"ok": true, "format": 1, "newest": 3}, or {"ok": false,
 *                                         "error": WHY}
 *     {"gpu": {...}}                      once or never, if the receiver knows 3
 *     {"lanes": COUNT} (lanes.h)          the same, if the first object has "lanes"
 *     {"memory": ...} (chunks.h)          as often as the sender likes, if the receiver knows 2
 *     {"pages": true}
 *     (CRIU's protocol for pages)
 *     {"file": NAME, "size": BYTES} BYTES...
 *     {"manifest": {...}}
 *                                         {"ok": true, "session": NAME}, or {"ok": false, "error":
 *                                         WHY}
 *     {"ok": true}: the worker here has ended; or {"ok": false}
 */
#ifndef CK_SERVER_CHECKPOINT_MOVE_H
#define CK_SERVER_CHECKPOINT_MOVE_H

#include <stdint.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/chunks.h"
#include "server/checkpoint/store.h"

/* A worker that moves. */
struct cks_move {
	const struct cks_checkpoint_job *job; /* directory and keep do not count */
	int stream;			      /* after the receiver's first object */
	struct cks_memory_file memory;	      /* in job->pool, with marks; empty: CRIU sends all */
	struct cks_chunks *chunks;	      /* the receiver's part of that */
	unsigned int rounds;		      /* that have sent some of it before */
};

/*
 * Send it. The caller frees @manifest, as for cks_checkpoint_save. 0: the other server has it, and
 * here it has ended. After an error it is as before, unless *gone, as there.
 */
int cks_move_send(const struct cks_move *move, struct cks_manifest *manifest, bool *gone,
		  struct cks_why *why);

/*
 * Receive one into the new folder @store->part, as a checkpoint for cks_checkpoint_open, after the
 * first object was sent; its device memory into @chunks. @here: the GPUs of this server, NULL: they
 * are not known yet. @door is open or closed. The caller calls cks_store_abandon.
 */
int cks_move_receive(const char *criu, int stream, const struct cks_store *store,
		     struct cks_chunks *chunks, const struct cks_manifest_gpu *here,
		     struct cks_lanes_door *door, struct cks_why *why);

/* Send the result, an object, which it takes. 0: the sender has given up its worker. -ECANCELED: it
 * has not, and the one that was received must end. -EPIPE: that is not known. */
int cks_move_confirm(int stream, json_t *result);

#endif
