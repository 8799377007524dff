/*
 * server/children/queue.h - clients that wait for a session because the server, or their identity,
 * has no more.
 *
 * A client waits by asking again: each time the supervisor holds its hello for up to
 * CK_QUEUE_HOLD_MS, and then tells it its place. A ticket of its own choice keeps the place in
 * between; one that does not come back in time loses it. A session that becomes free goes to the
 * identity that has fewest, and of these to the client that has waited longest.
 */
#ifndef CK_SERVER_CHILDREN_QUEUE_H
#define CK_SERVER_CHILDREN_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/processes/session_info.h"

struct cks_workers;

#define CK_QUEUE_MAX 256
#define CK_QUEUE_OF_IDENTITY 64
#define CK_QUEUE_TICKET 16
#define CK_QUEUE_HOLD_MS 3000
#define CK_QUEUE_BACK_MS 5000 /* until a client has asked again */

struct cks_waiter {
	unsigned char ticket[CK_QUEUE_TICKET];
	struct cks_owner owner;
	char program[CK_NOTE_TEXT], host[CK_NOTE_HOST]; /* as the client calls itself */
	unsigned int client_pid;
	int64_t since, seen; /* in ms */
};

struct cks_queue {
	struct cks_waiter list[CK_QUEUE_MAX]; /* the longest first */
	size_t count;
};

/* The client of @owner with @ticket; NULL: it does not wait. */
struct cks_waiter *cks_queue_find(struct cks_queue *queue, const struct cks_owner *owner,
				  const unsigned char ticket[CK_QUEUE_TICKET]);
/* A copy of @waiter waits from now on. NULL: too many do, in all or of its identity. */
struct cks_waiter *cks_queue_enter(struct cks_queue *queue, const struct cks_waiter *waiter);
void cks_queue_leave(struct cks_queue *queue, struct cks_waiter *waiter);

/* Forget those that have not come back. */
void cks_queue_expire(struct cks_queue *queue, int64_t now);

/* The place of @waiter, from 1 on: how many have waited longer. */
size_t cks_queue_place(const struct cks_queue *queue, const struct cks_waiter *waiter);

/* Does any that waits come before a client of @owner that has waited since @since? @may: could a
 * client of this owner have a session now? */
bool cks_queue_others_first(const struct cks_queue *queue, const struct cks_workers *workers,
			    const struct cks_owner *owner, int64_t since,
			    bool (*may)(const void *data, const struct cks_owner *owner),
			    const void *data);

#endif
