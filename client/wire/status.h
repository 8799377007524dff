/*
 * client/wire/status.h - events and streams that the program polls. The server reports when they
 * are done, so that a query only reads a word.
 *
 * Each object has a word by its id. A server on this host writes the words itself, in shared memory
 * (rpc/status.h). Otherwise a client thread writes them as news arrives (client/wire/delivery.h).
 */
#ifndef CK_CLIENT_WIRE_STATUS_H
#define CK_CLIENT_WIRE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/object.h"

struct ckc_client;

enum ckc_status {
	CK_STATUS_UNKNOWN, /* ask the server */
	CK_STATUS_PENDING,
	CK_STATUS_DONE,
};

/*
 * The known state of @of, a record of an event or a point in a stream, which @watch watches. It
 * stays PENDING for at most a quarter of a second; then the client asks the server, to notice if it
 * is gone.
 */
enum ckc_status ckc_status_look(struct ckc_client *c, const struct ckc_watch *watch, uint64_t of);

/* A number for a watch of object @id, to send with a query. 0: the server cannot report later. */
uint64_t ckc_status_number(struct ckc_client *c, uint64_t id);

/* A query of the server for an event took so long. */
void ckc_status_asked(struct ckc_client *c, uint64_t ns);

/*
 * The same for an event that is being recorded, to send with the record. 0: do not. The first query
 * after each record would take a round trip, behind all commands before it. So where that is long,
 * the events of a program that queries events are watched from their record.
 */
uint64_t ckc_status_follow(struct ckc_client *c, uint64_t id);

/* The program has queried an event: it will query the next ones too. */
void ckc_status_queried(struct ckc_client *c);

/* From now on, the server watches @of under @number. */
void ckc_status_watched(struct ckc_client *c, struct ckc_watch *watch, uint64_t of,
			uint64_t number);

/* The watch @number has ended; news come in the order of the batches. @what: see rpc/status.h. */
void ckc_status_news(struct ckc_client *c, uint64_t number, uint64_t what);

#endif
