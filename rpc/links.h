/*
 * rpc/links.h - the lasting channels of a session, for its two ends.
 *
 * Each has a number, which the client chose; its connection is a link. This notices when links
 * break, also idle ones. The client then makes new ones (client/link/reconnect.c); the server waits
 * for them (server/worker/reconnect.c).
 */
#ifndef CK_RPC_LINKS_H
#define CK_RPC_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/lasting.h"

struct ck_links;

struct ck_link {
	struct ck_chan *chan; /* the lasting channel */
	uint32_t number;
	uint32_t kind; /* the owner's */
	struct ck_link *next;
	unsigned int held; /* by threads that found it: it is not freed */
	bool closing;
	int fd;	      /* of the connection that is watched; -1: none */
	bool listens; /* takes in all that comes, because no thread reads the channel */
	bool greeted; /* nothing more is to be taken in for the reader, except ends */
	bool relayed; /* the owner's: another connection shall replace its own */
};

/* @accept, @closure: as in struct ck_lasting_owner; NULL: the peer says nothing first. @guests: in
 * a program that may close descriptors that it does not know. -errno. */
int ck_links_create(int (*accept)(void *closure, struct ck_chan *connection), void *closure,
		    bool guests, struct ck_links **links);
/* Free the object; no channel may be left. */
void ck_links_destroy(struct ck_links *links);

/* A descriptor to poll, for reading; then call ck_links_handle. */
int ck_links_fd(struct ck_links *links);

/* Make that descriptor readable. */
void ck_links_wake(struct ck_links *links);

/* Has the program closed the descriptors that watch? It closes all that it does not know, then, and
 * the session ends. */
bool ck_links_unwatched(struct ck_links *links);

/* Wait up to @ms for an event of a link, and handle it. Returns whether there was one, or -errno;
 * -EBADF: ck_links_unwatched. */
int ck_links_handle(struct ck_links *links, int ms);

/* Make a channel without a connection. It is closed like any other. The link is held. -EEXIST: the
 * number is in use. */
int ck_links_open(struct ck_links *links, const char *peer, uint32_t number, uint32_t kind,
		  struct ck_link **link);

/* Find and hold a link; NULL: there is none. */
struct ck_link *ck_links_find(struct ck_links *links, uint32_t number);
void ck_links_put(struct ck_links *links, struct ck_link *link);

/* Hold up to @most links that are broken, not yet connected ones included; returns their number. */
size_t ck_links_broken(struct ck_links *links, struct ck_link **found, size_t most);

/* Hold up to @most links that are @relayed; returns their number. */
size_t ck_links_relayed(struct ck_links *links, struct ck_link **found, size_t most);

/* As ck_lasting_attach, and watch the connection. @listens: take in new bytes, because no thread
 * reads the channel. -EBADF, and @connection is closed: ck_links_unwatched. */
int ck_links_attach(struct ck_links *links, struct ck_link *link, struct ck_chan *connection,
		    uint64_t received, bool greets, bool listens);

/* As ck_lasting_detach, and watch no longer. */
void ck_links_detach(struct ck_links *links, struct ck_link *link, uint64_t *received);

/* Close all connections. The channels wait for others. */
void ck_links_cut(struct ck_links *links);

struct ck_links_state {
	size_t up, down; /* the others have ended */
	uint32_t ended;	 /* a bit for each kind (below 32) of which a channel has ended */
};

void ck_links_state(struct ck_links *links, struct ck_links_state *state);

/* Say goodbye on the channels of @kinds, a bit for each, within @ms. */
void ck_links_bye(struct ck_links *links, uint32_t kinds, int ms);

/* In a forked child: close its copies of the connections. Takes no lock. */
void ck_links_forked(struct ck_links *links);

#endif
