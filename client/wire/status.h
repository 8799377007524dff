/*
 * client/wire/status.h - events and streams that the program asks for again and again: the server says when
 * they are done, so that asking is a look at a word.
 *
 * Every object has a word by its id. Where the server is on this host it writes the words itself,
 * into memory that both have (rpc/status.h); elsewhere a thread of ours does that as the news
 * comes (client/wire/delivery.h).
 */
#ifndef CK_CLIENT_WIRE_STATUS_H
#define CK_CLIENT_WIRE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/object.h"

struct ck_client;

enum ck_status {
	CK_STATUS_UNKNOWN,		/* ask */
	CK_STATUS_PENDING,
	CK_STATUS_DONE,
};

/*
 * What is known of @of, a record of an event or a point in a stream, whose watch is @watch. It stays
 * PENDING for a quarter of a second at most, then the server is asked whether it is still there.
 */
enum ck_status ck_status_look(const struct ck_client *c, const struct ck_watch *watch, uint64_t of);

/* A number for a watch of the object @id, to ask with; 0: the server cannot tell us later. */
uint64_t ck_status_number(struct ck_client *c, uint64_t id);

/* The server watches @of under @number from now on. */
void ck_status_watched(struct ck_client *c, struct ck_watch *watch, uint64_t of, uint64_t number);

/* News of the end of watch @number, in the order of the batches: @what as rpc/status.h has it. */
void ck_status_news(struct ck_client *c, uint64_t number, uint64_t what);

#endif
