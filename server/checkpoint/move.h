/*
 * server/checkpoint/move.h - a worker from one server to another, without files in between.
 *
 * CRIU sends the worker's memory to a page server at the other end, which writes it to where it is
 * restored from. CRIU's other files follow, and the manifest. The worker here is stopped meanwhile;
 * it ends when the other server has it, and goes on if that fails.
 *
 *     sender                              receiver
 *                                         {"ok": true, "format": 1}, or {"ok": false, "error": WHY}
 *     {"pages": true}
 *     (CRIU's protocol for pages)
 *     {"file": NAME, "size": BYTES} BYTES...
 *     {"manifest": {...}}
 *                                         {"ok": true, "session": NAME}, or {"ok": false, "error":
 *                                         WHY}
 *     {"ok": true}
 */
#ifndef CK_SERVER_CHECKPOINT_MOVE_H
#define CK_SERVER_CHECKPOINT_MOVE_H

#include <stdint.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/store.h"

/*
 * Send the worker of @job, of which directory and keep do not count, over @stream, after the
 * receiver's first object. The caller frees @manifest, as for cks_checkpoint_save. 0: the other
 * server has it, and here it has ended. After an error it is as before.
 */
int cks_move_send(const struct cks_checkpoint_job *job, int stream, struct cks_manifest *manifest,
		  struct cks_why *why);

/*
 * Receive one into the new folder @store->part, as a checkpoint for cks_checkpoint_open, after the
 * first object was sent. The caller calls cks_store_abandon.
 */
int cks_move_receive(const char *criu, int stream, const struct cks_store *store,
		     struct cks_why *why);

/* Send the result, an object, which it takes. 0: the sender has given up its worker. Else the one
 * that was received must end. */
int cks_move_confirm(int stream, json_t *result);

#endif
