/*
 * server/checkpoint/stream.h - the messages of two servers while a session moves: JSON
 * objects, and files between them, over one socket.
 *
 * An object is its size, 4 bytes in network order, and its text. A file is the object
 * {"file": NAME, "size": BYTES} and its bytes; device memory is in chunks.h.
 */
#ifndef CK_SERVER_CHECKPOINT_STREAM_H
#define CK_SERVER_CHECKPOINT_STREAM_H

#include <jansson.h>

#include "server/checkpoint/failure_text.h"

#define CK_STREAM_FORMAT 1 /* that each release takes */
#define CK_STREAM_CHUNKS 2 /* with device memory in chunks */
#define CK_STREAM_GPUS 3   /* the sender names its GPUs, and may use lanes; the newest */

/* Send @json, which it takes. 0 or -errno. */
int cks_stream_write(int fd, json_t *json);

/* The next object, the caller's to release; NULL: the other end has gone, or has sent something
 * else. */
json_t *cks_stream_read(int fd, struct cks_why *why);

/* The other end's report of its work: 0, or -EREMOTEIO if that failed, or another error. */
int cks_stream_result(int fd, struct cks_why *why);
/* Sending has failed with @error: the other end may have said why. Returns an error. */
int cks_stream_failed(int fd, int error, struct cks_why *why);

/* Send file @name of folder @dir. */
int cks_stream_send_file(int fd, int dir, const char *name, struct cks_why *why);

/* The bytes of a file whose object @json was read, into a new file of folder @dir. */
int cks_stream_take_file(int fd, int dir, const json_t *json, struct cks_why *why);

#endif
