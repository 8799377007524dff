/*
 * server/direct/direct.h - copies between this worker and one of another server, for the same
 * client.
 *
 * The client bridges two of its sessions: one issues tickets, and the other connects and shows
 * them. A bridge has a few connections and carries one copy at a time, in either direction. It is
 * only a shorter way: a client whose bridge fails carries the bytes itself.
 */
#ifndef CK_SERVER_DIRECT_DIRECT_H
#define CK_SERVER_DIRECT_DIRECT_H

#include <stddef.h>

struct ck_chan;
struct cks_allowed_peers;
struct cks_direct;
struct cks_session;

#define CK_TICKET 16 /* bytes */

/* -ENOMEM. Without cks_direct_set_up, this worker connects to no other. */
int cks_direct_create(struct cks_session *session, struct cks_direct **direct);
/* For tests: no copy may be in progress. Waits until no connection is used any more. */
void cks_direct_destroy(struct cks_direct *direct);

/* Which peers the worker may connect to (NULL: none), and the @count addresses at which its server
 * listens; both must live longer. */
void cks_direct_set_up(struct cks_direct *direct, const struct cks_allowed_peers *allowed,
		       const char *const *listen, size_t count);

/* A connection shows a ticket: take @chan, if it is one of an issued bridge. 0; -EACCES: no such
 * ticket, and @chan stays the caller's. Its first bytes follow only after cks_direct_begin. */
int cks_direct_admit(struct cks_direct *direct, const unsigned char ticket[CK_TICKET],
		     struct ck_chan *chan, void **place);
/* The reply to the ticket has been sent: the connection at @place can be used. */
void cks_direct_begin(void *place);

/* Close all connections: the session leaves its server. */
void cks_direct_leave(struct cks_direct *direct);

#endif
