/*
 * server/door/away.h - sessions that are not here for a while: on the way into files, in files, or
 * moved.
 *
 * Their clients ask for them. They must not hear that there is no such session, which would be its
 * end.
 */
#ifndef CK_SERVER_DOOR_AWAY_H
#define CK_SERVER_DOOR_AWAY_H

#include <stddef.h>
#include <stdint.h>

#define CK_AWAY_MAX 256 /* beyond that, the oldest is forgotten */
#define CK_AWAY_ADDRESS 256

struct cks_away;

/* NULL: out of memory. */
struct cks_away *cks_away_create(void);
void cks_away_destroy(struct cks_away *away);

/* @session is away, for @seconds at most. @address: where its client finds it; empty: not known
 * yet. */
void cks_away_put(struct cks_away *away, const unsigned char session[16], const char *address,
		  uint64_t seconds);

/* It is here again, or has ended. */
void cks_away_remove(struct cks_away *away, const unsigned char session[16]);

/* NULL: it is not away; else its address, or "". */
const char *cks_away_find(const struct cks_away *away, const unsigned char session[16]);

#endif
