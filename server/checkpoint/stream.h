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
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"

#define CK_STREAM_FORMAT 1 /* that each release takes */
#define CK_STREAM_CHUNKS 2 /* with device memory in chunks */
#define CK_STREAM_GPUS 3   /* the sender names its GPUs, and may use lanes */
#define CK_STREAM_ALIVE 4  /* the receiver says that it is at work; the newest */

#define CK_STREAM_QUIET_MS 60000 /* until an exchange in which nothing moves has failed */
#define CK_STREAM_ALIVE_MS 10000 /* at least, between two words of a receiver at work */

/*
 * The program of the session may wait for the exchange, so it has a limit: not for all of it, but
 * for the time in which nothing moves. It holds for all processes that use the socket, also CRIU. A
 * call fails in which nothing is received for @ms.
 */
void cks_stream_limit(int fd, int ms);

/* A thread ends the exchange when the other end has taken nothing for @ms of what waits for it. */
struct cks_stream_watch {
	int fd, ms, end;
	bool still; /* it has */
	pthread_t thread;
};
int cks_stream_watch_begin(struct cks_stream_watch *watch, int fd, int ms);
/* True: it has ended the exchange. */
bool cks_stream_watch_end(struct cks_stream_watch *watch);

/* A receiver at work that has nothing else to say: {"alive": true}, at once, and again later. */
struct cks_alive {
	int stream;   /* -1: the sender's release does not understand it */
	int64_t said; /* in ms; 0: not yet */
};
/* @json: an object of the sender, which says in "alive" whether it understands that. */
void cks_stream_alive_begin(struct cks_alive *alive, int stream, const json_t *json);
void cks_stream_alive(struct cks_alive *alive);

/* Send @json, which it takes. 0 or -errno. */
int cks_stream_write(int fd, json_t *json);

/* The next object, the caller's to release; NULL: the other end has gone, or has sent something
 * else. */
json_t *cks_stream_read(int fd, struct cks_why *why);

/* Does the other end wait for an answer? False: it has said something meanwhile, or gone. */
bool cks_stream_waits(int fd);

/* The other end's report of its work, for which it may be at work for any time: 0, or -EREMOTEIO if
 * that failed, or another error. */
int cks_stream_result(int fd, struct cks_why *why);
/* The exchange has failed with @error, which it returns. */
int cks_stream_broken(int error, struct cks_why *why);
/* Sending has failed with @error: the other end may have said why. Returns an error. */
int cks_stream_failed(int fd, int error, struct cks_why *why);

/* Send file @name of folder @dir. */
int cks_stream_send_file(int fd, int dir, const char *name, struct cks_why *why);

/* The bytes of a file whose object @json was read, into a new file of folder @dir. */
int cks_stream_take_file(int fd, int dir, const json_t *json, struct cks_why *why);

#endif
