/*
 * server/door/absent_sessions.h - sessions that are not here for a while: on the way into files, in
 * files, or moved.
 *
 * Their clients ask for them. They must not hear that there is no such session, which would be its
 * end.
 */
#ifndef CK_SERVER_DOOR_ABSENT_SESSIONS_H
#define CK_SERVER_DOOR_ABSENT_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_ABSENT_MAX 256 /* beyond that, the oldest is forgotten */
#define CK_ABSENT_ADDRESS 256

struct cks_absent_sessions;

/* NULL: out of memory. */
struct cks_absent_sessions *cks_absent_sessions_create(void);
void cks_absent_sessions_destroy(struct cks_absent_sessions *away);

/* @session is about to leave, for any time until one of the next two. */
void cks_absent_sessions_leave(struct cks_absent_sessions *away, const unsigned char session[16]);

/* @session is away, for @seconds at most. @address: where its client finds it; empty: not known
 * yet. */
void cks_absent_sessions_put(struct cks_absent_sessions *away, const unsigned char session[16],
			     const char *address, uint64_t seconds);

/* It is here again, or has ended. */
void cks_absent_sessions_remove(struct cks_absent_sessions *away, const unsigned char session[16]);

/* NULL: it is not away; else its address, or "". *@leaves: it is about to leave; may be NULL. */
const char *cks_absent_sessions_find(const struct cks_absent_sessions *away,
				     const unsigned char session[16], bool *leaves);

#endif
